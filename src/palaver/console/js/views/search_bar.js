// @ts-check
// The search bar at the top of every view. The search is part of the address, so the back button returns to it.

import { search } from "../data/search.js";
import { threads } from "../data/threads.js";
import { goBack, goTo, link, parseRoute } from "../route.js";
import { iconButton } from "../ui/elements.js";
import { icon } from "../ui/icons.js";
import { html, nextDraw, nothing } from "../ui/render.js";
import { t } from "../ui/texts.js";

const PARAMETERS = ["q", "thread", "source", "project", "author", "role", "since", "until", "sort"];

/** @returns {Record<string, string>} */
export const parseSearch = (query) => Object.fromEntries(PARAMETERS.map((name) => [name, query.get(name) ?? ""]));

export const goToSearch = (wanted) => goTo(link("search", wanted), { replace: parseRoute().name === "search" });

export function searchInThread(threadId) {
  goTo(link("search", { thread: threadId }));
  nextDraw().then(focusSearchBar);
}

export function focusSearchBar() {
  const input = /** @type {HTMLInputElement | null} */ (document.getElementById("search"));
  input?.focus();
  input?.select();
}

export function selectResult(number) {
  search.selected = Math.max(0, Math.min(number, search.results.length - 1));
  nextDraw().then(() => document.querySelector(".hit[aria-current]")?.scrollIntoView({ block: "nearest" }));
}

export function openSelectedResult() {
  const result = search.results[search.selected];
  if (result) goTo(result.href);
}

export function searchBar(route) {
  const isSearchView = route.name === "search";
  const wanted = parseSearch(isSearchView ? route.query : new URLSearchParams());
  const label = wanted.thread
    ? t("Search in this thread")
    : wanted.author
      ? t("Search the messages of {name}", { name: wanted.author })
      : t("Search everything");
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) event.preventDefault(), selectResult(search.selected + step);
    if (event.key === "Enter") {
      event.preventDefault();
      if (isSearchView && !search.isRunning) openSelectedResult();
    }
    if (event.key === "Escape") {
      event.stopPropagation();
      event.target.blur();
      if (isSearchView) goBack("#/threads");
    }
  };
  return html`<form class="bar" role="search" @submit=${(event) => event.preventDefault()}>
    ${icon("search")}
    ${
      wanted.thread
        ? html`<span class="scope"><span>${t("in {place}", { place: threads.byId.get(wanted.thread)?.topic ?? t("this thread") })}</span>
      ${iconButton(t("Search everything instead"), "close", () => goToSearch({ ...wanted, thread: "" }))}</span>`
        : nothing
    }
    <input id="search" type="search" aria-label=${label} placeholder=${label} .value=${wanted.q} autocomplete="off" spellcheck="false"
      @input=${(event) => goToSearch({ ...wanted, q: event.target.value })} @keydown=${onKey} maxlength="2000" />
    <kbd aria-hidden="true">/</kbd>
  </form>`;
}
