// @ts-check
// Saved searches. The server keeps them for each person. A change is applied to the list from its own answer, so that a
// list that was requested before the change, or that fails to load after it, does not undo it.

import { redraw } from "../ui/templates.js";
import { get, post, put, remove, url } from "./api.js";

export const savedSearches = { list: /** @type {any[]} */ ([]), isLoaded: false };

let changes = 0; // the number of changes: a list that was requested before the last one is loaded again

export async function loadSavedSearches() {
  const before = changes;
  const list = await get("/api/searches");
  if (before !== changes) return loadSavedSearches();
  savedSearches.isLoaded = true;
  setList(list);
}

function setList(list) {
  savedSearches.list = [...list].sort((a, b) => a.name.localeCompare(b.name));
  redraw();
}

function replace(id, one) {
  changes += 1;
  setList([...savedSearches.list.filter((other) => other.id !== id), ...(one ? [one] : [])]);
}

export async function saveSearch(name, query) {
  const saved = await post("/api/searches", { name, query });
  replace(saved.id, saved);
}

export async function renameSearch(id, name) {
  replace(id, await put(url`/api/searches/${id}`, { name }));
}

// It leaves the list at once, and comes back if the server could not remove it.
export async function removeSearch(one) {
  replace(one.id, null);
  try {
    await remove(url`/api/searches/${one.id}`);
  } catch (error) {
    if (error.status === 404) return; // it was removed in another window
    replace(one.id, one);
    throw error;
  }
}
