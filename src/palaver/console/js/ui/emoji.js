// @ts-check
// Loads the emoji panel and the shortcodes when they are first needed.

import { assetUrl } from "../assets.js";
import { notifyError } from "./dialog.js";

/** @type {Promise<any> | null} */
let loading = null;
/** @type {any} */
let panel = null;

// The module, once it is loaded; null before.
export const loadedEmoji = () => panel;

export function loadEmoji() {
  loading ??= import(assetUrl("js/views/emoji/emoji_panel.js")).then((found) => (panel = found));
  loading.catch((error) => {
    loading = null; // try again next time
    notifyError(error);
  });
  return loading;
}
