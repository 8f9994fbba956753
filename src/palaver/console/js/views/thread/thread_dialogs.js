// @ts-check
// Dialogs about a thread: create, rename, delete, details.

import { newTopic } from "../../data/drafts.js";
import { createThread, deleteThread, updateThread } from "../../data/threads.js";
import { goTo, linkToThread } from "../../route.js";
import { confirmDialog, openDialog, promptDialog } from "../../ui/dialog.js";
import { formatNumber, plural, shortTime } from "../../ui/format.js";
import { html, nothing } from "../../ui/render.js";
import { t } from "../../ui/texts.js";

export const newThread = () =>
  promptDialog(
    t("New thread"),
    { label: t("Topic"), action: t("Create"), value: newTopic.get(), onInput: newTopic.set },
    async (topic) => {
      const { id } = await createThread(topic);
      newTopic.set("");
      goTo(linkToThread(id));
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
