// One search for everything, or for one thread. What is looked for stands in the address, so that "back" returns to it.

import { get, post, withQuery } from "./api.js";
import {
  choice,
  count,
  empty,
  face,
  highlighted,
  icon,
  marked,
  openDialog,
  plural,
  projectName,
  stem,
  time,
  tool,
  trouble,
  waiting,
} from "./parts.js";
import { agentNamed, people, shownName } from "./people.js";
import { go, link, parse, toItem, toThread } from "./route.js";
import { threads } from "./threads.js";
import { drawn, html, nothing, redraw } from "./view.js";

const PAUSE = 120; // milliseconds without a key until we ask
const PAGE = 30;

export const SOURCES = {
  bus: ["Threads", "Thread"],
  sessions: ["Sessions", "Session"],
  archive: ["Imported", "Conversation"],
  notes: ["Notes", "Note"],
  media: ["Media", "Media"],
  chats: ["Chats", "Chat"],
  prompts: ["Prompts", "Prompt"],
  characters: ["Characters", "Character"],
};

const ROLES = ["", "user", "assistant", "tool", "system"];
const WHERE = [["", "Everything"], ...Object.entries(SOURCES).map(([name, [text]]) => [name, text])];

const state = {
  results: [],
  hasMore: false,
  hint: null,
  problem: null,
  isAsking: false,
  asked: null,
  chosen: 0,
  took: null,
  total: null,
  errors: null,
  matched: null, // how the best of them match
  capped: null, // what was not looked at
};
let asking = null;
let timer = null;
let isFurther = false; // are the further filters shown?

const NAMES = ["q", "thread", "source", "project", "author", "role", "since", "until", "sort"];
const asked = (query) => Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));

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
    if (!state.isAsking) return;
    asking?.abort();
    state.asked = null;
  },
  template: () => html`<main class="pane search">${results(asked(parse().query))}</main>`,
  key(event) {
    const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) return (choose(state.chosen + step), true);
    if (event.key === "Enter" && state.results[state.chosen]) return (open(state.results[state.chosen]), true);
    if (event.key === "Escape") return (history.back(), true);
    return false;
  },
};

async function ask(wanted, offset = 0) {
  asking?.abort();
  if (!wanted.q.trim()) {
    Object.assign(state, {
      results: [],
      hasMore: false,
      hint: null,
      problem: null,
      isAsking: false,
      total: null,
      errors: null,
      matched: null,
      capped: null,
    });
    return redraw();
  }
  asking = new AbortController();
  state.isAsking = true;
  redraw();
  const began = performance.now();
  try {
    const find = isExpression(wanted) ? inMessages : inEverything;
    const answer = await find(wanted, offset, asking.signal);
    const results = offset ? [...state.results, ...answer.results] : answer.results;
    Object.assign(state, { ...answer, results, problem: null, took: performance.now() - began });
  } catch (problem) {
    if (problem.name === "AbortError") return;
    Object.assign(state, { problem, results: [] });
  }
  state.isAsking = false;
  await drawn();
  if (!offset) document.querySelector(".search > .scroll")?.scrollTo(0, 0); // the best is read first
}

// In threads the whole query language holds; over everything the words are ranked by how well they fit.
const isExpression = (wanted) =>
  Boolean(wanted.thread) ||
  (wanted.source === "bus" &&
    !wanted.project &&
    !wanted.author &&
    !wanted.since &&
    !wanted.until &&
    !wanted.sort);

async function inMessages({ q, thread }, offset, signal) {
  const answer = await get(withQuery("/api/search", { q, thread_id: thread, limit: 100 }), { signal });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.has_more ? null : answer.total,
    canPage: false,
    errors: null,
    matched: null,
    capped: null,
    results: answer.results.map((hit) => ({
      source: "bus",
      href: toThread(hit.thread_id, hit.message_id, q),
      title: hit.thread_topic,
      who: known(hit.author),
      when: hit.created_at,
      snippet: marked(hit.snippet),
    })),
  };
}

async function inEverything(wanted, offset, signal) {
  const { sources, filters, person } = narrowed(wanted);
  const body = {
    query: wanted.q,
    limit: PAGE,
    offset,
    dedupe: false,
    snippet_length: 240,
    sources,
    filters,
    order_by: wanted.sort === "recent" ? "recent" : "relevance",
    date_from: wanted.since || undefined,
    date_to: wanted.until || undefined,
    project: wanted.project.trim() || undefined,
  };
  const answer = person ? await byPerson(person, body, signal) : await post("/api/knowledge/search", body, { signal });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.total_estimated,
    next: answer.next_offset,
    canPage: true,
    errors: answer.errors,
    matched: answer.matched,
    capped: answer.capped,
    results: answer.results.map((item) => ({
      source: item.source,
      href: hrefOf(item, wanted.q),
      answer: item.answer && beside(item, item.answer, wanted.q),
      later: item.later && beside(item, item.later, wanted.q),
      title: item.title,
      who: item.sender && known(item.sender),
      when: item.last_modified ?? item.created_at,
      snippet: item.snippet ?? "",
      kind: item.media_type,
      project: item.project,
    })),
  };
}

// The index knows agents, not people: what others said is left out here, from as many pages as it takes.
async function byPerson(person, body, signal) {
  const results = [];
  let answer = { next_offset: body.offset };
  for (let pages = 0; pages < 5 && results.length < PAGE && answer.next_offset !== null; pages += 1) {
    answer = await post("/api/knowledge/search", { ...body, limit: 100, offset: answer.next_offset }, { signal });
    results.push(...answer.results.filter((item) => item.sender?.toLowerCase() === person));
  }
  return { ...answer, results, total_estimated: answer.has_more ? null : results.length };
}

// An author is one of the bus, of sessions or of chats; a role is one of sessions or of imported conversations.
function narrowed({ source, author, role }) {
  const filters = {};
  const agent = author && agentNamed(author);
  let possible = source ? [source] : Object.keys(SOURCES);
  if (author) possible = possible.filter((name) => ["bus", agent ? "sessions" : "chats"].includes(name));
  if (agent) Object.assign(filters, { bus: { agent: agent.id }, sessions: { agent: agent.id } });
  if (role) {
    possible = possible.filter((name) => name === "sessions" || (name === "archive" && role !== "system"));
    filters.sessions = { ...filters.sessions, role };
    filters.archive = { roles: [role] };
  }
  for (const name of Object.keys(filters)) if (!possible.includes(name)) delete filters[name];
  return {
    sources: possible.length ? possible : [source || "bus"],
    filters,
    person: author && !agent ? author.toLowerCase() : null,
  };
}

const known = (name) => (agentNamed(name) ? shownName(agentNamed(name)) : name);

function hrefOf(item, q) {
  if (item.source === "bus" && item.conversation_id)
    return toThread(item.conversation_id, item.message_id, item.message_id ? q : undefined);
  return toItem(item.source, item.id, item.loc, q);
}

// What stands beside a result: what answers it, what took it back later.
function beside(item, { id, loc, sender, snippet }, q) {
  const message = loc?.message_id ?? id;
  const isBus = item.source === "bus" && item.conversation_id;
  return {
    href: isBus ? toThread(item.conversation_id, message, q) : toItem(item.source, id, loc, q),
    who: sender ? known(sender) : "",
    snippet: snippet ?? "",
  };
}

// The bar at the top

export function searchBar(route) {
  const isHere = route.name === "search";
  const wanted = asked(isHere ? route.query : new URLSearchParams());
  const where = wanted.thread ? "Search in this thread" : "Search everything";
  const type = (event) => look({ ...wanted, q: event.target.value });
  const keys = (event) => {
    if (event.key === "Escape") return (event.stopPropagation(), leave());
    if (event.key === "Enter") {
      event.preventDefault();
      if (isHere && !state.isAsking && state.results[state.chosen]) open(state.results[state.chosen]);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) (event.preventDefault(), choose(state.chosen + step));
  };
  return html`<form class="bar" role="search" @submit=${(event) => event.preventDefault()}>
    ${icon("search")}
    ${
      isHere && wanted.thread
        ? html`<span class="scope"><span>in ${threads.byId.get(wanted.thread)?.topic ?? "this thread"}</span>
      ${tool("Search everything instead", "close", () => look({ ...wanted, thread: "" }))}</span>`
        : nothing
    }
    <input id="search" type="search" aria-label=${where} placeholder=${where}
      .value=${wanted.q} autocomplete="off" spellcheck="false" @input=${type} @keydown=${keys} maxlength="2000" />
    <kbd aria-hidden="true">/</kbd>
  </form>`;
}

function look(wanted) {
  go(link("search", wanted), { replace: parse().name === "search" });
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
  drawn().then(() => document.querySelector(".hit[aria-current]")?.scrollIntoView({ block: "nearest" }));
}

const open = (result) => go(result.href);

// What was found

function results(wanted) {
  const more = () => ask(wanted, state.next ?? state.results.length);
  const isNothing =
    wanted.q.trim() && !state.isAsking && !state.problem && !state.results.length && state.took !== null;
  return html`<header class="head"><div class="name"><h1>Search</h1>
      <p role="status">${said(wanted)}</p></div>
      ${tool("How to search", "help", help)}</header>
    ${wanted.thread ? nothing : filters(wanted)}
    <div class="scroll"><div class="hits">
    ${state.problem ? trouble(state.problem, () => ask(wanted)) : nothing}
    ${state.hint && wanted.q.trim() ? html`<p class="hint">${state.hint}</p>` : nothing}
    ${Object.values(state.errors ?? {}).map((said) => html`<p class="hint">${said}</p>`)}
    ${state.capped && state.results.length ? cappedNote(state.capped) : nothing}
    ${wanted.q.trim() ? nothing : empty("search", "What are you looking for?", "Everything that was said or kept here can be found by its words.", howTo())}
    ${isNothing ? empty("search", "Nothing found", state.hint ? nothing : isNarrow(wanted) ? NOT_THERE : NOWHERE, wider(wanted)) : nothing}
    <ol>${state.results.map((result, i) => hit(result, i, wanted))}</ol>
    ${state.isAsking && !state.results.length ? waiting("Searching") : nothing}
    ${
      state.hasMore && state.results.length
        ? state.canPage
          ? html`<p class="more"><button type="button" @click=${more} ?disabled=${state.isAsking}>More</button></p>`
          : state.hint
            ? nothing
            : html`<p class="hint">There are more. Add a word to narrow it down.</p>`
        : nothing
    }
    </div></div>`;
}

const NOT_THERE = "Nothing with these words is where you looked. Fewer filters find more.";
const NOWHERE = "Nothing here has these words. Other words, or parts of words, may find more.";
const isNarrow = ({ source, project, author, role, since, until }) =>
  source || project || author || role || since || until;

// In threads a word is found as it is written; what begins like it may be what was meant.
function wider(wanted) {
  const words = isExpression(wanted) && /^[\p{L}\p{N}\s]+$/u.test(wanted.q) ? wanted.q.trim().split(/\s+/) : [];
  const others = words.map((word) => (word.length > 3 ? `${stem(word)}*` : word)).join(" ");
  return html`<p class="ways">
    ${words.some((word) => word.length > 3) ? html`<a class="button" href=${link("search", { ...wanted, q: others })}>Try ${others}</a>` : nothing}
    ${wanted.thread || isNarrow(wanted) ? html`<a class="button" href=${link("search", { q: wanted.q })}>Search everything</a>` : nothing}</p>`;
}

function said(wanted) {
  if (!wanted.q.trim()) return "Threads, sessions, imported chats, notes and everything else";
  if (state.isAsking && !state.results.length) return "Searching …";
  const number = state.total ?? state.results.length;
  const took = state.took === null ? "" : ` · ${count(Math.max(1, Math.round(state.took)))} ms`;
  const least = state.capped ? "At least " : state.hasMore && state.total === null ? "More than " : "";
  return `${least}${plural(number, "result")}${HOW_NEAR[state.matched] ?? ""}${took}`;
}

const HOW_NEAR = {
  "some words": ", none with all of the words",
  similar: ", none with these words: what stands beside them",
};

function cappedNote({ words }) {
  const named = words.slice(0, 5).map((word) => `“${word}”`);
  return html`<p class="hint">${named.join(", ")} ${words.length === 1 ? "stands" : "stand"} in more than can be looked at:
    of that, only the newest. A rarer word narrows it down.</p>`;
}

const authors = () =>
  [
    ...new Set([
      ...people.agents.map(shownName),
      ...[...threads.byId.values()].flatMap((thread) => thread.participants),
    ]),
  ].slice(0, 200);

function filters(wanted) {
  const set = (name) => (event) => look({ ...wanted, [name]: event.target.value });
  const isAny = wanted.project || wanted.author || wanted.role || wanted.since || wanted.until || wanted.sort;
  return html`<div class="narrow">
    ${choice("Where", WHERE, wanted.source, (source) => look({ ...wanted, source }))}
    <details class="further" ?open=${Boolean(isAny) || isFurther} @toggle=${(event) => (isFurther = event.target.open)}><summary>${icon("filter")} Filters</summary><div>
      <label>Project <input .value=${wanted.project} placeholder="any" title="Path or name of a project: only sessions and imported conversations have one" @change=${set("project")} /></label>
      <label>Author <input list="authors" .value=${wanted.author} placeholder="anyone" @change=${set("author")} /></label>
      <datalist id="authors">${authors().map((name) => html`<option value=${name}></option>`)}</datalist>
      <label>Role <select @change=${set("role")}>${ROLES.map(
        (role) => html`<option value=${role} ?selected=${role === wanted.role}>${role || "any"}</option>`,
      )}</select></label>
      <label>From <input type="date" .value=${wanted.since} @change=${set("since")} /></label>
      <label>To <input type="date" .value=${wanted.until} @change=${set("until")} /></label>
      <label>Sort <select @change=${set("sort")}>${[
        ["", "best first"],
        ["recent", "newest first"],
      ].map(
        ([value, text]) => html`<option value=${value} ?selected=${value === wanted.sort}>${text}</option>`,
      )}</select></label>
      ${isAny ? html`<button type="button" @click=${() => look({ q: wanted.q, source: wanted.source })}>Clear</button>` : nothing}
    </div></details>
  </div>`;
}

function hit(result, i, wanted) {
  return html`<li><a class="hit" href=${result.href} aria-current=${i === state.chosen ? "true" : nothing} @focus=${() => (state.chosen = i)}>
    <span class="from"><span title=${SOURCES[result.source][1]}>${icon(result.source)}</span> <b>${result.title || SOURCES[result.source][1]}</b>
      <small>${result.kind ?? (result.source === "bus" ? nothing : SOURCES[result.source][1])}</small>
      ${result.project ? html`<small title=${result.project}>${projectName(result.project)}</small>` : nothing}</span>
    <span class="meta">${
      result.who ? html`${face(result.who, { isAgent: Boolean(agentNamed(result.who)) })} ${result.who} · ` : nothing
    }${result.when ? time(result.when) : nothing}</span>
    <span class="snippet">${typeof result.snippet === "string" ? highlighted(result.snippet, wanted.q) : result.snippet}</span>
  </a>${company(result.answer, "Answer", "reply", wanted)}${company(result.later, "Later taken back", "clock", wanted)}</li>`;
}

const company = (one, label, sign, wanted) =>
  one
    ? html`<a class="beside ${sign === "clock" ? "back" : ""}" href=${one.href}>${icon(sign)}
    <span><b>${label}${one.who ? `, ${one.who}` : ""}:</b> ${highlighted(one.snippet, wanted.q)}</span></a>`
    : nothing;

const HOW = [
  ["deploy staging", "both words, in any order"],
  ['"blue green"', "exactly these words, side by side"],
  ["perf*", "words that begin so"],
  ["cache OR queue", "one of them"],
  ["deploy NOT staging", "the first without the second"],
  ["(cache OR queue) AND retry", "parentheses group"],
  ["NEAR(cache retry, 5)", "at most five words apart"],
];

const howTo =
  () => html`<div class="how-to"><p>Over everything: words, or a whole question; what fits best comes first. In threads also:</p>
  <table class="how"><tbody>${HOW.map(
    ([example, meaning]) => html`<tr>
  <td><a href=${link("search", { q: example, source: "bus" })}><code>${example}</code></a></td><td>${meaning}</td></tr>`,
  )}</tbody></table></div>`;

export function help() {
  openDialog(
    "How to search",
    () => html`${howTo()}<p>Upper and lower case and accents make no difference. Names with points and dashes
    (<code>node.js</code>, <code>POL-358</code>) are found as they are written.</p>`,
  );
}
