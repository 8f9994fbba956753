// @ts-check
// The search bar at the top of every view. The search is part of the address, so the back button returns to it.

import { get, withQuery } from "../data/api.js";
import { begunName, begunOperators, unfinishedOperator, writeOperator } from "../data/operators.js";
import { search } from "../data/search.js";
import { threads } from "../data/threads.js";
import { goBack, goTo, link, parseRoute } from "../route.js";
import { icon, iconButton } from "../ui/elements.js";
import { html, nextDraw, nothing, redraw, t } from "../ui/templates.js";

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

// Completion of operators and their values, as a list below the search bar.

const CLOSED = { items: [], selected: -1, start: 0 };
/** @type {{items: {text: string, label: string, insert: string}[], selected: number, start: number}} */
let completion = CLOSED;
const MOST_NAMES = 3; // people that are offered for a word
let isUnfinished = false; // the operator at the end of the query is still being typed
let completing = new AbortController(); // ends the last request

// The query without an operator that is still being typed: its value is not what is meant yet.
export const withoutUnfinished = (q) =>
  isUnfinished ? q.slice(0, unfinishedOperator(q)?.start ?? q.length).trimEnd() : q;

function closeCompletion() {
  completing.abort();
  completion = CLOSED;
  redraw();
}

// The operator is finished: search with it.
function finishOperator() {
  closeCompletion();
  if (!isUnfinished) return;
  isUnfinished = false;
  dispatchEvent(new HashChangeEvent("hashchange"));
}

// The values of an operator that begin with a text; null if something else was typed meanwhile.
async function valuesOf(operator, text, limit) {
  completing = new AbortController();
  const { signal } = completing;
  const values = await get(withQuery("/api/knowledge/complete", { operator, text, limit }), { signal }).catch(() => []);
  return signal.aborted ? null : values;
}

// Operators whose name begins like this, and people: somebody who types a name may look for what that person wrote.
async function completeWord(text) {
  const begun = begunOperators(text);
  const operators = (begun?.names ?? []).map(([name, label]) => ({
    text: `${name}:`,
    label: t(label),
    insert: `${name}:`,
  }));
  completion = { items: operators, selected: -1, start: begun?.start ?? 0 };
  redraw();
  const word = begunName(text);
  const names = word && !operators.length && (await valuesOf("from", word, MOST_NAMES));
  if (!word || !names?.length) return;
  const items = names.map(({ value, label }) => ({
    text: writeOperator("from", value),
    label: t(label),
    insert: `${writeOperator("from", value)} `,
  }));
  completion = { items, selected: -1, start: text.length - word.length };
  redraw();
}

async function updateCompletion(text) {
  completing.abort();
  const operator = unfinishedOperator(text);
  isUnfinished = Boolean(operator);
  if (!operator) return completeWord(text);
  const { name, value, start, isHalfDate } = operator;
  if (isHalfDate) return closeCompletion();
  const values = await valuesOf(name.replace("-", ""), value, 8);
  if (!values) return;
  const isWhole = values.length === 1 && values[0].value.toLowerCase() === value.toLowerCase();
  if (!values.length || isWhole) return finishOperator();
  const items = values.map((one) => ({
    text: one.value,
    label: one.label,
    insert: `${writeOperator(name, one.value)} `,
  }));
  completion = { items, selected: value ? 0 : -1, start };
  redraw();
}

function acceptCompletion(wanted, item) {
  const input = /** @type {HTMLInputElement} */ (document.getElementById("search"));
  const q = wanted.q.slice(0, completion.start) + item.insert;
  completion = CLOSED;
  isUnfinished = false;
  input.value = q;
  input.focus();
  updateCompletion(q);
  goToSearch({ ...wanted, q });
}

const completionList = (wanted) =>
  completion.items.length
    ? html`<ul class="completions" id="completions" role="listbox" aria-label=${t("Suggestions")}>${completion.items.map(
        (item, i) => html`<li role="option" id="completion-${i}" aria-selected=${i === completion.selected}
      @pointerdown=${(event) => (event.preventDefault(), acceptCompletion(wanted, item))}><b>${item.text}</b> <small>${item.label}</small></li>`,
      )}</ul>`
    : nothing;

export function selectResult(number) {
  search.selected = Math.max(0, Math.min(number, search.results.length - 1));
  nextDraw().then(() => document.querySelector(".hit[aria-current]")?.scrollIntoView({ block: "nearest" }));
}

// Open the result. If a search is under way, the best result is opened when it is there.
export function openSelectedResult() {
  search.isOpening = search.isWaiting || search.isRunning;
  const result = search.results[search.selected];
  if (result && !search.isOpening) goTo(result.href);
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
    const { items, selected } = completion;
    if (items.length && !event.isComposing) {
      const accepted =
        event.key === "Tab" && !event.shiftKey
          ? items[Math.max(selected, 0)]
          : event.key === "Enter"
            ? items[selected]
            : null;
      if (accepted || step || event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        if (accepted) return acceptCompletion(wanted, accepted);
        if (event.key === "Escape") return finishOperator();
        completion = {
          ...completion,
          selected: (selected + (step ?? 0) + items.length + (selected < 0 && step === -1 ? 1 : 0)) % items.length,
        };
        return redraw();
      }
    }
    if (event.key === "Enter" && isUnfinished) return event.preventDefault(), finishOperator();
    if (step) event.preventDefault(), selectResult(search.selected + step);
    if (event.key === "Enter") {
      event.preventDefault();
      if (isSearchView) openSelectedResult();
    }
    if (event.key === "Escape") {
      event.stopPropagation();
      event.target.blur();
      if (isSearchView) goBack("#/threads");
    }
  };
  const onInput = ({ target }) => {
    updateCompletion(target.value.slice(0, target.selectionStart) === target.value ? target.value : "");
    goToSearch({ ...wanted, q: target.value });
  };
  return html`<form class="bar" role="search" @submit=${(event) => event.preventDefault()}>
    ${icon("search")}
    ${
      wanted.thread
        ? html`<span class="scope"><span>${t("in {place}", { place: threads.byId.get(wanted.thread)?.topic ?? t("this thread") })}</span>
      ${iconButton(t("Search everything instead"), "close", () => goToSearch({ ...wanted, thread: "" }))}</span>`
        : nothing
    }
    <input id="search" type="search" role="combobox" aria-label=${label} placeholder=${label} .value=${wanted.q} autocomplete="off" spellcheck="false"
      aria-autocomplete="list" aria-controls="completions" aria-expanded=${completion.items.length > 0}
      aria-activedescendant=${completion.selected >= 0 ? `completion-${completion.selected}` : nothing}
      @input=${onInput} @keydown=${onKey} @blur=${finishOperator} maxlength="2000" />
    <kbd aria-hidden="true">/</kbd>
    ${completionList(wanted)}
  </form>`;
}
