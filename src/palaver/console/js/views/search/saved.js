// @ts-check
// Saved searches in the search view: save the present one, open, rename and remove one.

import { wholeQuery } from "../../data/operators.js";
import { loadSavedSearches, removeSearch, renameSearch, savedSearches, saveSearch } from "../../data/saved_searches.js";
import { link } from "../../route.js";
import { notify, notifyError, promptDialog } from "../../ui/dialog.js";
import { icon, iconButton } from "../../ui/elements.js";
import { html, nothing, repeat, t } from "../../ui/templates.js";

export function enterSaved() {
  if (!savedSearches.isLoaded) loadSavedSearches().catch(() => {}); // the search itself works without them
}

export function savePresent(wanted) {
  const query = wholeQuery(wanted);
  if (!query) return notify(t("Type a search first."));
  promptDialog(t("Save this search"), { label: t("Name"), value: query.slice(0, 80), maxLength: 200 }, async (name) => {
    await saveSearch(name, query);
    notify(t("Saved. It is here and in the command palette."));
  });
}

const rename = (one) =>
  promptDialog(t("Rename the search"), { label: t("Name"), value: one.name, maxLength: 200 }, (name) =>
    renameSearch(one.id, name),
  );

// Removed at once. The notice offers to undo it.
async function remove(one) {
  await removeSearch(one);
  const undo = () => saveSearch(one.name, one.query).catch(notifyError);
  notify(t("Removed."), { action: { text: t("Undo"), run: undo } });
}

export const savedList = () =>
  savedSearches.list.length
    ? html`<section class="saved" aria-label=${t("Saved searches")}><h2>${t("Saved searches")}</h2><ul>${repeat(
        savedSearches.list,
        (one) => one.id,
        (
          one,
        ) => html`<li><a href=${link("search", { q: one.query })}>${icon("star")} <b>${one.name}</b> ${one.name === one.query ? nothing : html`<code>${one.query}</code>`}</a>
      ${iconButton(t("Rename {name}", { name: one.name }), "edit", () => rename(one))}
      ${iconButton(t("Remove {name}", { name: one.name }), "close", () => remove(one).catch(notifyError))}</li>`,
      )}</ul></section>`
    : nothing;
