// @ts-check
// The preview beside the results: the selected result with its surroundings, and the words marked. Only wide windows have
// room for it.

import { displayNameOf } from "../../data/agents.js";
import { get, post, url, withQuery } from "../../data/api.js";
import { search } from "../../data/search.js";
import { SOURCES } from "../../data/sources.js";
import { errorState, icon, loading } from "../../ui/elements.js";
import { timeElement } from "../../ui/format.js";
import { clearHighlight, highlightElement } from "../../ui/highlight.js";
import { renderMarkdown } from "../../ui/markdown.js";
import { html, nextDraw, nothing, t } from "../../ui/templates.js";

const PAUSE = 60; // milliseconds a result stays selected before it is loaded
const MAX_TOKENS = 900;
const AROUND = 4; // messages before and after the match
const wide = matchMedia("(min-width: 1100px)");

/**
 * @typedef {object} Part A message, or the text of a document.
 * @property {string} id
 * @property {string} [name] The author of a message.
 * @property {string} [when]
 * @property {Element} text
 */

/** @type {{key: string, parts: Part[] | null, error: any}} */
let shown = { key: "", parts: null, error: null };
/** @type {number | undefined} */
let timer;

export const hasPreview = () => wide.matches;
wide.addEventListener("change", () => nextDraw());

const keyOf = (result) =>
  `${result.source} ${result.id} ${JSON.stringify(result.loc ?? null)} ${result.words.join(" ")}`;

// Load the selected result, unless it is shown. Called after each drawing.
export function updatePreview() {
  const result = search.results[search.selected];
  if (!wide.matches || !result) return;
  const key = keyOf(result);
  if (key === shown.key) return;
  shown = { key, parts: null, error: null };
  clearTimeout(timer);
  timer = setTimeout(() => load(result, key), PAUSE);
}

export function leavePreview() {
  clearTimeout(timer);
  shown = { key: "", parts: null, error: null };
  clearHighlight();
}

const part = (id, name, text, when) => ({ id, name, when, text: renderMarkdown(text) });

// The messages around a result, or the part of a document that has the words.
async function surroundings({ source, id, loc }) {
  if (source === "bus" && loc?.seq) {
    const query = { after_seq: Math.max(0, loc.seq - AROUND - 1), limit: 2 * AROUND + 1 };
    const messages = await get(withQuery(url`/api/threads/${loc.thread_id}/messages`, query));
    return messages.map((one) => part(one.id, one.author_name, one.content, one.created_at));
  }
  const first = Math.max(0, (loc?.message_index ?? 0) - AROUND);
  const limit = 2 * AROUND + 1;
  if (source === "sessions" && loc?.session_id) {
    const path = url`/api/v1/agents/${loc.agent_id}/sessions/${loc.session_id}/messages`;
    const { turns } = await get(withQuery(path, { after: first, limit }));
    const nameOf = (role) => (role === "assistant" ? displayNameOf(loc.agent_id) : role);
    return turns.map((one) => part(one.id, nameOf(one.role), one.content, one.ts));
  }
  if (source === "chats" && loc?.conversation_id) {
    const messages = await get(withQuery(url`/api/chats/${loc.conversation_id}/messages`, { offset: first, limit }));
    return messages.map((one) => part(one.id, one.sender, one.content, one.created_at));
  }
  if (source === "archive" && loc?.conversation_id) {
    const { messages } = await get(url`/api/archive/${loc.conversation_id}`);
    return messages.slice(first, first + limit).map((one) => part(one.id, one.role, one.text, one.ts));
  }
  const retrieval = { mode: "chunk_with_siblings", max_tokens: MAX_TOKENS, sibling_window: 2, loc };
  const { content } = await post("/api/knowledge/get", { source, id, retrieval });
  return [part("", undefined, String(content))];
}

async function load(result, key) {
  let parts = null;
  let error = null;
  try {
    parts = await surroundings(result);
  } catch (problem) {
    error = problem;
  }
  if (key !== shown.key) return;
  shown = { key, parts, error };
  await nextDraw();
  const box = document.querySelector(".preview .texts");
  const [first] = box ? highlightElement(box, result.words.join(" ")) : [];
  const found = box?.querySelector(".found") ?? first?.range.startContainer.parentElement;
  found?.scrollIntoView({ block: "center" });
}

export function previewTemplate() {
  const result = search.results[search.selected];
  if (!wide.matches || !result) return nothing;
  const { singular, icon: iconName } = SOURCES[result.source];
  const { parts, error } = shown;
  const foundId = result.loc?.message_id;
  return html`<aside class="preview" aria-label=${t("Preview")} tabindex="0">
    <header><span>${icon(iconName)} <b>${result.title || t(singular)}</b></span>
      <small>${result.author ? html`${result.author} · ` : nothing}${result.when ? timeElement(result.when) : nothing}</small>
      <a class="button" href=${result.href}>${t("Open it")} <kbd aria-hidden="true">↵</kbd></a></header>
    ${error ? errorState(error) : parts ? nothing : loading()}
    <div class="texts">${(parts ?? []).map(
      (one) => html`<article class=${one.id && one.id === foundId ? "found" : ""}>
      ${one.name ? html`<h2>${one.name} ${one.when ? html`<small>${timeElement(one.when)}</small>` : nothing}</h2>` : nothing}${one.text}</article>`,
    )}</div>
  </aside>`;
}
