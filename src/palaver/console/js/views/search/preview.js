// @ts-check
// The preview beside the results: the selected result with its surroundings, and the words marked. Only wide windows have
// room for it.

import { post } from "../../data/api.js";
import { search } from "../../data/search.js";
import { SOURCES } from "../../data/sources.js";
import { emptyState, errorState, loading } from "../../ui/elements.js";
import { timeElement } from "../../ui/format.js";
import { clearHighlight, highlightElement } from "../../ui/highlight.js";
import { icon } from "../../ui/icons.js";
import { renderMarkdown } from "../../ui/markdown.js";
import { html, nextDraw, nothing } from "../../ui/render.js";
import { t } from "../../ui/texts.js";

const PAUSE = 60; // milliseconds a result stays selected before it is loaded
const MAX_TOKENS = 900;
const wide = matchMedia("(min-width: 1100px)");

/** @type {{key: string, content: Element | null, error: any}} */
let shown = { key: "", content: null, error: null };
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
  shown = { key, content: null, error: null };
  clearTimeout(timer);
  timer = setTimeout(() => load(result, key), PAUSE);
}

export function leavePreview() {
  clearTimeout(timer);
  shown = { key: "", content: null, error: null };
  clearHighlight();
}

async function load(result, key) {
  const loc = result.loc ?? undefined;
  const retrieval = { mode: "chunk_with_siblings", max_tokens: MAX_TOKENS, sibling_window: 4, loc };
  try {
    const { content } = await post("/api/knowledge/get", { source: result.source, id: result.id, retrieval });
    if (key !== shown.key) return;
    shown.content = renderMarkdown(String(content));
  } catch (error) {
    if (key !== shown.key) return;
    shown.error = error;
  }
  await nextDraw();
  const box = document.querySelector(".preview .prose");
  const [first] = box ? highlightElement(box, result.words.join(" ")) : [];
  first?.range.startContainer.parentElement?.scrollIntoView({ block: "center" });
}

export function previewTemplate() {
  const result = search.results[search.selected];
  if (!wide.matches || !search.results.length) return nothing;
  const { singular, icon: iconName } = SOURCES[result.source];
  const { content, error } = shown;
  return html`<aside class="preview" aria-label=${t("Preview")} tabindex="0">
    <header><span>${icon(iconName)} <b>${result.title || t(singular)}</b></span>
      <small>${result.author ? html`${result.author} · ` : nothing}${result.when ? timeElement(result.when) : nothing}</small>
      <a class="button" href=${result.href}>${t("Open it")} <kbd aria-hidden="true">↵</kbd></a></header>
    ${error ? errorState(error) : content ? html`<div class="prose">${content}</div>` : loading()}
    ${content && !content.textContent?.trim() ? emptyState(iconName, t("No text")) : nothing}
  </aside>`;
}
