// @ts-check
// Notices: short messages at the bottom of the window that disappear after a few seconds.

import { html, redraw } from "./render.js";
import { t } from "./texts.js";

const notices = [];

export function notify(text, { isError = false } = {}) {
  const notice = { text: t(text), isError };
  notices.push(notice);
  setTimeout(
    () => {
      notices.splice(notices.indexOf(notice), 1);
      redraw();
    },
    isError ? 8000 : 3500,
  );
  redraw();
}

// Show an error, unless the request was aborted on purpose.
export const notifyError = (error) => {
  if (error.name !== "AbortError") notify(error.message, { isError: true });
};

export const noticesTemplate = () => html`<div class="notices" role="status" aria-live="polite">
  ${notices.map((notice) => html`<p class=${notice.isError ? "bad" : ""}>${notice.text}</p>`)}
</div>`;
