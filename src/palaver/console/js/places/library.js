// The library: what is kept beside the threads, one shelf a source.

import { get, post, withQuery } from "../api.js";
import { count, empty, face, failed, icon, plain, plural, projectName, shortTime, trouble, waiting } from "../parts.js";
import { agentNamed, shownName } from "../people.js";
import { go, link, toItem } from "../route.js";
import { SOURCES } from "../search.js";
import { may } from "../state.js";
import { drawn, html, nothing, redraw, repeat } from "../view.js";

const PAGE = 60;

// How each shelf is read, and what a card shows of a thing on it.
const SHELVES = {
  notes: {
    load: (offset) => get(withQuery("/api/notes", { limit: PAGE, offset })),
    card: (note) => ({
      id: note.id,
      title: note.title,
      text: note.content,
      tags: note.keywords,
      when: note.last_modified,
    }),
    about: "What you write down for yourself and your agents.",
  },
  media: {
    load: (offset) => get(withQuery("/api/media", { limit: PAGE, offset })),
    card: (one) => ({
      id: one.id,
      title: one.title,
      kind: one.media_type,
      tags: one.keywords,
      when: one.last_modified,
      text: one.url ?? "",
    }),
    about: "Videos, podcasts, books and articles, with what is said in them.",
  },
  chats: {
    load: (offset) => get(withQuery("/api/chats", { limit: PAGE, offset })),
    card: (chat) => ({
      id: chat.id,
      title: chat.title,
      kind: plural(chat.message_count, "message"),
      when: chat.last_modified,
    }),
    about: "Conversations with characters.",
  },
  characters: {
    load: (offset) => get(withQuery("/api/characters", { limit: PAGE, offset })),
    card: (one) => ({
      id: one.id,
      title: one.name,
      text: one.description,
      tags: one.tags,
      when: one.last_modified,
      face: one.name,
    }),
    about: "Those one can chat with.",
  },
  prompts: {
    load: (offset) => get(withQuery("/api/prompts", { limit: PAGE, offset })),
    card: (one) => ({
      id: one.id,
      title: one.name,
      text: one.details || one.user_prompt || one.system_prompt,
      tags: one.keywords,
      when: one.last_modified,
      kind: one.author,
    }),
    about: "Prompts that people and agents use again. MCP clients see them too.",
  },
  archive: {
    load: async (offset) => (await get(withQuery("/api/archive", { limit: PAGE, offset }))).conversations,
    card: (one) => ({
      id: one.id,
      title: one.title,
      kind: [one.origin, one.project && projectName(one.project), plural(one.messages, "message")]
        .filter(Boolean)
        .join(" · "),
      when: one.updated_at,
    }),
    about: "Conversations you have brought from elsewhere.",
  },
  sessions: {
    load: async (offset) => (await get(withQuery("/api/v1/sessions", { limit: PAGE, offset }))).sessions,
    card: (one) => {
      const agent = agentNamed(one.agent_id);
      return {
        id: `${one.agent_id}/${one.session_id}`,
        title: one.title || one.session_id,
        kind: [one.project && projectName(one.project), plural(one.turns, "turn")].filter(Boolean).join(" · "),
        when: one.last_turn_at,
        loc: { agent_id: one.agent_id, session_id: one.session_id },
        face: agent ? shownName(agent) : (one.agent ?? one.agent_id),
        isAgent: true,
      };
    },
    about: "What agents and their people said, turn by turn.",
  },
};
const ORDER = ["notes", "prompts", "archive", "sessions", "media", "chats", "characters"];

let source = "notes";
let items = [];
let hasMore = false;
let problem = null;
let isLoaded = false;
let counts = {};

export const libraryView = {
  title: () => `${SOURCES[source][0]} · Library`,
  isInner: () => true,
  enter({ parts: [wanted, what] }) {
    const next = SHELVES[wanted] ? wanted : "notes";
    if (what === "new" && (next === "notes" || next === "prompts")) return create(next);
    if (next !== source) items = [];
    source = next;
    isLoaded = items.length > 0;
    drawn().then(() =>
      document.querySelector(".shelves [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" }),
    );
    return load();
  },
  template: () => html`<main class="pane library">
    <header class="head"><div class="name"><h1>Library</h1><p>${SHELVES[source].about}</p></div>
      ${may("write") && ["notes", "prompts"].includes(source) ? html`<button type="button" class="main" @click=${() => create(source)}>${icon("plus")} New ${SOURCES[source][1].toLowerCase()}</button>` : nothing}
      ${source === "archive" ? html`<a class="button" href="#/import">${icon("import")} Bring your history</a>` : nothing}</header>
    <nav class="shelves" aria-label="Shelves">${ORDER.map(
      (name) => html`<a href=${link(["library", name])} aria-current=${name === source ? "page" : nothing}>
      ${icon(name)} ${SOURCES[name][0]} ${counts[name] ? html`<small>${count(counts[name])}</small>` : nothing}</a>`,
    )}</nav>
    <div class="scroll">${shelf()}</div>
  </main>`,
  key(event) {
    if (event.key !== "j" && event.key !== "k") return false;
    const all = [...document.querySelectorAll(".cards a")];
    (all[all.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1)] ?? all[0])?.focus();
    return true;
  },
};

async function load(offset = 0) {
  const wanted = source;
  try {
    const found = await SHELVES[wanted].load(offset);
    if (wanted !== source) return;
    items = offset ? [...items, ...found] : found;
    hasMore = found.length === PAGE;
    problem = null;
  } catch (wrong) {
    problem = wrong;
  }
  isLoaded = true;
  redraw();
  get("/api/overview?days=1")
    .then((answer) => ((counts = answer.documents), redraw()))
    .catch(() => {});
}

async function create(kind) {
  try {
    const made =
      kind === "notes"
        ? await post("/api/notes", { title: "New note", content: "" })
        : await post("/api/prompts", { name: "New prompt" });
    items = [];
    go(link(["open", kind, String(made.id)], { edit: "new" }));
  } catch (wrong) {
    failed(wrong);
  }
}

function shelf() {
  if (problem) return trouble(problem, () => load());
  if (!isLoaded) return waiting();
  if (!items.length) return nobody();
  return html`<ul class="cards">${repeat(
    items,
    (item) => SHELVES[source].card(item).id,
    (item) => card(SHELVES[source].card(item)),
  )}</ul>
    ${hasMore ? html`<p class="more"><button type="button" @click=${() => load(items.length)}>More</button></p>` : nothing}`;
}

function nobody() {
  const what = SOURCES[source][0].toLowerCase();
  if (source === "archive")
    return empty(
      "archive",
      "Nothing imported yet",
      "Bring your chats from ChatGPT, Claude, Cursor and others: they become searchable here.",
      html`<a class="button" href="#/import">Bring your history</a>`,
    );
  if (source === "sessions")
    return empty(
      "sessions",
      "No sessions yet",
      html`<code>palaver watch</code> records the sessions of Claude Code and Codex as they are written.`,
    );
  const canMake = may("write") && ["notes", "prompts"].includes(source);
  return empty(
    source,
    `No ${what} yet`,
    SHELVES[source].about,
    canMake
      ? html`<button type="button" class="main" @click=${() => create(source)}>New ${SOURCES[source][1].toLowerCase()}</button>`
      : nothing,
  );
}

function card({ id, title, text, kind, tags, when, face: name, isAgent, loc }) {
  return html`<li><a href=${toItem(source, id, loc)}>
    <span class="title">${name ? face(name, { isAgent }) : icon(source)} <b>${title || "Untitled"}</b></span>
    ${text ? html`<span class="text">${plain(text)}</span>` : nothing}
    <span class="foot">${kind ? html`<span>${kind}</span>` : nothing}${(tags ?? []).slice(0, 3).map((tag) => html`<i class="tag">${tag}</i>`)}${when ? html`<time datetime=${when}>${shortTime(when)}</time>` : nothing}</span>
  </a></li>`;
}
