// @ts-check
// Notices: short messages at the bottom of the window that disappear after a few seconds.

import { html, nothing, redraw } from "./render.js";
import { t } from "./texts.js";

const notices = [];

// `action` is a button in the notice, for example to undo what was done.
/** @type {(text: string, options?: {isError?: boolean, action?: {text: string, run: () => unknown}}) => void} */
export function notify(text, { isError = false, action } = {}) {
  const notice = { text: t(text), isError, action };
  notices.push(notice);
  setTimeout(() => close(notice), action ? 12_000 : isError ? 8000 : 3500);
  redraw();
}

function close(notice) {
  if (notices.includes(notice)) notices.splice(notices.indexOf(notice), 1);
  redraw();
}

// Show an error, unless the request was aborted on purpose.
export const notifyError = (error) => {
  if (error.name !== "AbortError") notify(error.message, { isError: true });
};

export const noticesTemplate = () => html`<div class="notices" role="status" aria-live="polite">
  ${notices.map(
    (notice) =>
      html`<p class=${notice.isError ? "bad" : ""}>${notice.text}${
        notice.action
          ? html` <button type="button" @click=${() => (close(notice), notice.action.run())}>${notice.action.text}</button>`
          : nothing
      }</p>`,
  )}
</div>`;
