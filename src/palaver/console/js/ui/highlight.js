// @ts-check
// Highlighting of matched words, in snippets and in open documents. The server finds the words.

import { html } from "./templates.js";

const MAX_RANGES = 2000;

// Lower case, without accents.
export const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const isCjk = (word) => /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u.test(word);

// An approximation of the server's stemmer: "retries" and "retry" have the same stem.
export const stem = (word) => (word.length > 7 ? word.slice(0, -3) : word.length > 4 ? word.slice(0, -1) : word);

// A function that says whether a word of a text is one of these; null if there are none. The server has found them: they
// are compared as they are.
function wordMatcher(given) {
  const words = new Set(fold(given).match(/[\p{L}\p{N}]+/gu) ?? []);
  const ideographs = [...words].filter(isCjk);
  if (!words.size) return null;
  return (word) => words.has(fold(word)) || ideographs.some((one) => fold(word).includes(one));
}

// Markdown signs are left out of a snippet, which is read as one line.
const withoutMarkdown = (text) =>
  text
    .replace(/```\w*\s?|`/g, "")
    .replace(/\*\*(?=\S)(.+?)\*\*/g, "$1")
    .replace(/(^|\s)\*(?=\S)([^*]+?)\*(?=[\s.,;:!?)]|$)/g, "$1$2");

const MARK_START = "\ue000"; // private characters, which texts do not use
const MARK_END = "\ue001";

// A plain-text snippet with the matched words in <mark>. The server gives their places, counted in code points.
/** @param {string} snippet @param {[number, number][]} [places] */
export function highlightSnippet(snippet, places = []) {
  const characters = [...snippet];
  for (const [start, end] of places) {
    characters[start] = MARK_START + characters[start];
    characters[end - 1] += MARK_END;
  }
  return withoutMarkdown(characters.join(""))
    .split(/\ue000(.*?)\ue001/s)
    .map((part, i) => (i % 2 ? html`<mark>${part}</mark>` : part));
}

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#39;": "'" };
const unescapeHtml = (text) => text.replace(/&(?:lt|gt|amp|quot|#x27|#39);/g, (entity) => ENTITIES[entity]);

// A snippet in which the server has marked the matches. It contains escaped text and <mark>, and is never parsed as HTML.
export const showMarkedSnippet = (snippet) =>
  withoutMarkdown(snippet)
    .split(/<mark>(.*?)<\/mark>/s)
    .map((part, i) => (i % 2 ? html`<mark>${unescapeHtml(part)}</mark>` : unescapeHtml(part)));

// Highlight words inside an element, with the CSS Custom Highlight API: the elements do not change.
// Returns the matches, each with its offset in the element's text.
export function highlightElement(root, words) {
  clearHighlight();
  const matches = words && wordMatcher(words);
  if (!matches) return [];
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let start = 0;
  for (let node = walker.nextNode(); node && found.length < MAX_RANGES; node = walker.nextNode()) {
    const text = node.textContent ?? "";
    for (const word of text.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
      if (!matches(word[0])) continue;
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      found.push({ range, offset: start + word.index });
    }
    start += text.length;
  }
  if (found.length) CSS.highlights?.set("found", new Highlight(...found.map(({ range }) => range)));
  return found;
}

export const clearHighlight = () => CSS.highlights?.delete("found");
