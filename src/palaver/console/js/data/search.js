// @ts-check
// Search requests: in one thread, in all threads, or in all sources. The current results are in `search`.

import { linkToDocument, linkToThread } from "../route.js";
import { highlightSnippet, showMarkedSnippet } from "../ui/highlight.js";
import { nextDraw, redraw } from "../ui/render.js";
import { displayNameOf, findAgent } from "./agents.js";
import { get, post, withQuery } from "./api.js";
import { SOURCES, sourceNames } from "./sources.js";

const PAGE = 30;
const PERSON_PAGES = 5; // requested at most to fill one page with the messages of one person

const NO_RESULTS = {
  results: [], // see SearchResult in types.d.ts
  hasMore: false,
  nextOffset: null, // null: there are no further pages
  hint: null,
  total: null,
  errors: null, // by source
  matched: null, // how well the best results match
  capped: null, // words for which only the newest passages were considered
};

/** @type {any} */
export const search = { ...NO_RESULTS, error: null, isRunning: false, selected: 0, milliseconds: null };

let abort = new AbortController();

export function cancelSearch() {
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
  redraw();
  const start = performance.now();
  try {
    const find = usesQueryLanguage(wanted) ? searchThreads : searchSources;
    const found = await find(wanted, offset, abort.signal);
    const results = offset ? [...search.results, ...found.results] : found.results;
    Object.assign(search, NO_RESULTS, found, { results, error: null, milliseconds: performance.now() - start });
  } catch (error) {
    if (error.name === "AbortError") return;
    Object.assign(search, { error, results: [] });
  }
  search.isRunning = false;
  await nextDraw();
  if (!offset) document.querySelector(".search > .scroll")?.scrollTo(0, 0);
}

// Threads understand the whole query language (OR, NOT, NEAR, prefixes). Other searches rank words by relevance.
export const usesQueryLanguage = (wanted) =>
  Boolean(wanted.thread) ||
  (wanted.source === "bus" && !["project", "author", "since", "until", "sort"].some((name) => wanted[name]));

async function searchThreads({ q, thread }, _offset, signal) {
  const answer = await get(withQuery("/api/search", { q, thread_id: thread, limit: 100 }), { signal });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.has_more ? null : answer.total,
    results: answer.results.map((hit) => ({
      source: "bus",
      href: linkToThread(hit.thread_id, hit.message_id, q),
      title: hit.thread_topic,
      author: displayNameOf(hit.author),
      when: hit.created_at,
      snippet: showMarkedSnippet(hit.snippet),
    })),
  };
}

async function searchSources(wanted, offset, signal) {
  const { q } = wanted;
  const { sources, filters, person } = limitSources(wanted);
  const body = {
    query: q,
    limit: PAGE,
    offset,
    dedupe: false,
    highlight: true,
    snippet_length: 240,
    sources,
    filters,
    order_by: wanted.sort === "recent" ? "recent" : "relevance",
    date_from: wanted.since || undefined,
    date_to: wanted.until || undefined,
    project: wanted.project.trim() || undefined,
  };
  const answer = person
    ? await searchByPerson(person, body, signal)
    : await post("/api/knowledge/search", body, { signal });
  return {
    hasMore: answer.has_more,
    hint: answer.hint,
    total: answer.total_estimated,
    nextOffset: answer.next_offset,
    errors: answer.errors,
    matched: answer.matched,
    capped: answer.capped,
    results: answer.results.map((item) => ({
      source: item.source,
      href: resultLink(item, item.id, item.message_id, item.loc, q),
      title: item.title,
      author: item.sender && displayNameOf(authorOf(item)),
      when: item.last_modified ?? item.created_at,
      snippet: highlightSnippet(item.snippet ?? "", item.highlights),
      kind: item.media_type,
      project: item.project,
      answer: item.answer && relatedMessage(item, item.answer, q),
      correction: item.later && relatedMessage(item, item.later, q),
    })),
  };
}

// The server filters by agent, not by person. The messages of other people are removed here.
async function searchByPerson(person, body, signal) {
  const results = [];
  /** @type {any} */
  let answer = { next_offset: body.offset };
  for (let pages = 0; pages < PERSON_PAGES && results.length < PAGE && answer.next_offset !== null; pages += 1) {
    answer = await post("/api/knowledge/search", { ...body, limit: 100, offset: answer.next_offset }, { signal });
    results.push(...answer.results.filter((item) => item.sender?.toLowerCase() === person));
  }
  return { ...answer, results, total_estimated: answer.has_more ? null : results.length };
}

// Only the sources that know the author and the role are searched.
function limitSources({ source, author, role }) {
  const agent = author && findAgent(author);
  const sources = (source ? [source] : sourceNames).filter((name) => {
    const row = SOURCES[name];
    return (!author || (agent ? row.hasAgentAuthors : row.hasHumanAuthors)) && (!role || row.roles?.includes(role));
  });
  const filters = {};
  for (const name of sources) {
    const filter = {};
    if (agent) filter.agent = agent.id;
    if (role && name === "archive") filter.roles = [role];
    else if (role) filter.role = role;
    else if (agent && name === "sessions") filter.role = "assistant"; // its own words, not those of its user
    if (Object.keys(filter).length) filters[name] = filter;
  }
  return {
    sources: sources.length ? sources : [source || "bus"],
    filters,
    person: author && !agent ? author.toLowerCase() : null,
  };
}

// In its session an agent is called "assistant".
const authorOf = ({ source, sender, loc }) =>
  source === "sessions" && sender === "assistant" ? (loc?.agent_id ?? sender) : sender;

const resultLink = (item, id, messageId, loc, q) =>
  item.source === "bus" && item.conversation_id
    ? linkToThread(item.conversation_id, messageId, messageId ? q : undefined)
    : linkToDocument(item.source, id, loc, q);

// A message shown below a result: its answer, or a later correction.
const relatedMessage = (item, { id, loc, sender, snippet, highlights }, q) => ({
  href: resultLink(item, id, loc?.message_id ?? id, loc, q),
  author: sender ? displayNameOf(sender) : "",
  snippet: highlightSnippet(snippet ?? "", highlights),
});
