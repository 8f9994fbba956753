// @ts-check
// The form to edit a note or a prompt.

import { put, remove } from "../data/api.js";
import { SOURCES } from "../data/sources.js";
import { goTo, link, linkToDocument } from "../route.js";
import { notify, notifyError } from "../ui/notices.js";
import { html, redraw } from "../ui/render.js";

const splitList = (text) =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);

export function editor(opened, fields) {
  const { source, id, item } = opened;
  const path = `${SOURCES[source].path}/${encodeURIComponent(id)}`;

  const close = async () => {
    // A new document that was never saved is removed again.
    if (opened.isNew && opened.item.version === 1) {
      await remove(path).catch(notifyError);
      return goTo(link(["library", source]), { replace: true });
    }
    opened.isEditing = false;
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
      opened.item = await put(path, { ...Object.fromEntries(values), version: item.version });
      opened.title = opened.item.title ?? opened.item.name;
      close();
      notify("Saved.");
    } catch (error) {
      const isConflict = error.status === 409;
      notifyError(
        isConflict ? new Error("It was changed in the meantime. Copy your text, then open it again.") : error,
      );
    }
  };

  const onKey = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    const inputs = [...event.currentTarget.querySelectorAll("input, textarea")];
    if (inputs.some((input) => input.value !== input.dataset.saved))
      notify("Not saved yet. Save your changes, or cancel to discard them.");
    else close();
  };

  return html`<form class="sheet" @submit=${save} @keydown=${onKey}>
    ${fields.map(([name, label, kind]) => {
      const value = kind === "list" ? (item[name] ?? []).join(", ") : (item[name] ?? "");
      const isRequired = name === "title" || name === "name";
      return html`<label>${label}
      ${
        kind === "long" || kind === "text"
          ? html`<textarea name=${name} class=${kind} .value=${value} data-saved=${value}></textarea>`
          : html`<input name=${name} .value=${value} data-saved=${value} ?required=${isRequired} autocomplete="off" />`
      }</label>`;
    })}
    <footer><button type="button" @click=${close}>Cancel</button><button class="main">Save</button></footer>
  </form>`;
}
