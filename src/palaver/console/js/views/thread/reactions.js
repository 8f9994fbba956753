// @ts-check
// Reactions: the pills under a message and the picker.

import { post, remove, url, withQuery } from "../../data/api.js";
import { can, me, myReactorId } from "../../data/session.js";
import { addReaction, removeReaction } from "../../data/thread_messages.js";
import { loadEmoji } from "../../ui/emoji.js";
import { icon, placeMenu } from "../../ui/elements.js";
import { notifyError } from "../../ui/dialog.js";
import { html, nothing, redraw, repeat, t } from "../../ui/templates.js";

const LABELS = ["👍", "👎", "agree", "disagree", "important", "done", "flag", "🎉", "❤️", "👀"];

const isMine = (reaction) => reaction.agent_id === myReactorId();

// Add my reaction, or remove it. It is shown at once and undone if the server refuses it.
async function toggleReaction(message, label) {
  const mine = { agent_id: myReactorId(), agent_name: me.name, reaction: label };
  const isSet = message.reactions.some((one) => one.reaction === label && isMine(one));
  const [apply, undo] = isSet ? [removeReaction, addReaction] : [addReaction, removeReaction];
  apply(message, mine);
  redraw();
  const path = url`/api/messages/${message.id}/reactions`;
  try {
    if (isSet) await remove(withQuery(`${path}/${encodeURIComponent(label)}`, { agent_id: mine.agent_id }));
    else await post(path, { reaction: label, agent_id: mine.agent_id });
  } catch (error) {
    undo(message, mine);
    redraw();
    notifyError(error);
  }
}

export function reactionPills(message) {
  if (!message.reactions.length) return nothing;
  const byLabel = new Map();
  for (const one of message.reactions) byLabel.set(one.reaction, [...(byLabel.get(one.reaction) ?? []), one]);
  return html`<div class="pills" role="group" aria-label=${t("Reactions")}>
    ${repeat(
      [...byLabel],
      ([label]) => label,
      ([label, all]) => pill(message, label, all),
    )}
  </div>`;
}

function pill(message, label, all) {
  const nameOf = (one) => (isMine(one) ? "you" : one.agent_name || one.agent_id?.replace(/^human:/, "") || "anonymous");
  const names = all.map(nameOf).join(", ");
  const times = all.length > 1 ? ` ×${all.length}` : "";
  return html`<button type="button" class="pill" aria-pressed=${all.some(isMine)} title=${names} ?disabled=${!can("write")}
    aria-label="${label}${times}, ${names}" @click=${() => toggleReaction(message, label)}
    ><span class="label">${label}</span>${times ? html`<span class="times">${times}</span>` : nothing}</button>`;
}

export function reactionPicker(message) {
  const choose = (event, label) => {
    event.target.closest("details").open = false;
    toggleReaction(message, label);
  };
  const submit = (event) => {
    event.preventDefault();
    const label = event.target.elements.label.value.trim();
    if (!label) return;
    event.target.reset();
    if (/^:[\w+-]+:$/.test(label)) loadEmoji().then(({ withoutShortcode }) => choose(event, withoutShortcode(label)));
    else choose(event, label);
  };
  const showEmoji = (event) => {
    const picker = event.target.closest("details");
    const panel = picker.querySelector(".more-emoji");
    loadEmoji().then(({ mountEmojiPanel }) => {
      mountEmojiPanel(panel, (emoji) => choose({ target: panel }, emoji));
      placeMenu(picker); // it has grown
    });
  };
  return html`<details class="menu picker">
    <summary class="quiet" aria-label=${t("React")} title=${t("React")}>${icon("smile")}</summary>
    <div>
      <div class="labels">${LABELS.map((label) => html`<button type="button" @click=${(event) => choose(event, label)}>${label}</button>`)}<button type="button" aria-label=${t("All emoji")} title=${t("All emoji")} @click=${showEmoji}>${icon("smile")}</button></div>
      <div class="more-emoji"></div>
      <form @submit=${submit}><input name="label" maxlength="64" placeholder=${t("Your own word")} aria-label=${t("Another reaction")} autocomplete="off" /></form>
    </div>
  </details>`;
}
