// @ts-check
// The filters of the library: words, tag, origin, project, order, deleted documents. They are in the address.

import { SOURCES } from "../../data/sources.js";
import { goTo, link } from "../../route.js";
import { formatNumber, plural, projectName } from "../../ui/format.js";
import { icon } from "../../ui/elements.js";
import { html, nothing, t } from "../../ui/templates.js";

const TYPING_DELAY = 150; // milliseconds after a key before the list is filtered
const SORTS = { changed: "Last changed", created: "Newest", title: "Title" };
const ORIGINS = { archive: "All programs", sessions: "All agents", media: "All types" };
const FOLDERS = "All folders"; // of files that were imported

/** @typedef {{text: string, tag: string, origin: string, project: string, sort: string, deleted: boolean, page: number}} Filters */

/** @type {(query: URLSearchParams) => Filters} */
export const readFilters = (query) => ({
  text: query.get("text") ?? "",
  tag: query.get("tag") ?? "",
  origin: query.get("origin") ?? "",
  project: query.get("project") ?? "",
  sort: Object.hasOwn(SORTS, query.get("sort") ?? "") ? (query.get("sort") ?? "") : "changed",
  deleted: query.get("deleted") === "1",
  page: Math.max(1, Math.floor(Number(query.get("page"))) || 1),
});

export const isFiltered = ({ text, tag, origin, project }) => Boolean(text || tag || origin || project);

// What is in the box. The address follows a moment later.
let typed = "";
/** @type {number | undefined} */
let timer;

// The address has changed: show its text, unless somebody is typing.
export function showTyped(text) {
  if (document.activeElement?.id !== "library-filter") typed = text;
}

// The address of the library with these filters.
export function linkToLibrary(name, { page, deleted, sort, ...rest }) {
  const order = sort === "changed" ? "" : sort;
  return link(["library", name], { ...rest, sort: order, deleted: deleted ? "1" : "", page: page > 1 ? page : "" });
}

function change(name, filters, changes) {
  clearTimeout(timer);
  goTo(linkToLibrary(name, { ...filters, ...changes }), { replace: true });
}

export function filterBar({ name, filters, choices, total }) {
  const set = (changes) => change(name, filters, { page: 1, ...changes });
  const onInput = (event) => {
    typed = event.target.value;
    clearTimeout(timer);
    timer = setTimeout(() => set({ text: typed.trim() }), TYPING_DELAY);
  };
  const onKey = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    typed = event.target.value = "";
    set({ text: "" });
  };
  const isEmpty = total === 0 && !isFiltered(filters);
  if (isEmpty) return SOURCES[name].path ? html`<div class="sieve">${deletedButton(name, filters)}</div>` : nothing;
  return html`<form class="sieve" role="search" aria-label=${t("Filter")} @submit=${(event) => (event.preventDefault(), set({ text: typed.trim() }))}>
    <label class="words"><span class="hidden">${t("Filter by title or tag")}</span>${icon("filter")}<input id="library-filter" type="search" autocomplete="off"
      placeholder=${t("Filter by title or tag")} .value=${typed} @input=${onInput} @keydown=${onKey} /></label>
    ${select("Tag", "All tags", choices?.tags, filters.tag, (tag) => set({ tag }))}
    ${select("Origin", ORIGINS[name] ?? FOLDERS, several(choices?.origins), filters.origin, (origin) => set({ origin }))}
    ${select("Project", "All projects", several(choices?.projects), filters.project, (project) => set({ project }), projectName)}
    <select aria-label=${t("Order")} @change=${(event) => set({ sort: event.target.value })}>
      ${Object.entries(SORTS).map(([value, text]) => html`<option value=${value} ?selected=${value === filters.sort}>${t(text)}</option>`)}</select>
    ${SOURCES[name].path ? deletedButton(name, filters) : nothing}
    <output>${total === undefined ? nothing : plural(total, "document")}</output>
  </form>`;
}

const deletedButton = (
  name,
  filters,
) => html`<button type="button" aria-label=${t("Deleted")} aria-pressed=${filters.deleted}
  @click=${() => change(name, filters, { page: 1, deleted: !filters.deleted, tag: "", origin: "" })}>${icon("trash")} <span>${t("Deleted")}</span></button>`;

// One value alone is no choice.
const several = (options) => (options?.length > 1 ? options : undefined);

// A choice of one value. It is left out where there is nothing to choose.
/** @type {(label: string, all: string, options: {value: string, documents: number}[] | undefined, chosen: string, choose: (value: string) => void, show?: (value: string) => string) => unknown} */
function select(label, all, options, chosen, choose, show = (value) => value) {
  if (!options?.length && !chosen) return nothing;
  const isListed = options?.some(({ value }) => value === chosen);
  return html`<select aria-label=${t(label)} @change=${(event) => choose(event.target.value)}>
    <option value="" ?selected=${!chosen}>${t(all)}</option>
    ${chosen && !isListed ? html`<option value=${chosen} selected>${show(chosen)}</option>` : nothing}
    ${(options ?? []).map(({ value, documents }) => html`<option value=${value} ?selected=${value === chosen}>${show(value)} (${formatNumber(documents)})</option>`)}
  </select>`;
}
