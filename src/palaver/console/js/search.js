// One search for everything, or for one thread. What is looked for stands in the address, so that "back" returns to it.

import { get, withQuery } from "./api.js";
import { count, empty, face, highlighted, icon, marked, openDialog, plural, time, trouble, waiting } from "./parts.js";
import { agentNamed, shownName } from "./people.js";
import { go, link, parse, toThread } from "./route.js";
import { threads } from "./threads.js";
import { drawn, html, nothing, redraw } from "./view.js";

const PAUSE = 120; // milliseconds without a key until we ask
const PAGE = 30;

const state = { results: [], hasMore: false, hint: null, problem: null, isAsking: false, asked: null, chosen: 0, took: null, total: null };
let asking = null;
let timer = null;

export const asked = (query) => ({
  q: query.get("q") ?? "",
  thread: query.get("thread") ?? "",
});

export const searchView = {
  title: () => "Search",
  isInner: () => true,
  enter({ query }) {
    const wanted = asked(query);
    const key = JSON.stringify(wanted);
    if (key === state.asked) return;
    state.asked = key;
    state.chosen = 0;
    clearTimeout(timer);
    timer = setTimeout(() => ask(wanted), state.results.length ? PAUSE : 0);
  },
  leave() {
    clearTimeout(timer);
    asking?.abort();
  },
  template: () => html`<main class="pane search">${results(asked(parse().query))}</main>`,
  key(event) {
    const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) return choose(state.chosen + step), true;
    if (event.key === "Enter" && state.results[state.chosen]) return open(state.results[state.chosen]), true;
    return false;
  },
};

async function ask(wanted, offset = 0) {
  asking?.abort();
  if (!wanted.q.trim()) {
    Object.assign(state, { results: [], hasMore: false, hint: null, problem: null, isAsking: false, total: null });
    return redraw();
  }
  asking = new AbortController();
  state.isAsking = true;
  redraw();
  const began = performance.now();
  try {
    const answer = await inMessages(wanted, offset, asking.signal);
    state.results = offset ? [...state.results, ...answer.results] : answer.results;
    Object.assign(state, { hasMore: answer.hasMore, hint: answer.hint, total: answer.total, problem: null, took: performance.now() - began });
  } catch (problem) {
    if (problem.name === "AbortError") return;
    Object.assign(state, { problem, results: [] });
  }
  state.isAsking = false;
  redraw();
}

async function inMessages({ q, thread }, offset, signal) {
  const answer = await get(withQuery("/api/search", { q, thread_id: thread, limit: 50 }), { signal });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.total,
    results: answer.results.map((hit) => ({
      key: hit.message_id,
      source: "bus",
      href: toThread(hit.thread_id, hit.message_id),
      title: hit.thread_topic,
      who: agentNamed(hit.author) ? shownName(agentNamed(hit.author)) : hit.author,
      when: hit.created_at,
      snippet: marked(hit.snippet),
    })),
  };
}

// The bar at the top

export function searchBar(route) {
  const isHere = route.name === "search";
  const wanted = isHere ? asked(route.query) : { q: "", thread: "" };
  const type = (event) => look({ ...wanted, q: event.target.value });
  const keys = (event) => {
    if (event.key === "Escape") return event.stopPropagation(), leave();
    if (event.key === "Enter") {
      event.preventDefault();
      if (state.results[state.chosen]) open(state.results[state.chosen]);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) (event.preventDefault(), choose(state.chosen + step));
  };
  return html`<form class="bar" role="search" @submit=${(event) => event.preventDefault()}>
    ${icon("search")}
    ${isHere && wanted.thread ? html`<span class="scope">in ${threads.byId.get(wanted.thread)?.topic ?? "this thread"}
      <button type="button" class="quiet" aria-label="Search everything instead" title="Search everything instead" @click=${() => look({ ...wanted, thread: "" })}>${icon("close")}</button></span>` : nothing}
    <input id="search" type="search" aria-label=${wanted.thread ? "Search in this thread" : "Search everything"} placeholder=${wanted.thread ? "Search in this thread" : "Search everything"}
      .value=${wanted.q} autocomplete="off" spellcheck="false" @input=${type} @keydown=${keys} maxlength="2000" />
    <kbd aria-hidden="true">/</kbd>
  </form>`;
}

function look(wanted) {
  const isHere = parse().name === "search";
  go(link("search", wanted), { replace: isHere });
}

function leave() {
  document.getElementById("search")?.blur();
  if (parse().name === "search") history.length > 1 ? history.back() : go("#/threads");
}

export function searchIn(threadId) {
  go(link("search", { thread: threadId }));
  drawn().then(focusBar);
}

export function focusBar() {
  const bar = document.getElementById("search");
  bar?.focus();
  bar?.select();
}

function choose(number) {
  state.chosen = Math.max(0, Math.min(number, state.results.length - 1));
  redraw();
  drawn().then(() => document.querySelector(".hit[aria-current]")?.scrollIntoView({ block: "nearest" }));
}

const open = (result) => go(result.href);

// What was found

function results(wanted) {
  const more = () => ask(wanted, state.results.length);
  return html`<header class="head"><div class="name"><h1>Search</h1>
      <p role="status">${said(wanted)}</p></div>
      <button type="button" class="quiet" aria-label="How to search" title="How to search" @click=${help}>${icon("help")}</button></header>
    <div class="scroll"><div class="hits">
    ${state.problem ? trouble(state.problem, () => ask(wanted)) : nothing}
    ${state.hint ? html`<p class="hint">${state.hint}</p>` : nothing}
    ${!wanted.q.trim() ? empty("search", "What are you looking for?", "Everything that was ever said here can be found by its words.", howTo()) : nothing}
    ${wanted.q.trim() && !state.isAsking && !state.problem && !state.results.length && state.took !== null
      ? empty("search", "Nothing found", html`No message has all of these words. Fewer words, or <code>${wanted.q.trim().split(/\s+/)[0].replace(/\W+$/, "").slice(0, 4)}*</code>, find more.`) : nothing}
    <ol>${state.results.map((result, i) => hit(result, i, wanted))}</ol>
    ${state.isAsking && !state.results.length ? waiting("Searching") : nothing}
    ${state.hasMore && state.results.length >= PAGE && !state.hint ? html`<p class="hint">There are more. Add a word to narrow it down.</p>` : nothing}
    </div></div>`;
}

function said(wanted) {
  if (!wanted.q.trim()) return "Words, phrases, parts of words";
  if (state.isAsking && !state.results.length) return "Searching …";
  const n = state.results.length;
  return `${state.hasMore ? "More than " : ""}${plural(n, "result")}${state.took === null ? "" : ` · ${count(Math.max(1, Math.round(state.took)))} ms`}`;
}

const SOURCE = { bus: "Thread", sessions: "Session", archive: "Conversation", chats: "Chat", notes: "Note", media: "Media", prompts: "Prompt", characters: "Character" };

function hit(result, i, wanted) {
  return html`<li><a class="hit" href=${result.href} aria-current=${i === state.chosen ? "true" : nothing} @focus=${() => (state.chosen = i)}>
    <span class="from">${icon(result.source)} <b>${result.title || SOURCE[result.source]}</b></span>
    <span class="meta">${result.who ? html`${face(result.who, { isAgent: Boolean(agentNamed(result.who)) })} ${result.who} · ` : nothing}${result.when ? time(result.when) : nothing}</span>
    <span class="snippet">${typeof result.snippet === "string" ? highlighted(result.snippet, wanted.q) : result.snippet}</span>
  </a></li>`;
}

const HOW = [
  ["deploy staging", "both words, in any order"],
  ['"blue green"', "exactly these words, side by side"],
  ["perf*", "words that begin so"],
  ["cache OR queue", "one of them"],
  ["deploy NOT staging", "the first without the second"],
  ["(cache OR queue) AND retry", "parentheses group"],
  ["NEAR(cache retry, 5)", "at most five words apart"],
];

const howTo = () => html`<table class="how"><tbody>${HOW.map(([example, meaning]) => html`<tr>
  <td><a href=${link("search", { q: example })}><code>${example}</code></a></td><td>${meaning}</td></tr>`)}</tbody></table>`;

export function help() {
  openDialog("How to search", () => html`${howTo()}<p>Upper and lower case and accents make no difference. Names with points and dashes
    (<code>node.js</code>, <code>POL-358</code>) are found as they are written.</p>`);
}
