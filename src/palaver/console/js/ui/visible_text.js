// @ts-check
// Text that must be read exactly, such as a command: characters that show nothing, or that change the direction of the
// text, are shown by their number.

import { html } from "./templates.js";

// Everything but letters, marks, numbers, signs, the plain space, the tabulator and the line feed.
const INVISIBLE = /(?![\n\t ])(?:[\p{C}\p{Z}\u115f\u1160\u3164\uffa0\u2800]|\u034f|[\ufe00-\ufe0f])/gu;

const codeOf = (character) => `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

export const visibleText = (text) => text.replace(INVISIBLE, (character) => `⟨${codeOf(character)}⟩`);

// The same for a page, with the numbers set apart.
export function visibleParts(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INVISIBLE)) {
    parts.push(text.slice(end, found.index), html`<b class="invisible">${codeOf(found[0])}</b>`);
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}
