// @ts-check
// The form to edit a note or a prompt. What is typed is kept as a draft until it is saved or discarded.

import { post, put } from "../data/api.js";
import { documentDrafts, documentKey } from "../data/drafts.js";
import { SOURCES } from "../data/sources.js";
import { goTo, link, linkToDocument } from "../route.js";
import { timeAgo } from "../ui/format.js";
import { notify, notifyError } from "../ui/dialog.js";
import { html, nextDraw, nothing, redraw, t } from "../ui/templates.js";

const splitList = (text) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);

const pathOf = ({ source, id }) => `${SOURCES[source].path}/${encodeURIComponent(id)}`;
const keyOf = ({ source, id }) => documentKey(source, id);
const shownValue = (item, [name, , kind]) => (kind === "list" ? (item[name] ?? []).join(", ") : (item[name] ?? ""));

// Open the editor if a draft of this document was left.
export function resumeDraft(opened) {
  const draft = documentDrafts.get(keyOf(opened));
  if (!draft) return;
  opened.isEditing = true;
  opened.draftAt = draft.at;
}

// What is typed goes into the first field, and is no command.
export async function startEditing(opened) {
  opened.isEditing = true;
  redraw();
  await nextDraw();
  /** @type {HTMLElement | null} */ (document.querySelector("form.sheet [name]"))?.focus();
}

export function editor(opened, fields) {
  const { source, id, item } = opened;
  const key = keyOf(opened);
  const draft = documentDrafts.get(key);

  const close = () => {
    documentDrafts.delete(key);
    opened.draftAt = null;
    opened.isEditing = false;
    if (opened.isNew) return goTo(link(["library", source]), { replace: true });
    if (opened.isEditLinked) history.replaceState(history.state, "", linkToDocument(source, id));
    redraw();
  };

  const save = async (event) => {
    event.preventDefault();
    const { elements } = event.target;
    const values = fields.map(([name, , kind]) => {
      const { value } = elements[name];
      return [name, kind === "list" ? splitList(value) : value];
    });
    try {
      const version = draft?.version ?? item.version;
      const changed = { ...Object.fromEntries(values), version };
      opened.item = await (opened.isNew ? post(SOURCES[source].path, changed) : put(pathOf(opened), changed));
      opened.title = opened.item.title ?? opened.item.name;
      documentDrafts.delete(key);
      notify(t("Saved."));
      if (opened.isNew) return goTo(linkToDocument(source, opened.item.id), { replace: true });
      close();
    } catch (error) {
      const isConflict = error.status === 409;
      notifyError(
        isConflict ? new Error("It was changed in the meantime. Copy your text, then open it again.") : error,
      );
    }
  };

  const isChanged = (form) => fields.some((field) => form.elements[field[0]].value !== shownValue(item, field));

  const onInput = (event) => {
    const form = event.currentTarget;
    if (!isChanged(form)) return documentDrafts.delete(key);
    const values = Object.fromEntries(fields.map(([name]) => [name, form.elements[name].value]));
    const version = documentDrafts.get(key)?.version ?? item.version;
    documentDrafts.set(key, { values, version, at: new Date().toISOString() });
  };

  const onKey = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    if (isChanged(event.currentTarget)) notify(t("Not saved yet. Save your changes, or discard them."));
    else close();
  };

  return html`<form class="sheet" @submit=${save} @keydown=${onKey} @input=${onInput}>
    ${opened.draftAt ? html`<p class="draft-note" role="status">${t("These changes are not saved yet. You wrote them {time}.", { time: timeAgo(opened.draftAt) })}</p>` : nothing}
    ${fields.map((field) => {
      const [name, label, kind] = field;
      const value = draft?.values[name] ?? shownValue(item, field);
      const isRequired = name === "title" || name === "name";
      return html`<label>${t(label)}
      ${
        kind === "long" || kind === "text"
          ? html`<textarea name=${name} class=${kind} .value=${value}></textarea>`
          : html`<input name=${name} .value=${value} ?required=${isRequired} autocomplete="off" />`
      }</label>`;
    })}
    <footer><button type="button" @click=${close}>${t(opened.draftAt ? "Discard changes" : "Cancel")}</button><button class="main">${t("Save")}</button></footer>
  </form>`;
}
