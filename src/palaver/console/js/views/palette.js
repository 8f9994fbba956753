// @ts-check
// The command palette (Ctrl K): go to a thread, agent, project, note, prompt or page, or run an action.

import { agents, displayName } from "../data/agents.js";
import { get, withQuery } from "../data/api.js";
import { SOURCES } from "../data/sources.js";
import { lastActivity, threads, unreadCount } from "../data/threads.js";
import { goTo, link, linkToDocument, linkToThread } from "../route.js";
import { closeDialog, openDialog } from "../ui/dialog.js";
import { projectName } from "../ui/format.js";
import { icon } from "../ui/elements.js";
import { html, nextDraw, nothing, redraw, t } from "../ui/templates.js";

const MAX_SHOWN = 50;
const MAX_OF_A_KIND = 6;
const MOST_LOADED = 200; // notes, and prompts
const TYPING_DELAY = 150; // milliseconds after a key before the server is asked
const NOTHING = { documents: [], total: 0 };

/**
 * @typedef {object} Entry
 * @property {string} [id] Of a document.
 * @property {string} title
 * @property {string} kind What it is, shown at the right.
 * @property {string} icon
 * @property {string} [keys] The shortcut that does the same.
 * @property {string} [words] Other words that find it.
 * @property {() => unknown} run
 */

/** @type {Entry[]} */
let actions = [];
/** @type {Entry[]} */
let documents = []; // saved searches, notes, prompts and projects, loaded when the palette opens
let isAllLoaded = true; // are all notes and prompts among them?
let query = "";
let selected = 0;
/** @type {number | undefined} */
let timer;

/** @param {Entry[]} given The actions of the console. */
export function openPalette(given) {
  actions = given;
  query = "";
  selected = 0;
  openDialog(t("Command palette"), template, { className: "palette" });
  loadDocuments();
}

async function loadDocuments() {
  const [notes, prompts, sessions, searches] = await Promise.all([
    get(`/api/library/notes?limit=${MOST_LOADED}`).catch(() => NOTHING),
    get(`/api/library/prompts?limit=${MOST_LOADED}`).catch(() => NOTHING),
    get("/api/library/sessions?limit=1&choices=true").catch(() => NOTHING),
    get("/api/searches").catch(() => []),
  ]);
  isAllLoaded = notes.total <= MOST_LOADED && prompts.total <= MOST_LOADED;
  documents = [
    ...searches.map(({ name, query }) => ({
      title: name,
      kind: t("Saved search"),
      icon: "star",
      run: () => goTo(link("search", { q: query })),
    })),
    ...(sessions.choices?.projects ?? []).map(({ value }) => ({
      title: projectName(value),
      kind: t("Project"),
      icon: "sessions",
      run: () => goTo(link("search", { project: value })),
    })),
    ...documentEntries("notes", notes.documents),
    ...documentEntries("prompts", prompts.documents),
  ];
  redraw();
  findDocuments(query.trim()); // it may have been typed meanwhile
}

/** @returns {Entry[]} */
const documentEntries = (source, found) =>
  found.map((one) => ({
    id: `${source}/${one.id}`,
    title: one.title,
    kind: t(SOURCES[source].singular),
    icon: SOURCES[source].icon,
    run: () => goTo(linkToDocument(source, one.id)),
  }));

// In a large library only the documents that were changed last are loaded, so the server is asked for the others.
async function findDocuments(text) {
  if (isAllLoaded || text.length < 2) return;
  const path = (source) => withQuery(`/api/library/${source}`, { text, limit: 20 });
  const [notes, prompts] = await Promise.all(
    ["notes", "prompts"].map((source) => get(path(source)).catch(() => NOTHING)),
  );
  const known = new Set(documents.map((entry) => entry.id));
  const found = [...documentEntries("notes", notes.documents), ...documentEntries("prompts", prompts.documents)];
  documents = [...documents, ...found.filter((entry) => !known.has(entry.id))];
  redraw();
}

/** @returns {Entry[]} */
const threadEntries = () =>
  [...threads.byId.values()]
    .sort(
      (a, b) => Number(unreadCount(b) > 0) - Number(unreadCount(a) > 0) || (lastActivity(a) < lastActivity(b) ? 1 : -1),
    )
    .map((thread) => ({
      title: thread.topic,
      kind: t("Thread"),
      icon: unreadCount(thread) ? "unread" : "threads",
      run: () => goTo(linkToThread(thread.id)),
    }));

/** @returns {Entry[]} */
const agentEntries = () =>
  agents.list.map((agent) => ({
    title: displayName(agent),
    kind: t("Agent"),
    icon: "agents",
    run: () => goTo(link(["agents", agent.slug])),
  }));

// Entries that contain all words of the query. Those that begin with it come first, then those with a word that does; what
// can be done comes before what can be read.
/** @returns {Entry[]} */
function foundEntries() {
  const text = query.trim().toLowerCase();
  const words = text.split(/\s+/);
  const isAction = new Set(actions);
  const rank = ({ entry, title }) =>
    (title.startsWith(text) ? 4 : title.includes(` ${words[0]}`) ? 2 : 0) + (isAction.has(entry) ? 3 : 0);
  const all = [...threadEntries().slice(0, text ? undefined : 8), ...actions, ...agentEntries(), ...documents];
  if (!text) return all.slice(0, MAX_SHOWN);
  const found = all
    .map((entry) => ({ entry, title: `${entry.title} ${entry.words ?? ""}`.toLowerCase() }))
    .filter(({ title }) => words.every((word) => title.includes(word)))
    .sort((a, b) => rank(b) - rank(a))
    .map(({ entry }) => entry);
  const search = {
    title: t("Search everything for “{text}”", { text: query.trim() }),
    kind: t("Search"),
    icon: "search",
    run: () => goTo(link("search", { q: query.trim() })),
  };
  return [...mixedKinds(found), search];
}

// The best of each kind come first: hundreds of threads must not hide a note or an action.
function mixedKinds(found) {
  const counts = new Map();
  const isAmongFirst = ({ kind }) => {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return counts.get(kind) <= MAX_OF_A_KIND;
  };
  /** @type {Entry[]} */
  const first = [];
  /** @type {Entry[]} */
  const rest = [];
  for (const entry of found) (isAmongFirst(entry) ? first : rest).push(entry);
  return [...first, ...rest].slice(0, MAX_SHOWN);
}

function choose(entry) {
  closeDialog();
  nextDraw().then(() => entry.run());
}

function select(number, count) {
  selected = (number + count) % count;
  nextDraw().then(() => document.getElementById(`command-${selected}`)?.scrollIntoView({ block: "nearest" }));
}

function template() {
  const entries = foundEntries();
  selected = Math.min(selected, entries.length - 1);
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const isCtrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
    if (!step && event.key !== "Enter" && !isCtrlK) return;
    event.preventDefault();
    event.stopPropagation(); // the console must not use the key too when the palette has closed
    if (step) select(selected + step, entries.length);
    else if (isCtrlK) closeDialog();
    else if (!event.isComposing) choose(entries[selected]);
  };
  const onInput = (event) => {
    query = event.target.value;
    selected = 0;
    redraw();
    clearTimeout(timer);
    timer = setTimeout(() => findDocuments(query.trim()), TYPING_DELAY);
  };
  return html`<input role="combobox" aria-label=${t("Go to a page or run an action")} aria-expanded="true" aria-controls="commands"
      aria-activedescendant="command-${selected}" placeholder=${t("Go to a page or run an action")} autocomplete="off" spellcheck="false" autofocus
      @input=${onInput} @keydown=${onKey} />
    <ul id="commands" role="listbox" aria-label=${t("Commands")}>${entries.map(
      (
        entry,
        i,
      ) => html`<li role="option" id="command-${i}" aria-selected=${i === selected} @click=${() => choose(entry)}
        @pointermove=${() => i !== selected && (((selected = i), redraw()))}>
        ${icon(entry.icon)} <span>${entry.title}</span> ${entry.keys ? html`<kbd>${entry.keys}</kbd>` : nothing}<small>${entry.kind}</small></li>`,
    )}</ul>`;
}
