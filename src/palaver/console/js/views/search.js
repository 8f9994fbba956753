// @ts-check
// The search view: filters and results.

import { agents, displayName, findAgent } from "../data/agents.js";
import { hasOperators, OPERATORS } from "../data/operators.js";
import { cancelSearch, runSearch, search, usesQueryLanguage } from "../data/search.js";
import { SOURCES } from "../data/sources.js";
import { threads } from "../data/threads.js";
import { goBack, link, parseRoute } from "../route.js";
import { openDialog } from "../ui/dialog.js";
import { avatar, emptyState, errorState, icon, iconButton, loading } from "../ui/elements.js";
import { formatNumber, plural, projectName, timeElement } from "../ui/format.js";
import { fold, stem } from "../ui/highlight.js";
import { html, nothing, rich, t } from "../ui/templates.js";
import { monthChoice, sourceChoice } from "./search/counts.js";
import { showEvidence } from "./search/evidence.js";
import { hasPreview, leavePreview, previewTemplate, updatePreview } from "./search/preview.js";
import { enterSaved, savedList, savePresent } from "./search/saved.js";
import { goToSearch, openSelectedResult, parseSearch, selectResult, withoutUnfinished } from "./search_bar.js";

const TYPING_PAUSE = 120; // milliseconds without a key before a request is sent
const ROLES = ["", "user", "assistant", "tool", "system"];
const SORT_ORDERS = [
  ["", "best first"],
  ["recent", "newest first"],
];
const MATCH_NOTES = {
  "some words": ", none contains all words",
  similar: ", none contains these words: related results",
};
const OPERATOR_EXAMPLES = {
  from: "from:ada",
  in: 'in:"Deploy of Friday"',
  source: "source:notes",
  project: "project:palaver",
  before: "before:2026-05",
  after: 'after:"last week"',
  has: "has:code",
};
const EXAMPLES = [
  ["deploy staging", "both words, in any order"],
  ['"blue green"', "exactly this phrase"],
  ["perf*", "words that start with this"],
  ["cache OR queue", "one of the words"],
  ["deploy NOT staging", "the first word without the second"],
  ["(cache OR queue) AND retry", "parentheses group"],
  ["NEAR(cache retry, 5)", "at most five words apart"],
];

/** @type {string | null} */
let lastSearch = null; // as JSON
/** @type {number | undefined} */
let timer;
let areFiltersOpen = false;

export const searchView = {
  title: () => t("Search"),
  isInner: () => true,
  enter({ query }) {
    enterSaved();
    const wanted = searched(query);
    const key = JSON.stringify(wanted);
    if (key === lastSearch) return;
    lastSearch = key;
    Object.assign(search, { selected: 0, isWaiting: true, isOpening: false });
    clearTimeout(timer);
    timer = setTimeout(() => runAndOpen(wanted), search.results.length ? TYPING_PAUSE : 0);
  },
  retry: () => search.error?.isOffline && runSearch(searched(parseRoute().query)),
  leave() {
    clearTimeout(timer);
    leavePreview();
    search.isOpening = false;
    if (!search.isRunning && !search.isWaiting) return;
    Object.assign(search, { isWaiting: false, isRunning: false });
    cancelSearch();
    lastSearch = null;
  },
  template: () => {
    const isBeside = hasPreview() && search.results.length;
    return html`<main class="pane search ${isBeside ? "beside-preview" : ""}">${resultsPage(searched(parseRoute().query))}${previewTemplate()}</main>`;
  },
  afterDraw: updatePreview,
  key(event) {
    const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) selectResult(search.selected + step);
    else if (event.key === "Enter" && search.results[search.selected]) openSelectedResult();
    else if (event.key === "c") showEvidence(searched(parseRoute().query));
    else if (event.key === "b") savePresent(searched(parseRoute().query));
    else if (event.key === "Escape") goBack("#/threads");
    else return false;
    return true;
  },
};

async function runAndOpen(wanted) {
  search.isWaiting = false;
  await runSearch(wanted);
  if (search.isOpening) openSelectedResult();
}

// The search in the address, without an operator that is still being typed.
function searched(query) {
  const wanted = parseSearch(query);
  return { ...wanted, q: withoutUnfinished(wanted.q) };
}

const isFiltered = (wanted) =>
  hasOperators(wanted.q) || ["source", "project", "author", "role", "since", "until"].some((name) => wanted[name]);

function resultsPage(wanted) {
  const hasQuery = Boolean(wanted.q.trim());
  const { results, error, isRunning, hint, capped, readAs, nextOffset } = search;
  const isEmpty = hasQuery && !isRunning && !error && !results.length && search.milliseconds !== null;
  const emptyText = isFiltered(wanted)
    ? "No document with these words matches the filters. Try fewer filters."
    : "No document contains these words. Try other words.";
  const showMore = () => runSearch(wanted, nextOffset ?? results.length);
  return html`<header class="head"><div class="name"><h1>${t("Search")}</h1>
      <p role="status">${summary(wanted)}</p></div>
      ${
        hasQuery
          ? html`<button type="button" class="quiet with-text" title=${t("Show the text that an agent gets for this question")} @click=${() => showEvidence(wanted)}>${icon("sessions")} <span>${t("Evidence")}</span> <kbd aria-hidden="true">c</kbd></button>
      <button type="button" class="quiet with-text" title=${t("Save this search")} @click=${() => savePresent(wanted)}>${icon("star")} <span>${t("Save")}</span> <kbd aria-hidden="true">b</kbd></button>`
          : nothing
      }
      ${iconButton(t("Search help"), "help", showHelp)}</header>
    ${wanted.thread ? nothing : filterBar(wanted)}
    ${hasQuery && !wanted.thread ? monthChoice(wanted) : nothing}
    <div class="scroll"><div class="hits">
    ${error ? (error.status === 400 ? html`<p class="hint" role="alert">${error.message}</p>` : errorState(error, () => runSearch(wanted))) : nothing}
    ${hint && hasQuery && !isEmpty ? html`<p class="hint">${hint}</p>` : nothing}
    ${readAs && hasQuery ? readAsNote(wanted, readAs) : nothing}
    ${Object.values(search.errors ?? {}).map((message) => html`<p class="hint">${message}</p>`)}
    ${
      capped?.words.length && results.length
        ? html`<p class="hint">${t("Truncated: for the very common {words} only the newest passages were considered. Add a rarer word.", { words: listOfWords(capped.words) })}</p>`
        : nothing
    }
    ${hasQuery ? nothing : wanted.author ? emptyState("search", t("Search the messages of {name}", { name: wanted.author }), "Type words above. Search finds what was said in threads and sessions.") : emptyState("search", "What are you looking for?", "Search finds messages, sessions, notes and all other documents by their words.", html`${savedList()}${examples()}`)}
    ${isEmpty ? emptyState("search", "Nothing found", hint && !hint.startsWith("Nothing has") ? hint : emptyText, suggestions(wanted)) : nothing}
    <ol>${results.map(resultItem)}</ol>
    ${isRunning && !results.length ? loading(t("Searching")) : nothing}
    ${
      search.hasMore && results.length
        ? nextOffset !== null
          ? html`<p class="more"><button type="button" @click=${showMore} ?disabled=${isRunning}>${t("Show more")}</button></p>`
          : hint
            ? nothing
            : html`<p class="hint">${t("There are more results. Add a word to narrow the search.")}</p>`
        : nothing
    }
    </div></div>`;
}

// The words that were searched in place of misspelt ones, and a link to a search for what was typed.
function readAsNote(wanted, readAs) {
  const exact = wanted.q.replace(/[\p{L}\p{M}]+/gu, (word) => (readAs[fold(word)] ? `"${word}"` : word)).trim();
  return html`<p class="hint">${t("Read as {words}, search exactly:", { words: listOfWords(Object.values(readAs)) })}
    <a href=${link("search", { ...wanted, q: exact })}>${exact}</a></p>`;
}

function summary(wanted) {
  if (!wanted.q.trim()) return t("Threads, sessions, imported chats, notes and all other sources");
  if (search.isRunning && !search.results.length) return t("Searching …");
  const number = search.total ?? search.results.length;
  const milliseconds =
    search.milliseconds === null ? "" : ` · ${formatNumber(Math.max(1, Math.round(search.milliseconds)))} ms`;
  const atLeast = search.capped ? t("At least ") : search.hasMore && search.total === null ? t("More than ") : "";
  return `${atLeast}${plural(number, "result")}${t(MATCH_NOTES[search.matched ?? ""] ?? "")}${milliseconds}`;
}

const listOfWords = (words) =>
  words
    .slice(0, 5)
    .map((word) => `“${word}”`)
    .join(", ");

// Searches that may find more. In threads a word matches only as it is written, so its prefix is offered.
function suggestions(wanted) {
  const isPlain = usesQueryLanguage(wanted) && /^[\p{L}\p{N}\s]+$/u.test(wanted.q);
  const words = isPlain ? wanted.q.trim().split(/\s+/) : [];
  const prefixes = words.map((word) => (word.length > 3 ? `${stem(word)}*` : word)).join(" ");
  return html`<p class="ways">
    ${prefixes.includes("*") ? html`<a class="button" href=${link("search", { ...wanted, q: prefixes })}>${t("Try {words}", { words: prefixes })}</a>` : nothing}
    ${wanted.thread || isFiltered(wanted) ? html`<a class="button" href=${link("search", { q: wanted.q })}>${t("Search everything")}</a>` : nothing}</p>`;
}

function filterBar(wanted) {
  const set = (name) => (event) => goToSearch({ ...wanted, [name]: event.target.value });
  const isSet = ["project", "author", "role", "since", "until", "sort"].some((name) => wanted[name]);
  const participants = [...threads.byId.values()].flatMap((thread) => thread.participants);
  const authors = [...new Set([...agents.list.map(displayName), ...participants])].slice(0, 200);
  return html`<div class="narrow">
    ${sourceChoice(wanted)}
    <details class="further" ?open=${isSet || areFiltersOpen} @toggle=${(event) => (areFiltersOpen = event.target.open)}><summary>${icon("filter")} ${t("Filters")}</summary><div>
      <label>${t("Project")} <input .value=${wanted.project} placeholder=${t("any")} title=${t("Path or name of a project. Only sessions and imported chats have one.")} @change=${set("project")} /></label>
      <label>${t("Author")} <input list="authors" .value=${wanted.author} placeholder=${t("anyone")} @change=${set("author")} /></label>
      <datalist id="authors">${authors.map((name) => html`<option value=${name}></option>`)}</datalist>
      <label>${t("Role")} <select @change=${set("role")}>${ROLES.map(
        (role) => html`<option value=${role} ?selected=${role === wanted.role}>${t(role || "any")}</option>`,
      )}</select></label>
      <label>${t("From")} <input type="date" .value=${wanted.since} @change=${set("since")} /></label>
      <label>${t("To")} <input type="date" .value=${wanted.until} @change=${set("until")} /></label>
      <label>${t("Sort")} <select @change=${set("sort")}>${SORT_ORDERS.map(
        ([value, text]) => html`<option value=${value} ?selected=${value === wanted.sort}>${t(text)}</option>`,
      )}</select></label>
      ${isSet ? html`<button type="button" @click=${() => goToSearch({ q: wanted.q, source: wanted.source })}>${t("Clear")}</button>` : nothing}
    </div></details>
  </div>`;
}

function resultItem(result, i) {
  const { singular: name, icon: iconName } = SOURCES[result.source];
  const singular = t(name);
  return html`<li><a class="hit" href=${result.href} aria-current=${i === search.selected ? "true" : nothing} @focus=${() => (search.selected = i)}>
    <span class="from"><span title=${singular}>${icon(iconName)}</span> <b>${result.title || singular}</b>
      <small>${result.kind ?? (result.source === "bus" ? nothing : singular)}</small>
      ${result.project ? html`<small title=${result.project}>${projectName(result.project)}</small>` : nothing}</span>
    <span class="meta">${
      result.author
        ? html`${avatar(result.author, { isAgent: Boolean(findAgent(result.author)) })} ${result.author} · `
        : nothing
    }${result.when ? timeElement(result.when) : nothing}</span>
    <span class="snippet">${result.snippet}</span>
  </a>
  ${result.answer ? relatedMessage(result.answer, "Answer", "reply", "") : nothing}
  ${result.correction ? relatedMessage(result.correction, "Later correction", "clock", "back") : nothing}</li>`;
}

const relatedMessage = (message, label, iconName, className) =>
  html`<a class="beside ${className}" href=${message.href}>${icon(iconName)}
    <span><b>${t(label)}${message.author ? `, ${message.author}` : ""}:</b> ${message.snippet}</span></a>`;

const examples =
  () => html`<div class="how-to"><p>${t("Type words or a whole question. The best results come first. Operators narrow the search:")}</p>
  <table class="how"><tbody>${OPERATORS.map(
    ([name, meaning]) => html`<tr>
  <td><a href=${link("search", { q: OPERATOR_EXAMPLES[name] })}><code>${OPERATOR_EXAMPLES[name]}</code></a></td><td>${t(meaning)}</td></tr>`,
  )}<tr><td><code>-from:ada -has:code</code></td><td>${t("without what these say")}</td></tr></tbody></table>
  <p>${t("In threads you can also use:")}</p>
  <table class="how"><tbody>${EXAMPLES.map(
    ([example, meaning]) => html`<tr>
  <td><a href=${link("search", { q: example, source: "bus" })}><code>${example}</code></a></td><td>${t(meaning)}</td></tr>`,
  )}</tbody></table></div>`;

const showHelp = () =>
  openDialog(
    t("Search help"),
    () =>
      html`${examples()}<p>${rich("Case and accents make no difference. Names with dots and dashes ({one}, {other}) are found as they are written.", { one: html`<code>node.js</code>`, other: html`<code>POL-358</code>` })}</p>`,
  );
