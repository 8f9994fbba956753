// @ts-check
// Dialogs about a thread: create, rename, rules, delete, details.

import { get } from "../../data/api.js";
import { newTopic } from "../../data/drafts.js";
import { can } from "../../data/session.js";
import { createThread, deleteThread, updateThread } from "../../data/threads.js";
import { goTo, linkToThread } from "../../route.js";
import { closeDialog, confirmDialog, formDialog, notifyError, openDialog, promptDialog } from "../../ui/dialog.js";
import { formatNumber, plural, shortTime } from "../../ui/format.js";
import { html, nothing, redraw, t } from "../../ui/templates.js";

// A new thread, with a template and rules for those who open that part of the dialog.
export function newThreadFrom(template = "") {
  /** @type {any[]} */
  let templates = [];
  const loadTemplates = async () => {
    templates = await get("/api/templates");
    redraw();
  };
  if (template) loadTemplates().catch(notifyError);
  formDialog(
    t("New thread"),
    () => html`<label>${t("Topic")} <input name="topic" data-kept required maxlength="500" autocomplete="off" autofocus pattern=".*\\S.*" .value=${newTopic.get()}
      @input=${(event) => newTopic.set(event.target.value)} /></label>
    <details ?open=${template !== ""} @toggle=${() => templates.length || loadTemplates().catch(notifyError)}><summary>${t("Template and rules")}</summary>
      <div class="sheet"><label>${t("Template")} <select name="template"><option value="">${t("None")}</option>${templates.map(
        (one) => html`<option value=${one.id} ?selected=${one.id === template}>${one.name}</option>`,
      )}</select></label>
      <label>${t("Rules for agents in this thread, instead of those of the template")} <textarea name="rules"></textarea></label></div></details>`,
    { action: "Create" },
    async (form) => {
      const { topic, template: chosen, rules } = form.elements;
      const { id } = await createThread(topic.value.trim(), { template: chosen.value, rules: rules.value.trim() });
      newTopic.set("");
      closeDialog();
      goTo(linkToThread(id));
    },
  );
}

export const newThread = () => newThreadFrom();

// The rules that agents of a thread read when they join it.
export const editRules = (thread, onSaved) =>
  formDialog(
    t("Rules"),
    () => html`<label>${t("Rules for all agents in this thread. They read them when they join.")}
      <textarea name="rules" class="long" autofocus ?readonly=${!can("write")} .value=${thread.system_prompt ?? ""}></textarea></label>`,
    { action: can("write") ? "Save" : "" },
    async (form) => {
      onSaved(await updateThread(thread, { system_prompt: form.elements.rules.value.trim() }));
      closeDialog();
    },
  );

export const renameThread = (thread) =>
  promptDialog(t("Rename thread"), { label: t("Topic"), value: thread.topic }, (topic) =>
    updateThread(thread, { topic }),
  );

export const confirmDeleteThread = (thread) =>
  confirmDialog(
    t("Delete thread"),
    t("“{topic}” and its {messages} will be deleted for good. To keep them, archive the thread instead.", {
      topic: thread.topic,
      messages: plural(thread.message_count, "message"),
    }),
    "Delete",
    async () => {
      await deleteThread(thread);
      goTo("#/threads");
    },
  );

export const showThreadDetails = (thread, participants) =>
  openDialog(
    t("Thread details"),
    () => html`<dl class="facts">
    <dt>${t("Topic")}</dt><dd>${thread.topic}</dd>
    <dt>${t("Status")}</dt><dd>${t(thread.status)}</dd>
    <dt>${t("Messages")}</dt><dd>${formatNumber(thread.message_count)}</dd>
    <dt>${t("Created")}</dt><dd>${shortTime(thread.created_at)}</dd>
    ${thread.summary ? html`<dt>${t("Summary")}</dt><dd>${thread.summary}</dd>` : nothing}
    ${thread.system_prompt ? html`<dt>${t("System prompt")}</dt><dd class="pre">${thread.system_prompt}</dd>` : nothing}
    ${thread.template_id ? html`<dt>${t("Template")}</dt><dd>${thread.template_id}</dd>` : nothing}
    <dt>${t("Participants")}</dt><dd>${participants.join(", ") || t("None yet")}</dd>
    <dt>${t("Id")}</dt><dd><code>${thread.id}</code></dd>
  </dl>`,
  );
