// @ts-check
// How the reader loads and shows the documents of each source. Names, icons and paths are in data/sources.js.

import { displayNameOf } from "../data/agents.js";
import { get, post, url, withQuery } from "../data/api.js";
import { SOURCES } from "../data/sources.js";
import { goTo, link, linkToThread } from "../route.js";
import { avatar, emptyState, loading, tagList } from "../ui/elements.js";
import { clockTime, dayKey, dayName, formatTimestamp, momentOf, plainText, plural, timeElement } from "../ui/format.js";
import { checkLink, renderMarkdown } from "../ui/markdown.js";
import { notifyError } from "../ui/dialog.js";
import { html, nothing, redraw, repeat, t } from "../ui/templates.js";

const PAGE = 80;
const EXPORT_PAGE = 100;

/**
 * @typedef {object} OpenDocument A document that is open in the reader.
 * @property {string} source
 * @property {string} id
 * @property {string} q The search that led here.
 * @property {any} loc The place in the document that the link names.
 * @property {string} title
 * @property {any} item The document as the server sent it; null while it is loading.
 * @property {any} error
 * @property {boolean} isEditing
 * @property {boolean} isEditLinked Does the address ask for the editor?
 * @property {boolean} isNew
 * @property {string | null} draftAt When the draft that the editor shows was written.
 * @property {string} [foundId] The id of the turn that the link names.
 * @property {Turns} [turns]
 * @property {import("./replay/replay.js").Replay} [replay]
 */

/**
 * @typedef {object} ReaderSource
 * @property {(document: OpenDocument) => Promise<void>} open Load the document.
 * @property {(document: OpenDocument) => unknown} body
 * @property {(document: OpenDocument) => unknown} [subtitle]
 * @property {[name: string, label: string, kind?: "long" | "text" | "list"][]} [fields] The fields of the editor.
 */

// The turns of a conversation, loaded in pages in both directions.
export class Turns {
  items = [];
  hasEarlier = false;
  hasLater = false;
  #start = 0;
  #load;

  constructor(load) {
    this.#load = load; // (offset, limit) => items
  }

  get isFromStart() {
    return this.#start === 0;
  }

  // Load the page around the turn with this number.
  async open(number) {
    this.#start = Math.max(0, number - Math.floor(PAGE / 2));
    this.items = await this.#load(this.#start, PAGE);
    this.hasEarlier = this.#start > 0;
    this.hasLater = this.items.length === PAGE;
  }

  loadEarlier = async () => {
    const start = Math.max(0, this.#start - PAGE);
    this.items = [...(await this.#load(start, this.#start - start)), ...this.items];
    this.#start = start;
    this.hasEarlier = start > 0;
    redraw();
  };

  loadLater = async () => {
    const found = await this.#load(this.#start + this.items.length, PAGE);
    this.items = [...this.items, ...found];
    this.hasLater = found.length === PAGE;
    redraw();
  };

  async loadAll() {
    const all = [];
    for (;;) {
      const page = await this.#load(all.length, EXPORT_PAGE);
      if (!page.length) return all;
      all.push(...page);
    }
  }
}

// The place of a document in its conversation. The server is asked if the link does not name it.
async function locate({ loc, source, id }) {
  if (loc?.conversation_id || loc?.thread_id || loc?.session_id) return loc;
  const { meta } = await post("/api/knowledge/get", { source, id, retrieval: { mode: "snippet" } });
  return { conversation_id: meta.conversation_id, message_id: meta.message_id, ...meta.loc };
}

// Open a session or a conversation as a timeline, at the turn that the link names. Its code is loaded here: not everybody
// reads sessions.
async function openReplay(document, path, loc, linksOf, answeredBy) {
  const { Replay, Steps, LINKS } = await import("./replay/replay.js");
  const steps = new Steps(path);
  const found = await steps.open(loc.message_id);
  document.foundId = found ? loc.message_id : undefined;
  document.title = plainText(steps.title);
  const names = { question: t("Person"), answer: answeredBy };
  document.replay = new Replay(steps, { found, foundId: loc.message_id, linkTo: linksOf(LINKS), names });
}

async function openItem(document) {
  if (document.isNew) {
    document.title = t(`New ${SOURCES[document.source].singular.toLowerCase()}`);
    document.item = { id: "new" };
    return;
  }
  document.item = await get(`${SOURCES[document.source].path}/${encodeURIComponent(document.id)}`);
  document.title = document.item.title ?? document.item.name;
}

// The documents of a source with a tag, in the library.
const tagLink = (source) => (tag) => link(["library", source], { tag });

/** @type {Record<string, ReaderSource>} */
export const READER_SOURCES = {
  bus: {
    async open(document) {
      const loc = await locate(document);
      goTo(linkToThread(loc.thread_id ?? loc.conversation_id, loc.message_id, document.q), { replace: true });
    },
    body: () => loading(),
  },

  notes: {
    open: openItem,
    body: ({ item }) =>
      html`${tagList(item.keywords, tagLink("notes"))}${item.content.trim() ? prose(item, item.content, 2) : html`<p class="beginning">${t("This note is empty.")}</p>`}`,
    fields: [
      ["title", "Title"],
      ["content", "Text (Markdown)", "long"],
      ["keywords", "Keywords (comma-separated)", "list"],
    ],
  },

  prompts: {
    async open(document) {
      await openItem(document);
      document.id = String(document.item.id);
    },
    body: ({ item }) =>
      html`${tagList(item.keywords, tagLink("prompts"))}${fieldList([
        ["Description", item.details],
        ["System prompt", item.system_prompt],
        ["User prompt", item.user_prompt],
        ["Author", item.author],
      ])}`,
    fields: [
      ["name", "Name"],
      ["details", "Description", "text"],
      ["system_prompt", "System prompt", "long"],
      ["user_prompt", "User prompt ({{name}} becomes an argument)", "long"],
      ["author", "Author"],
      ["keywords", "Keywords (comma-separated)", "list"],
    ],
  },

  characters: {
    open: openItem,
    body: ({
      item,
    }) => html`<p class="who">${avatar(item.name)} ${item.creator ? html`<span>${t("by {name}", { name: item.creator })}</span>` : nothing}</p>
      ${tagList(item.tags, tagLink("characters"))}
      ${fieldList([
        ["Description", item.description],
        ["Personality", item.personality],
        ["Scenario", item.scenario],
        ["First message", item.first_message],
        ["Example messages", item.message_examples],
        ...item.alternate_greetings.map((greeting) => ["Alternate greeting", greeting]),
        ["System prompt", item.system_prompt],
        ["Post-history instructions", item.post_history_instructions],
        ["Creator's notes", item.creator_notes],
      ])}`,
  },

  media: {
    open: openItem,
    body: ({ item }) => {
      const isLink = /^https?:/i.test(item.url ?? "") && checkLink(item.url);
      return html`<p class="facts-line"><span>${item.media_type}</span>${
        isLink
          ? html`<a href=${item.url} target="_blank" rel="noopener noreferrer">${item.url}</a>`
          : html`<span>${item.url ?? nothing}</span>`
      }</p>
      ${tagList(item.keywords, tagLink("media"))}
      ${
        item.transcript?.segments.length
          ? html`<ol class="transcript">${item.transcript.segments.map((segment) => html`<li><time>${formatTimestamp(segment.start)}</time><span>${segment.text}</span></li>`)}</ol>`
          : html`<div class="pre page">${item.content}</div>`
      }`;
    },
  },

  chats: {
    async open(document) {
      const loc = await locate(document);
      const id = loc.conversation_id;
      document.item = await get(url`/api/chats/${id}`);
      document.title = document.item.title;
      document.foundId = loc.message_id;
      document.turns = new Turns((offset, limit) => get(withQuery(url`/api/chats/${id}/messages`, { offset, limit })));
      await document.turns.open(loc.message_index ?? 0);
    },
    body: (document) =>
      conversation(document, ({ id, sender, content, created_at }) => ({
        id,
        name: sender,
        text: content,
        when: created_at,
      })),
  },

  sessions: {
    async open(document) {
      const loc = await locate(document);
      const { agent_id: agent, session_id: session } = loc;
      const path = url`/api/v1/agents/${agent}/sessions/${session}/steps`;
      await openReplay(document, path, loc, (links) => links.session(agent, session), displayNameOf(agent));
      document.item = { session, agent };
      document.title = document.title || t("Untitled");
    },
    body: ({ replay }) => replay?.template(),
    subtitle: ({ item, replay }) =>
      html`${displayNameOf(item.agent)} · ${startTime(replay)}${plural(replay?.steps.total ?? 0, "step")}`,
  },

  archive: {
    async open(document) {
      const loc = await locate(document);
      const id = loc.conversation_id;
      const [origin] = id.split(":", 1);
      await openReplay(document, url`/api/archive/${id}/steps`, loc, (links) => links.conversation(id), origin);
      document.item = { id, origin };
    },
    body: ({ replay }) => replay?.template(),
    subtitle: ({ item, replay }) =>
      html`${item.origin} · ${startTime(replay)}${plural(replay?.steps.total ?? 0, "step")}`,
  },
};

const startTime = (replay) => {
  const at = replay?.steps.outline.totals.started_at;
  return at ? html`${timeElement(at, momentOf(at))} · ` : nothing;
};

const fieldList = (fields) =>
  html`<dl class="fields">${fields.filter(([, text]) => text).map(([label, text]) => html`<dt>${t(label)}</dt><dd class="pre">${text}</dd>`)}</dl>`;

// Markdown is rendered once for each item, and again when its text changes.
const rendered = new WeakMap();
function prose(item, text, level = 3) {
  if (rendered.get(item)?.text !== text) rendered.set(item, { text, element: renderMarkdown(text, { level }) });
  return rendered.get(item).element;
}

/** @type {(document: OpenDocument, describe: (item: any) => any) => unknown} */
function conversation({ turns, foundId }, describe) {
  if (!turns?.items.length) return emptyState("chats", "No messages");
  const moreButton = (text, load) =>
    html`<p class="more"><button type="button" @click=${() => load().catch(notifyError)}>${t(text)}</button></p>`;
  let previous = null;
  return html`${turns.hasEarlier ? moreButton(t("Show earlier"), turns.loadEarlier) : nothing}
    ${repeat(
      turns.items,
      (item) => item.id,
      (item) => {
        const turn = describe(item);
        const isNewDay = turn.when && (!previous || dayKey(previous) !== dayKey(turn.when));
        if (turn.when) previous = turn.when;
        return html`${isNewDay ? html`<h2 class="day"><span>${dayName(turn.when)}</span></h2>` : nothing}
        <article class="turn message ${turn.id === foundId ? "found" : ""}" id="t-${turn.id}" tabindex="-1">
          <div class="side">${avatar(turn.name, { isAgent: turn.isAgent })}</div>
          <div class="what"><header><b class="author">${turn.name}</b>${turn.when ? timeElement(turn.when, clockTime(turn.when)) : nothing}</header>${prose(item, turn.text)}</div>
        </article>`;
      },
    )}
    ${turns.hasLater ? moreButton(t("Show later"), turns.loadLater) : nothing}`;
}
