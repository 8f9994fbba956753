// @ts-check
// Saved searches. The server keeps them for each person.

import { redraw } from "../ui/render.js";
import { get, post, put, remove, url } from "./api.js";

export const savedSearches = { list: /** @type {any[]} */ ([]), isLoaded: false };

export async function loadSavedSearches() {
  savedSearches.list = await get("/api/searches");
  savedSearches.isLoaded = true;
  redraw();
}

export async function saveSearch(name, query) {
  await post("/api/searches", { name, query });
  await loadSavedSearches();
}

export async function renameSearch(id, name) {
  await put(url`/api/searches/${id}`, { name });
  await loadSavedSearches();
}

export async function removeSearch(id) {
  await remove(url`/api/searches/${id}`);
  await loadSavedSearches();
}
