// @ts-check
// Dialogs about a thread: create, rename, delete, details.

import { newTopic } from "../../data/drafts.js";
import { createThread, deleteThread, updateThread } from "../../data/threads.js";
import { goTo, linkToThread } from "../../route.js";
import { confirmDialog, openDialog, promptDialog } from "../../ui/dialog.js";
import { formatNumber, plural, shortTime } from "../../ui/format.js";
import { html, nothing } from "../../ui/render.js";

export const newThread = () =>
  promptDialog(
    "New thread",
    { label: "Topic", action: "Create", value: newTopic.get(), onInput: newTopic.set },
    async (topic) => {
      const { id } = await createThread(topic);
      newTopic.set("");
      goTo(linkToThread(id));
    },
  );

export const renameThread = (thread) =>
  promptDialog("Rename thread", { label: "Topic", value: thread.topic }, (topic) => updateThread(thread, { topic }));

export const confirmDeleteThread = (thread) =>
  confirmDialog(
    "Delete thread",
    `“${thread.topic}” and its ${plural(thread.message_count, "message")} will be deleted for good. To keep them, archive the thread instead.`,
    "Delete",
    async () => {
      await deleteThread(thread);
      goTo("#/threads");
    },
  );

export const showThreadDetails = (thread, participants) =>
  openDialog(
    "Thread details",
    () => html`<dl class="facts">
    <dt>Topic</dt><dd>${thread.topic}</dd>
    <dt>Status</dt><dd>${thread.status}</dd>
    <dt>Messages</dt><dd>${formatNumber(thread.message_count)}</dd>
    <dt>Created</dt><dd>${shortTime(thread.created_at)}</dd>
    ${thread.summary ? html`<dt>Summary</dt><dd>${thread.summary}</dd>` : nothing}
    ${thread.system_prompt ? html`<dt>System prompt</dt><dd class="pre">${thread.system_prompt}</dd>` : nothing}
    ${thread.template_id ? html`<dt>Template</dt><dd>${thread.template_id}</dd>` : nothing}
    <dt>Participants</dt><dd>${participants.join(", ") || "None yet"}</dd>
    <dt>Id</dt><dd><code>${thread.id}</code></dd>
  </dl>`,
  );
