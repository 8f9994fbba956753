// Marking the words that were looked for, where they stand: by ranges, so that the text itself is not touched.

import { folded, wordsOf } from "./parts.js";

export const unmark = () => CSS.highlights?.delete("found");

export function markIn(root, query) {
  unmark();
  const ranges = query ? matches(root, query) : [];
  if (ranges.length && CSS.highlights) CSS.highlights.set("found", new Highlight(...ranges));
  return ranges;
}

function matches(root, query) {
  const words = wordsOf(query).filter((word) => word.length > 1);
  const ranges = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let place = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const found of node.data.matchAll(/[\p{L}\p{N}\p{M}]+/gu)) {
      if (!words.some((word) => folded(found[0]).startsWith(word))) continue;
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      range.place = place + found.index;
      ranges.push(range);
      if (ranges.length > 2000) return ranges;
    }
    place += node.data.length;
  }
  return ranges;
}
