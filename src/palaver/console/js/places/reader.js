// Any item of any source, open: #/open/{source}/{id}, at the place `loc` names.

import { at, get, post, put, remove, withQuery } from "../api.js";
import { markdown } from "../markdown.js";
import { markIn, unmark } from "../marking.js";
import {
  askWhether,
  copy,
  dayName,
  dayOf,
  empty,
  face,
  failed,
  icon,
  menu,
  notify,
  plural,
  time,
  timeOf,
  trouble,
  waiting,
} from "../parts.js";
import { agentNamed, shownName } from "../people.js";
import { go, link, toItem, toThread } from "../route.js";
import { SOURCES } from "../search.js";
import { may } from "../state.js";
import { drawn, html, nothing, redraw, ref, repeat } from "../view.js";

const PAGE = 80;
const MANY = 100; // turns fetched at once when all are wanted

let here = null; // { source, id, loc, q, item, problem, … }

export const readerView = {
  title: () => here?.title || (Object.hasOwn(SOURCES, here?.source ?? "") ? SOURCES[here.source][1] : "Open"),
  isInner: () => true,
  async enter({ parts: [source, ...rest], query }) {
    const id = rest.join("/"); // a link that somebody decoded on the way still opens
    here = {
      source,
      id,
      q: query.get("q") ?? "",
      loc: parsed(query.get("loc")),
      isEditing: query.has("edit"),
      isAddressed: query.has("edit"),
      isNew: query.get("edit") === "new",
      item: null,
      problem: null,
      title: "",
    };
    redraw();
    if (!Object.hasOwn(SOURCES, source) || !id) {
      here.problem = notHere("There is no such kind of thing here.");
      return redraw();
    }
    const opened = here;
    try {
      await KINDS[source].open(opened);
    } catch (problem) {
      opened.problem = problem.status === 404 ? notHere("It may have been deleted, or the link is not whole.") : problem;
    }
    if (here !== opened) return;
    await drawn();
    find();
  },
  leave() {
    unmark();
    here = null;
  },
  template: () => html`<main class="pane reader">${here ? whole() : nothing}</main>`,
  key(event) {
    if (event.key === "Escape") return (history.length > 1 ? history.back() : go(link(["library", here.source])), true);
    if (event.key === "e" && here.item && KINDS[here.source].edit && may("write")) return ((here.isEditing = true), redraw(), true);
    const step = { j: 1, k: -1 }[event.key];
    const all = step ? [...document.querySelectorAll(".turn")] : [];
    if (!all.length) return false;
    const now = all.indexOf(document.activeElement.closest?.(".turn"));
    const next = all[now + step] ?? all[0];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    return true;
  },
};

const notHere = (text) => Object.assign(new Error(text), { status: 404 });

function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

// Where in a conversation an id stands, if the link does not say.
async function located(one) {
  if (one.loc?.conversation_id || one.loc?.thread_id || one.loc?.session_id) return one.loc;
  const { meta } = await post("/api/knowledge/get", { source: one.source, id: one.id, retrieval: { mode: "snippet" } });
  return { conversation_id: meta.conversation_id, message_id: meta.message_id, ...meta.loc };
}

// What was said: a stretch of it, growing at both ends.
class Stretch {
  items = [];
  hasEarlier = false;
  hasLater = false;

  constructor(load) {
    this.load = load;
  }

  async open(index) {
    this.start = Math.max(0, index - PAGE / 2);
    this.items = await this.load(this.start, PAGE);
    this.hasEarlier = this.start > 0;
    this.hasLater = this.items.length === PAGE;
  }

  async earlier() {
    const from = Math.max(0, this.start - PAGE);
    this.items = [...(await this.load(from, this.start - from)), ...this.items];
    this.start = from;
    this.hasEarlier = from > 0;
    redraw();
  }

  async later() {
    const found = await this.load(this.start + this.items.length, PAGE);
    this.items = [...this.items, ...found];
    this.hasLater = found.length === PAGE;
    redraw();
  }
}

const KINDS = {
  bus: {
    async open(one) {
      const loc = await located(one);
      go(toThread(loc.thread_id ?? loc.conversation_id, loc.message_id, one.q), { replace: true });
    },
    body: () => waiting(),
  },

  notes: {
    async open(one) {
      one.item = await get(at`/api/notes/${one.id}`);
      one.title = one.item.title;
    },
    body: ({ item }) =>
      html`${tags(item.keywords)}${item.content.trim() ? written(item, item.content) : html`<p class="beginning">Nothing is written here yet.</p>`}`,
    edit: [
      ["title", "Title"],
      ["content", "Text (Markdown)", "long"],
      ["keywords", "Keywords, with commas", "list"],
    ],
    path: "/api/notes",
  },

  prompts: {
    async open(one) {
      one.item = await get(at`/api/prompts/${one.id}`);
      one.id = String(one.item.id);
      one.title = one.item.name;
    },
    body: ({ item }) =>
      html`${tags(item.keywords)}${fields([
        ["Details", item.details],
        ["System", item.system_prompt],
        ["User", item.user_prompt],
        ["Author", item.author],
      ])}`,
    edit: [
      ["name", "Name"],
      ["details", "What it is for", "text"],
      ["system_prompt", "System prompt", "long"],
      ["user_prompt", "User prompt; {{name}} becomes an argument", "long"],
      ["author", "Author"],
      ["keywords", "Keywords, with commas", "list"],
    ],
    path: "/api/prompts",
  },

  characters: {
    async open(one) {
      one.item = await get(at`/api/characters/${one.id}`);
      one.title = one.item.name;
    },
    body: ({
      item,
    }) => html`<p class="who">${face(item.name)} ${item.creator ? html`<span>by ${item.creator}</span>` : nothing}</p>${tags(item.tags)}
      ${fields([
        ["Description", item.description],
        ["Personality", item.personality],
        ["Scenario", item.scenario],
        ["First message", item.first_message],
        ["Examples", item.message_examples],
        ...item.alternate_greetings.map((greeting) => ["Another greeting", greeting]),
        ["System prompt", item.system_prompt],
        ["After the history", item.post_history_instructions],
        ["Notes of its maker", item.creator_notes],
      ])}`,
    path: "/api/characters",
  },

  media: {
    async open(one) {
      one.item = await get(at`/api/media/${one.id}`);
      one.title = one.item.title;
    },
    body: ({
      item,
    }) => html`<p class="facts-line"><span>${item.media_type}</span>${item.url ? source(item.url) : nothing}</p>
      ${tags(item.keywords)}
      ${
        item.transcript?.segments.length
          ? html`<ol class="transcript">${item.transcript.segments.map((segment) => html`<li><time>${stamp(segment.start)}</time><span>${segment.text}</span></li>`)}</ol>`
          : html`<div class="pre page">${item.content}</div>`
      }`,
    path: "/api/media",
  },

  chats: {
    async open(one) {
      const loc = await located(one);
      const id = loc.conversation_id;
      one.item = await get(at`/api/chats/${id}`);
      one.title = one.item.title;
      one.found = loc.message_id;
      one.stretch = new Stretch((offset, limit) => get(withQuery(at`/api/chats/${id}/messages`, { offset, limit })));
      await one.stretch.open(loc.message_index ?? 0);
    },
    body: (one) =>
      said(one, (message) => ({
        id: message.id,
        name: message.sender,
        text: message.content,
        when: message.created_at,
      })),
  },

  sessions: {
    async open(one) {
      const loc = await located(one);
      const { agent_id: agent, session_id: session } = loc;
      one.agent = agent;
      one.title = `Session ${session}`;
      one.found = loc.message_id;
      one.item = { session, agent };
      one.stretch = new Stretch(
        async (after, limit) =>
          (await get(withQuery(at`/api/v1/agents/${agent}/sessions/${session}/messages`, { after, limit }))).turns,
      );
      await one.stretch.open(loc.message_index ?? 0);
      one.title =
        (one.stretch.start === 0 &&
          one.stretch.items
            .find((turn) => turn.role === "user")
            ?.content.split("\n")[0]
            .slice(0, 120)) ||
        one.title;
    },
    body: (one) =>
      said(one, (turn) => ({
        id: turn.id,
        name: turn.role === "assistant" ? nameOf(one.agent) : turn.role,
        isAgent: turn.role === "assistant",
        text: turn.content,
        when: turn.ts,
      })),
    under: (one) => html`${nameOf(one.agent)} · session ${one.item.session}`,
  },

  archive: {
    async open(one) {
      const loc = await located(one);
      one.item = await get(at`/api/archive/${loc.conversation_id}`);
      one.title = one.item.title;
      one.found = loc.message_id;
      one.stretch = new Stretch(async (offset, limit) => one.item.messages.slice(offset, offset + limit));
      await one.stretch.open(loc.message_index ?? 0);
    },
    body: (one) =>
      said(one, (message) => ({
        id: message.id,
        name: message.role,
        isAgent: message.role === "assistant",
        text: message.text,
        when: message.ts,
      })),
    under: ({ item }) => html`${item.origin} · ${plural(item.messages.length, "message")}`,
  },
};

const nameOf = (agentId) => (agentNamed(agentId) ? shownName(agentNamed(agentId)) : agentId);
const tags = (all) =>
  all?.length ? html`<p class="tags">${all.map((tag) => html`<i class="tag">${tag}</i>`)}</p>` : nothing;
const source = (url) =>
  /^https?:/i.test(url)
    ? html`<a href=${url} target="_blank" rel="noopener noreferrer">${url}</a>`
    : html`<span>${url}</span>`;
const fields = (all) =>
  html`<dl class="fields">${all.filter(([, text]) => text).map(([name, text]) => html`<dt>${name}</dt><dd class="pre">${text}</dd>`)}</dl>`;

function stamp(seconds) {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return `${h ? `${h}:` : ""}${String(m).padStart(2, "0")}:${String(s).padStart(2, "0")}`;
}

const made = new WeakMap();
function written(key, text) {
  if (made.get(key)?.text !== text) made.set(key, { text, element: markdown(text) });
  return made.get(key).element;
}

// The picture

const back = () => (history.length > 1 ? history.back() : go(link(["library", here.source])));

function whole() {
  const kind = KINDS[here.source];
  return html`<header class="head">
      <button type="button" class="quiet back always" aria-label="Back" @click=${back}>${icon("back")}</button>
      <div class="name"><h1 title=${here.title}>${here.title || (here.problem ? "Not found" : "…")}</h1>
        <p>${Object.hasOwn(SOURCES, here.source) ? SOURCES[here.source][1] : ""}${here.item && kind.under ? html` · ${kind.under(here)}` : here.item?.last_modified ? html` · changed ${time(here.item.last_modified)}` : nothing}</p></div>
      ${here.item && !here.problem ? actions(kind) : nothing}
    </header>
    <div class="scroll" ${ref((element) => (box = element))}>${body(kind)}</div>`;
}

let box = null;

function actions(kind) {
  const one = here;
  return html`${kind.edit && may("write") && !one.isEditing ? html`<button type="button" @click=${() => ((one.isEditing = true), redraw())}>${icon("edit")} Edit</button>` : nothing}
    ${menu("More", [
      {
        text: "Copy link",
        icon: "link",
        go: () => copy(`${location.origin}/${toItem(one.source, one.id)}`, "Link copied."),
      },
      one.source === "sessions" && {
        text: "Export Markdown",
        icon: "download",
        href: at`/api/v1/agents/${one.item.agent}/sessions/${one.item.session}/export`,
        download: `${one.item.session}.md`,
      },
      one.source === "notes" && {
        text: "Export Markdown",
        icon: "download",
        go: () => save(one.title, "md", "text/markdown", one.item.content),
      },
      ["archive", "chats"].includes(one.source) && {
        text: "Export Markdown",
        icon: "download",
        go: () => exported(one).catch(failed),
      },
      one.item.transcript && {
        text: "Copy transcript",
        icon: "copy",
        go: () =>
          copy(
            one.item.transcript.segments.map((segment) => `[${stamp(segment.start)}] ${segment.text}`).join("\n"),
            "Transcript copied.",
          ),
      },
      one.item.transcript && { text: "Download SRT", icon: "download", go: () => download(one).catch(failed) },
      kind.path && may("write") && { text: "Delete", icon: "trash", isBad: true, go: () => askToRemove(one, kind) },
    ])}`;
}

function save(name, ending, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = `${name.slice(0, 60)}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function download(one) {
  const { content } = await get(withQuery(at`/api/media/${one.id}/transcript`, { format: "srt" }));
  save(one.title, "srt", "application/x-subrip", content);
}

// The whole of it, also what has not been scrolled to.
async function exported(one) {
  const turns = [];
  for (let page = await one.stretch.load(0, MANY); page.length; page = await one.stretch.load(turns.length, MANY))
    turns.push(...page);
  const told = turns.map((turn) => {
    const when = turn.created_at ?? turn.ts;
    return `## ${turn.sender ?? turn.role}${when ? `, ${when}` : ""}\n\n${turn.content ?? turn.text}\n`;
  });
  save(one.title, "md", "text/markdown", [`# ${one.title}\n`, ...told].join("\n"));
}

function askToRemove(one, kind) {
  askWhether(
    `Delete ${SOURCES[one.source][1].toLowerCase()}`,
    `“${one.title}” will no longer be found.`,
    "Delete",
    async () => {
      await remove(`${kind.path}/${encodeURIComponent(one.id)}`);
      notify("Deleted.");
      go(link(["library", one.source]));
    },
  );
}

function body(kind) {
  if (here.problem)
    return trouble(here.problem, () =>
      readerView.enter({ parts: [here.source, here.id], query: new URLSearchParams() }),
    );
  if (!here.item) return waiting();
  return html`<div class="page-body">${here.isEditing && kind.edit ? editor(kind) : kind.body(here)}</div>`;
}

function said(one, shown) {
  let before = null;
  const { stretch } = one;
  if (!stretch.items.length) return empty("chats", "Nothing was said here");
  return html`${stretch.hasEarlier ? html`<p class="more"><button type="button" @click=${() => stretch.earlier().catch(failed)}>Earlier</button></p>` : nothing}
    ${repeat(
      stretch.items,
      (item) => item.id,
      (item) => {
        const turn = shown(item);
        const isNewDay = turn.when && (!before || dayOf(before) !== dayOf(turn.when));
        if (turn.when) before = turn.when;
        return html`${isNewDay ? html`<h2 class="day"><span>${dayName(turn.when)}</span></h2>` : nothing}
        <article class="turn message ${turn.id === one.found ? "found" : ""}" id="t-${turn.id}" tabindex="-1">
          <div class="side">${face(turn.name, { isAgent: turn.isAgent })}</div>
          <div class="what"><header><b class="author">${turn.name}</b>${turn.when ? time(turn.when, timeOf(turn.when)) : nothing}</header>${written(item, turn.text)}</div>
        </article>`;
      },
    )}
    ${stretch.hasLater ? html`<p class="more"><button type="button" @click=${() => stretch.later().catch(failed)}>Later</button></p>` : nothing}`;
}

// Begun a moment ago, and nothing is written in it yet: who thinks again leaves nothing behind.
const isBlank = (one) => one.isNew && one.item.version === 1;

async function drop(one, kind) {
  await remove(`${kind.path}/${encodeURIComponent(one.id)}`).catch(failed);
  go(link(["library", one.source]), { replace: true });
}

const isTouched = (form) =>
  [...form.querySelectorAll("input, textarea")].some((field) => field.value !== field.dataset.was);

function editor(kind) {
  const one = here;
  const stop = () => {
    if (isBlank(one)) return drop(one, kind);
    one.isEditing = false;
    if (one.isAddressed) history.replaceState(history.state, "", toItem(one.source, one.id));
    redraw();
  };
  const escape = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    if (isTouched(event.currentTarget)) notify("Not saved yet. Save it, or cancel to drop what you changed.");
    else stop();
  };
  const save = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const change = Object.fromEntries(
      kind.edit.map(([name, , how]) => [
        name,
        how === "list"
          ? given
              .get(name)
              .split(",")
              .map((word) => word.trim())
              .filter(Boolean)
          : given.get(name),
      ]),
    );
    try {
      one.item = await put(`${kind.path}/${encodeURIComponent(one.id)}`, { ...change, version: one.item.version });
      one.title = one.item.title ?? one.item.name;
      stop();
      notify("Saved.");
    } catch (problem) {
      failed(
        problem.status === 409
          ? new Error("Somebody changed it meanwhile. Copy your text, then open it again.")
          : problem,
      );
    }
  };
  const shown = (name, how) => (how === "list" ? (one.item[name] ?? []).join(", ") : (one.item[name] ?? ""));
  return html`<form class="sheet" @submit=${save} @keydown=${escape}>
    ${kind.edit.map(
      ([name, label, how]) => html`<label>${label}
      ${
        how === "long" || how === "text"
          ? html`<textarea name=${name} class=${how} .value=${shown(name, how)} data-was=${shown(name, how)}></textarea>`
          : html`<input name=${name} .value=${shown(name, how)} data-was=${shown(name, how)} ?required=${name === "title" || name === "name"} autocomplete="off" />`
      }</label>`,
    )}
    <footer><button type="button" @click=${stop}>Cancel</button><button class="main">Save</button></footer>
  </form>`;
}

// The words that were looked for are marked without touching the text; the place is where the link says.
function find() {
  const turn = here.found && document.getElementById(`t-${here.found}`);
  const root = turn ?? document.querySelector(".page-body");
  if (!root) return;
  const ranges = markIn(root, here.q);
  if (turn) {
    turn.scrollIntoView({ block: "center" });
    turn.focus({ preventScroll: true });
  } else if (ranges.length) {
    const whole = root.textContent.length || 1;
    const wanted = (here.loc?.approx_offset ?? 0) / Math.max(whole, here.item?.content?.length ?? 1);
    const nearest = ranges.reduce((best, range) =>
      Math.abs(range.place / whole - wanted) < Math.abs(best.place / whole - wanted) ? range : best,
    );
    const rect = nearest.getBoundingClientRect();
    if (box) box.scrollTop += rect.top - box.getBoundingClientRect().top - box.clientHeight / 3;
  }
}
