// @ts-check
// Colours for code, with highlight.js. This file is loaded when the first block of code is in view, and each language
// when it is needed. highlight.js returns HTML; it is split here into text and spans, and is never parsed as HTML.

import core from "../../vendor/highlightjs/core.js";

// Languages that contain others.
const ALSO = { xml: ["css", "javascript"], markdown: ["xml"], php: ["xml"] };

/** @type {Map<string, Promise<void>>} */
const loaded = new Map();

function load(name) {
  if (!loaded.has(name)) {
    const grammar = import(`../../vendor/highlightjs/languages/${name}.js`);
    loaded.set(
      name,
      grammar.then((found) => core.registerLanguage(name, found.default)),
    );
  }
  return loaded.get(name);
}

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };
const unescapeHtml = (text) => text.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity]);

// The nodes of highlighted code.
export async function highlight(text, language) {
  await Promise.all([language, ...(ALSO[language] ?? [])].map(load));
  const { value } = core.highlight(text, { language, ignoreIllegals: true });
  const root = document.createDocumentFragment();
  /** @type {(DocumentFragment | HTMLElement)[]} */
  const open = [root];
  for (const part of value.split(/(<span class="[^"]*">|<\/span>)/)) {
    if (part === "</span>") {
      if (open.length > 1) open.pop();
    } else if (part.startsWith('<span class="')) {
      const span = document.createElement("span");
      span.className = part.slice(13, -2);
      open[open.length - 1].append(span);
      open.push(span);
    } else if (part) {
      open[open.length - 1].append(unescapeHtml(part));
    }
  }
  return root;
}
