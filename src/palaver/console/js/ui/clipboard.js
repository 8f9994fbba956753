// @ts-check
// Copying to the clipboard.

import { notify } from "./dialog.js";
import { t } from "./templates.js";

// Returns whether the text was copied. Over plain HTTP browsers have no navigator.clipboard; there the text is selected
// in a hidden field and copied from it.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "hidden";
    (document.querySelector("dialog[open]") ?? document.body).append(field); // outside an open dialog nothing gets focus
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus({ preventScroll: true });
    return isCopied;
  }
}

export async function copyAndNotify(text, message = "Copied.") {
  if (await copyText(text)) notify(message);
  else notify(t("The browser does not allow copying here. Select the text and copy it yourself."), { isError: true });
}
