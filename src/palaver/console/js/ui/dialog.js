// @ts-check
// What is shown over a view: dialogs, and notices at the bottom of the window that disappear after a few seconds.

import { icon } from "./elements.js";
import { html, nextDraw, nothing, redraw, ref, t } from "./templates.js";

// Notices

const notices = [];

// `action` is a button in the notice, for example to undo what was done.
/** @type {(text: string, options?: {isError?: boolean, action?: {text: string, run: () => unknown}}) => void} */
export function notify(text, { isError = false, action } = {}) {
  const notice = { text: t(text), isError, action };
  notices.push(notice);
  setTimeout(() => closeNotice(notice), action ? 12_000 : isError ? 8000 : 3500);
  redraw();
}

function closeNotice(notice) {
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
          ? html` <button type="button" @click=${() => (closeNotice(notice), notice.action.run())}>${notice.action.text}</button>`
          : nothing
      }</p>`,
  )}
</div>`;

// Dialogs: one at a time. When it closes, the focus returns to the element that opened it.

/** @type {{title: string, content: () => unknown, className: string, opener: HTMLElement | null, isChanged: boolean} | null} */
let dialog = null;

// A dialog with a class of its own has no header: its content has the first control.
export function openDialog(title, content, { className = "" } = {}) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const opener = focused?.closest("details.menu")?.querySelector("summary") ?? focused;
  dialog = { title, content, className, opener, isChanged: false };
  redraw();
}

export function closeDialog() {
  const opener = dialog?.opener;
  dialog = null;
  nextDraw().then(() => opener?.isConnected && opener.focus()); // an open dialog keeps the focus
}

export const isDialogOpen = () => dialog !== null;

// Text typed into a form is not lost by a key or a click beside the dialog. Its buttons close it. Fields with data-kept
// have a draft.
function onInput({ target }) {
  if (dialog && target.closest("form.sheet") && !target.hasAttribute("data-kept")) dialog.isChanged = true;
}

function dismiss() {
  if (dialog?.isChanged) notify(t("Not saved yet. Save your changes, or discard them."));
  else closeDialog();
}

addEventListener("beforeunload", (event) => dialog?.isChanged && event.preventDefault());

// showModal() works only after the element is in the page.
const showModal = (element) => queueMicrotask(() => element?.isConnected && !element.open && element.showModal());

export function dialogTemplate() {
  if (!dialog) return nothing;
  const header = html`<header><h2>${t(dialog.title)}</h2>
      <button type="button" class="quiet" aria-label=${t("Close")} @click=${closeDialog}>${icon("close")}</button></header>`;
  return html`<dialog ${ref(showModal)} class=${dialog.className} aria-label=${t(dialog.title)} @cancel=${(e) => (e.preventDefault(), dismiss())} @input=${onInput}
    @click=${(event) => event.target === event.currentTarget && dismiss()}>
    ${dialog.className ? nothing : header}
    <div class="body">${dialog.content()}</div>
  </dialog>`;
}

// A dialog with a form. `submit` gets the form and closes the dialog when it has succeeded. Without `action` the form can
// only be read.
export function formDialog(title, fields, { action = "", isDangerous = false }, submit) {
  const onSubmit = async (event) => {
    event.preventDefault();
    await submit(event.target).catch(notifyError);
  };
  openDialog(
    title,
    () => html`<form class="sheet" @submit=${onSubmit}>${fields()}
    <footer><button type="button" ?autofocus=${isDangerous} @click=${closeDialog}>${t(action ? "Cancel" : "Close")}</button>${
      action ? html`<button class="main ${isDangerous ? "bad" : ""}">${t(action)}</button>` : nothing
    }</footer></form>`,
  );
}

const noAction = (_text) => {};

// Ask for one line of text. `onInput` gets the text at every change.
export function promptDialog(
  title,
  { label, value = "", action = "Save", maxLength = 500, type = "text", onInput = noAction },
  submit,
) {
  let isBusy = false;
  const onSubmit = async (event) => {
    event.preventDefault();
    const answer = event.target.elements.answer.value.trim();
    if (!answer || isBusy) return;
    isBusy = true;
    redraw();
    try {
      await submit(answer);
      closeDialog();
    } catch (error) {
      isBusy = false;
      redraw();
      notifyError(error);
    }
  };
  openDialog(
    title,
    () => html`<form class="ask" @submit=${onSubmit}>
    <label>${t(label)}<input name="answer" type=${type} .value=${value} maxlength=${maxLength} autocomplete="off" autofocus required
      @input=${(event) => onInput(event.target.value)} /></label>
    <footer><button type="button" @click=${closeDialog}>${t("Cancel")}</button><button class="main" aria-busy=${isBusy}>${t(action)}${isBusy ? " …" : nothing}</button></footer>
  </form>`,
  );
}

// Ask before something that cannot be undone. Cancel has the focus, so that Enter alone changes nothing.
export function confirmDialog(title, text, action, confirm) {
  const onConfirm = async () => {
    closeDialog();
    await confirm().catch(notifyError);
  };
  openDialog(
    title,
    () => html`<p>${t(text)}</p>
    <footer><button type="button" autofocus @click=${closeDialog}>${t("Cancel")}</button
      ><button type="button" class="main bad" @click=${onConfirm}>${t(action)}</button></footer>`,
  );
}
