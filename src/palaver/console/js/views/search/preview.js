// @ts-check
// The preview beside the results: the selected result with its surroundings, and the words marked. Only wide windows have
// room for it. A conversation looks as it does in the reader.

import { assetUrl } from "../../assets.js";
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
const CONVERSATIONS = ["sessions", "archive", "chats"];
const AROUND = 4; // messages before and after the match
const wide = matchMedia("(min-width: 1100px)");

/**
 * @typedef {object} Part A message, or the text of a document.
 * @property {string} id
 * @property {string} [name] The author of a message.
 * @property {string} [when]
 * @property {Element} text
 */

const NOTHING = { key: "", parts: null, document: null, error: null };

/** @type {{key: string, parts: Part[] | null, document: any, error: any}} `document` is a conversation in the reader. */
let shown = NOTHING;
/** @type {typeof import("../reader_sources.js").READER_SOURCES | null} */
let readers = null;
/** @type {number | undefined} */
let timer;

export const hasPreview = () => wide.matches;
wide.addEventListener("change", () => nextDraw());

const keyOf = (result) => `${result.source} ${result.id} ${JSON.stringify(result.loc ?? null)} ${result.words}`;

// Load the selected result, unless it is shown. Called after each drawing.
export function updatePreview() {
  const result = search.results[search.selected];
  if (!wide.matches || !result) return;
  const key = keyOf(result);
  if (key === shown.key) return;
  shown.document?.replay?.stop();
  shown = { ...NOTHING, key };
  clearTimeout(timer);
  timer = setTimeout(() => load(result, key), PAUSE);
}

export function leavePreview() {
  clearTimeout(timer);
  shown.document?.replay?.stop();
  shown = NOTHING;
  clearHighlight();
}

const part = (id, name, text, when) => ({ id, name, when, text: renderMarkdown(text) });

// A conversation as the reader shows it, open at the result.
async function conversation({ source, id, loc }) {
  const found = readers ?? (await import(assetUrl("js/views/reader_sources.js"))).READER_SOURCES;
  readers = found;
  const document = /** @type {any} */ ({ source, id, loc });
  await found[source].open(document);
  return document;
}

// The messages around a result, or the part of a document that has the words.
async function surroundings({ source, id, loc }) {
  if (source === "bus" && loc?.seq) {
    const query = { after_seq: Math.max(0, loc.seq - AROUND - 1), limit: 2 * AROUND + 1 };
    const messages = await get(withQuery(url`/api/threads/${loc.thread_id}/messages`, query));
    return messages.map((one) => part(one.id, one.author_name, one.content, one.created_at));
  }
  const retrieval = { mode: "chunk_with_siblings", max_tokens: MAX_TOKENS, sibling_window: 2, loc };
  const { content } = await post("/api/knowledge/get", { source, id, retrieval });
  return [part("", undefined, String(content))];
}

async function load(result, key) {
  const loaded = { ...NOTHING, key, document: /** @type {any} */ (null) };
  try {
    if (CONVERSATIONS.includes(result.source)) loaded.document = await conversation(result);
    else loaded.parts = await surroundings(result);
  } catch (problem) {
    loaded.error = problem;
  }
  const replay = loaded.document?.replay;
  if (key !== shown.key) return replay?.stop();
  shown = loaded;
  await nextDraw();
  const box = document.querySelector(".preview .texts");
  const [first] = box ? highlightElement(box, result.words) : [];
  const found = box?.querySelector(".found") ?? first?.range.startContainer.parentElement;
  found?.scrollIntoView({ block: "center" });
  if (replay?.found) replay.keepInView(replay.found);
}

export function previewTemplate() {
  const result = search.results[search.selected];
  if (!wide.matches || !result) return nothing;
  const { singular, icon: iconName } = SOURCES[result.source];
  const { parts, document, error } = shown;
  const foundId = result.loc?.message_id;
  return html`<aside class="preview" aria-label=${t("Preview")} tabindex="0">
    <header><span>${icon(iconName)} <b>${result.title || t(singular)}</b></span>
      <small>${result.author ? html`${result.author} · ` : nothing}${result.when ? timeElement(result.when) : nothing}</small>
      <a class="button" href=${result.href}>${t("Open it")} <kbd aria-hidden="true">↵</kbd></a></header>
    ${error ? errorState(error) : parts || document ? nothing : loading()}
    <div class="texts">${document ? readers?.[document.source].body(document) : nothing}${(parts ?? []).map(
      (one) => html`<article class=${one.id && one.id === foundId ? "found" : ""}>
      ${one.name ? html`<h2>${one.name} ${one.when ? html`<small>${timeElement(one.when)}</small>` : nothing}</h2>` : nothing}${one.text}</article>`,
    )}</div>
  </aside>`;
}
