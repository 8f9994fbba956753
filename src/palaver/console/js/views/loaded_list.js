// @ts-check
// A list that a view loads from the server, shows, and loads again after a change.

import { get, remove } from "../data/api.js";
import { confirmDialog } from "../ui/dialog.js";
import { errorState, loading } from "../ui/elements.js";
import { html, redraw, repeat, t } from "../ui/templates.js";

export class LoadedList {
  /** @type {any[] | null} */
  items = null;
  /** @type {any} */
  error = null;
  #path;

  constructor(path) {
    this.#path = path;
  }

  load = async () => {
    try {
      this.items = await get(this.#path);
      this.error = null;
    } catch (problem) {
      this.error = problem;
    }
    redraw();
  };

  // What `show` makes of the items, or what there is to see until they are loaded.
  template(show) {
    if (this.error) return errorState(this.error, this.load);
    return this.items ? show(this.items) : loading();
  }

  // Ask, then remove one item.
  confirmRemove = (item, { title, text, action }) =>
    confirmDialog(title, text, action, async () => {
      await remove(`${this.#path}/${encodeURIComponent(item.id)}`);
      await this.load();
    });
}

// A table of what has access, with a button in each row. `cells` makes the cells of a row before the button.
export const accessTable = (
  label,
  heads,
  items,
  cells,
  revoke,
) => html`<div class="wide-table tokens" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${heads.map((head) => html`<th>${head}</th>`)}<th><span class="hidden">${t("Actions")}</span></th></tr></thead>
    <tbody>${repeat(
      items,
      (one) => one.id,
      (one) => html`<tr>${cells(one)}
      <td><button type="button" class="bad" @click=${() => revoke(one)}>${t("Revoke")}</button></td></tr>`,
    )}</tbody></table></div>`;
