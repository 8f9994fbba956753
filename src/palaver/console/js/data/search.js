// @ts-check
// Search requests: in one thread, in all threads, or in all sources. The current results are in `search`.

import { linkToDocument, linkToThread } from "../route.js";
import { plainTitle } from "../ui/format.js";
import { highlightSnippet, showMarkedSnippet } from "../ui/highlight.js";
import { nextDraw, redraw } from "../ui/templates.js";
import { displayNameOf } from "./agents.js";
import { get, post, withQuery } from "./api.js";
import { hasOperators, writeOperator } from "./operators.js";
import { sourceNames, SOURCES } from "./sources.js";

const PAGE = 30;
const COUNTS_PAUSE = 250; // milliseconds after the results before they are counted

export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const NO_RESULTS = {
  results: [], // see SearchResult in types.d.ts
  hasMore: false,
  nextOffset: null, // null: there are no further pages
  hint: null,
  total: null,
  errors: null, // by source
  matched: null, // how well the best results match
  readAs: null, // misspelt words, each with the word that was searched instead
  capped: null, // words for which only the newest passages were considered
  counts: null, // results by source and by month
};

/** @type {any} */
export const search = {
  ...NO_RESULTS,
  error: null,
  isWaiting: false, // for a pause in typing
  isRunning: false,
  isOpening: false, // Enter was pressed before the results came
  selected: 0,
  milliseconds: null,
};

let abort = new AbortController();
/** @type {number | undefined} */
let countsTimer;

export function cancelSearch() {
  clearTimeout(countsTimer);
  abort.abort();
}

// Search and keep the results in `search`. With an offset they are added to the present ones.
export async function runSearch(wanted, offset = 0) {
  cancelSearch();
  if (!wanted.q.trim()) {
    Object.assign(search, NO_RESULTS, { error: null, isRunning: false });
    return redraw();
  }
  abort = new AbortController();
  search.isRunning = true;
  search.error = null; // it was about the query before
  redraw();
  const start = performance.now();
  try {
    const find = usesQueryLanguage(wanted) ? searchThreads : searchSources;
    const found = await find(wanted, offset, abort.signal);
    const results = offset ? [...search.results, ...found.results] : found.results;
    const counts = offset || areCountsKept(wanted) ? search.counts : null;
    Object.assign(search, NO_RESULTS, found, { results, counts, error: null, milliseconds: performance.now() - start });
    if (!offset && find === searchSources)
      countsTimer = setTimeout(() => loadCounts(wanted, abort.signal), COUNTS_PAUSE);
  } catch (error) {
    if (error.name === "AbortError") return;
    Object.assign(search, { error, results: [] });
  }
  search.isRunning = false;
  await nextDraw();
  if (!offset) document.querySelector(".search > .scroll")?.scrollTo(0, 0);
}

// The numbers of the sources stay while only the source or the period changes: they say what else there is.
const keyOfCounts = ({ source, since, until, sort, ...rest }) => JSON.stringify(rest);
let countedKey = "";
const areCountsKept = (wanted) => keyOfCounts(wanted) === countedKey;

async function loadCounts(wanted, signal) {
  const count = async (of) =>
    (await post("/api/knowledge/search", { ...requestBody(of, 0), limit: 1, counts: true }, { signal })).counts;
  try {
    const counted = await count(wanted);
    const { sources } = wanted.source ? await count({ ...wanted, source: "" }) : counted;
    search.counts = { sources, months: counted.months, isCapped: counted.is_capped };
    countedKey = keyOfCounts(wanted);
  } catch {
    return; // the results are there
  }
  redraw();
}

// Threads understand the whole query language (OR, NOT, NEAR, prefixes). Other searches rank words by relevance.
export const usesQueryLanguage = (wanted) =>
  !hasOperators(wanted.q) &&
  (Boolean(wanted.thread) ||
    (wanted.source === "bus" && !["project", "author", "since", "until", "sort"].some((name) => wanted[name])));

async function searchThreads({ q, thread }, _offset, signal) {
  const answer = await get(withQuery("/api/search", { q, thread_id: thread, limit: 100, as_you_type: true }), {
    signal,
  });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.has_more ? null : answer.total,
    results: answer.results.map((hit) => {
      const words = [...hit.snippet.matchAll(/<mark>(.*?)<\/mark>/gs)].map(([, word]) => word).join(" ");
      return {
        source: "bus",
        id: hit.message_id,
        loc: { thread_id: hit.thread_id, message_id: hit.message_id, seq: hit.seq },
        words,
        href: linkToThread(hit.thread_id, hit.message_id, words),
        title: hit.thread_topic,
        author: displayNameOf(hit.author),
        when: hit.created_at,
        snippet: showMarkedSnippet(hit.snippet),
      };
    }),
  };
}

// Dates are days where the user is.
const startOfDay = (date) => (date ? new Date(`${date}T00:00`).toISOString() : undefined);
const endOfDay = (date) => (date ? new Date(`${date}T23:59:59.999`).toISOString() : undefined);

function requestBody(wanted, offset) {
  const { sources, filters } = limitSources(wanted);
  return {
    query: wanted.author ? `${writeOperator("from", wanted.author)} ${wanted.q}` : wanted.q,
    limit: PAGE,
    offset,
    dedupe: false,
    highlight: true,
    as_you_type: true,
    snippet_length: 240,
    sources,
    filters,
    order_by: wanted.sort === "recent" ? "recent" : "relevance",
    date_from: startOfDay(wanted.since),
    date_to: endOfDay(wanted.until),
    project: wanted.project.trim() || undefined,
    time_zone: timeZone,
  };
}

async function searchSources(wanted, offset, signal) {
  const answer = await post("/api/knowledge/search", requestBody(wanted, offset), { signal });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.total_estimated,
    nextOffset: answer.next_offset,
    errors: answer.errors,
    matched: answer.matched,
    readAs: answer.read_as,
    capped: answer.capped,
    results: answer.results.map(withoutTitle).map((item) => ({
      source: item.source,
      id: item.id,
      loc: item.loc,
      words: markedWords(item),
      href: resultLink(item, item.id, item.message_id, item.loc, markedWords(item)),
      title: item.source === "sessions" ? plainTitle(item.title) : item.title,
      author: item.sender && displayNameOf(authorOf(item)),
      when: item.last_modified ?? item.created_at,
      snippet: highlightSnippet(item.snippet ?? "", item.highlights),
      kind: item.media_type,
      project: item.project,
      answer: item.answer && relatedMessage(item, item.answer),
      correction: item.later && relatedMessage(item, item.later),
    })),
  };
}

// The snippet of a match in a title begins with that title, which is shown above it.
function withoutTitle(item) {
  const title = `${item.title}: `;
  if (!item.snippet?.startsWith(title)) return item;
  const cut = [...title].length;
  const highlights = (item.highlights ?? []).filter(([start]) => start >= cut);
  return {
    ...item,
    snippet: item.snippet.slice(title.length),
    highlights: highlights.map(([start, end]) => [start - cut, end - cut]),
  };
}

// Only the sources that know the role are searched.
function limitSources({ source, role, thread }) {
  if (thread) return { sources: ["bus"], filters: { bus: { thread_id: thread } } };
  if (!role) return { sources: source ? [source] : undefined };
  const sources = (source ? [source] : sourceNames).filter((name) => SOURCES[name].roles?.includes(role));
  const filters = {};
  for (const name of sources) filters[name] = name === "archive" ? { roles: [role] } : { role };
  return { sources: sources.length ? sources : [source || "bus"], filters };
}

// The words that the server found in a snippet, each once.
function markedWords({ snippet, highlights }) {
  const characters = [...(snippet ?? "")];
  const words = (highlights ?? []).map(([start, end]) => characters.slice(start, end).join(""));
  return [...new Set(words)].join(" ");
}

// In its session an agent is called "assistant".
const authorOf = ({ source, sender, loc }) =>
  source === "sessions" && sender === "assistant" ? (loc?.agent_id ?? sender) : sender;

const resultLink = (item, id, messageId, loc, q) =>
  item.source === "bus" && item.conversation_id
    ? linkToThread(item.conversation_id, messageId, messageId ? q : undefined)
    : linkToDocument(item.source, id, loc, q);

// A message shown below a result: its answer, or a later correction.
const relatedMessage = (item, { id, loc, sender, snippet, highlights }) => ({
  href: resultLink(item, id, loc?.message_id ?? id, loc, markedWords({ snippet, highlights })),
  author: sender ? displayNameOf(sender) : "",
  snippet: highlightSnippet(snippet ?? "", highlights),
});
