// @ts-check
// The form to edit a note or a prompt. What is typed is kept as a draft until it is saved or discarded.

import { put, remove } from "../data/api.js";
import { documentDrafts, documentKey } from "../data/drafts.js";
import { SOURCES } from "../data/sources.js";
import { goTo, link, linkToDocument } from "../route.js";
import { timeAgo } from "../ui/format.js";
import { notify, notifyError } from "../ui/dialog.js";
import { html, nothing, redraw, t } from "../ui/templates.js";

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
  opened.isNew = draft.isNew;
  opened.draftAt = draft.at;
}

// A new document that was left before anything was written is removed again.
export function removeUntouched(opened) {
  if (opened?.isNew && opened.isEditing && opened.item?.version === 1 && !documentDrafts.has(keyOf(opened)))
    remove(pathOf(opened)).catch(() => {});
}

export function editor(opened, fields) {
  const { source, id, item } = opened;
  const key = keyOf(opened);
  const draft = documentDrafts.get(key);

  const close = async () => {
    documentDrafts.delete(key);
    opened.draftAt = null;
    opened.isEditing = false;
    // A new document that was never saved is removed again.
    if (opened.isNew && opened.item.version === 1) {
      await remove(pathOf(opened)).catch(notifyError);
      return goTo(link(["library", source]), { replace: true });
    }
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
      opened.item = await put(pathOf(opened), { ...Object.fromEntries(values), version });
      opened.title = opened.item.title ?? opened.item.name;
      opened.isNew = false;
      close();
      notify(t("Saved."));
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
    documentDrafts.set(key, { values, version, at: new Date().toISOString(), isNew: opened.isNew });
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
