// Reactions: pills under a message, and a small picker.

import { at, post, remove, withQuery } from "./api.js";
import { failed, icon } from "./parts.js";
import { may, me, myReactor } from "./state.js";
import { addReaction, removeReaction } from "./talk.js";
import { html, nothing, redraw, repeat } from "./view.js";

const LABELS = ["👍", "👎", "agree", "disagree", "important", "done", "flag", "🎉", "❤️", "👀"];

export function grouped(reactions) {
  const groups = new Map();
  for (const one of reactions) {
    if (!groups.has(one.reaction)) groups.set(one.reaction, []);
    groups.get(one.reaction).push(one);
  }
  return [...groups];
}

const isMine = (one) => one.agent_id === myReactor();

export function nameOf({ agent_id: id, agent_name: name }) {
  if (id === myReactor()) return "you";
  if (name) return name;
  return id ? id.replace(/^human:/, "") : "somebody";
}

export async function toggle(message, label) {
  const who = { agent_id: myReactor(), agent_name: me.name, reaction: label };
  const mine = message.reactions.some((one) => one.reaction === label && isMine(one));
  const act = mine ? removeReaction : addReaction;
  const undo = mine ? addReaction : removeReaction;
  act(message, who); // at once; the server's word comes a moment later and means the same
  redraw();
  try {
    if (mine) await remove(withQuery(at`/api/messages/${message.id}/reactions/${label}`, { agent_id: who.agent_id }));
    else await post(at`/api/messages/${message.id}/reactions`, { reaction: label, agent_id: who.agent_id });
  } catch (problem) {
    undo(message, who);
    redraw();
    failed(problem);
  }
}

export function pills(message) {
  if (!message.reactions.length) return nothing;
  return html`<div class="pills" role="group" aria-label="Reactions">
    ${repeat(
      grouped(message.reactions),
      ([label]) => label,
      ([label, all]) => pill(message, label, all),
    )}
  </div>`;
}

function pill(message, label, all) {
  const names = all.map(nameOf).join(", ");
  const mine = all.some(isMine);
  const times = all.length > 1 ? ` ×${all.length}` : "";
  return html`<button type="button" class="pill" aria-pressed=${mine} title=${names} ?disabled=${!may("write")}
    aria-label="${label}${times}, ${names}" @click=${() => toggle(message, label)}
    ><span class="label">${label}</span>${times ? html`<span class="times">${times}</span>` : nothing}</button>`;
}

export function picker(message) {
  const choose = (event, label) => {
    event.target.closest("details").open = false;
    toggle(message, label);
  };
  const own = (event) => {
    event.preventDefault();
    const label = event.target.elements.label.value.trim();
    if (!label) return;
    event.target.reset();
    choose(event, label);
  };
  return html`<details class="menu picker">
    <summary class="quiet" aria-label="React" title="React">${icon("smile")}</summary>
    <div>
      <div class="labels">${LABELS.map((label) => html`<button type="button" @click=${(event) => choose(event, label)}>${label}</button>`)}</div>
      <form @submit=${own}><input name="label" maxlength="64" placeholder="or your own word" aria-label="Another reaction" autocomplete="off" /></form>
    </div>
  </details>`;
}
