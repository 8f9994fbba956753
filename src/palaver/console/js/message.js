// One message: who said it when, what it answers, what it says, and what can be done with it.

import { at, get, put, remove } from "./api.js";
import { markdown } from "./markdown.js";
import {
  askWhether,
  copy,
  dayName,
  dayOf,
  face,
  failed,
  icon,
  menu,
  openDialog,
  plain,
  time,
  timeOf,
  tool,
  trouble,
  waiting,
  wholeTime,
} from "./parts.js";
import { agentNamed, mentionable } from "./people.js";
import { picker, pills } from "./reactions.js";
import { toThread } from "./route.js";
import { may, me } from "./state.js";
import { isHumanOnly } from "./threads.js";
import { guard, html, nothing, redraw } from "./view.js";

const TOGETHER = 5 * 60 * 1000;

// Text becomes elements once, and again only when it is edited.
const written = new WeakMap();

function prose(message) {
  const kept = written.get(message);
  const known = mentionable().size;
  if (kept?.content === message.content && kept.known === known) return kept.element;
  const element = markdown(message.content, { mentions: mentionable() });
  written.set(message, { content: message.content, known, element });
  return element;
}

const editing = new Map(); // message id -> text
let active = null; // id of the message one points to

export const isMine = (message) => message.author_name === me.name && !message.author_id;
const mayChange = (message) => may("write") && (!me.needsLogin || isMine(message) || may("admin"));

// All of them, each drawn again only if something about it has changed: pointing at one must not cost drawing all.
export function messages(talk, focus, newFrom = null) {
  let before = null;
  return talk.messages.map((message) => {
    const isFirstNew =
      newFrom !== null &&
      message.seq > newFrom &&
      (before ? before.seq <= newFrom : !talk.hasOlder) &&
      !isMine(message);
    const isNewDay = !before || dayOf(before.created_at) !== dayOf(message.created_at);
    const isGoingOn =
      !isNewDay &&
      before.author_name === message.author_name &&
      !message.reply_to_msg_id &&
      isHumanOnly(before.metadata) === isHumanOnly(message.metadata) &&
      new Date(message.created_at) - new Date(before.created_at) < TOGETHER;
    before = message;
    const agent = agentNamed(message.author_id ?? message.author_name);
    const answered = message.reply_to_msg_id ? talk.answered(message.reply_to_msg_id) : null;
    const isFound = focus === message.id;
    const about = [
      message,
      message.content,
      message.reactions,
      message.edit_version,
      answered,
      answered?.content,
      isFirstNew,
      isNewDay,
      isGoingOn,
      isFound,
      active === message.id,
      editing.has(message.id),
      unfolded.has(message.id),
      agent,
      agent?.is_online,
      mentionable().size,
      me.name,
    ];
    return {
      key: message.id,
      template: guard(
        about,
        () => html`
      ${isNewDay ? html`<h2 class="day"><span>${dayName(message.created_at)}</span></h2>` : nothing}
      ${isFirstNew ? html`<p class="new"><span>New</span></p>` : nothing}
      ${one(talk, message, { agent, answered, isGoingOn, isFound })}`,
      ),
    };
  });
}

function one(talk, message, { agent, answered, isGoingOn, isFound }) {
  const isForHumans = isHumanOnly(message.metadata);
  const classes = [
    "message",
    isGoingOn && "going-on",
    isForHumans && "for-humans",
    isFound && "found",
    isMine(message) && "mine",
    message.role === "system" && "system",
    ["high", "urgent"].includes(message.priority) && message.priority,
  ];
  return html`<article class=${classes.filter(Boolean).join(" ")} id="m-${message.id}" data-seq=${message.seq} tabindex="-1"
    aria-label="Message ${message.seq} by ${message.author_name}">
    <div class="side">${
      isGoingOn
        ? html`<a class="when" href=${toThread(message.thread_id, message.id)} tabindex="-1" aria-hidden="true">${timeOf(message.created_at)}</a>`
        : face(message.author_name, {
            isAgent: Boolean(agent ?? message.author_id),
            isOnline: agent ? agent.is_online : null,
          })
    }</div>
    <div class="what">
      ${
        isGoingOn
          ? nothing
          : html`<header>
        <b class="author">${message.author_name}</b>
        ${agent?.model ? html`<span class="model">${agent.model}</span>` : nothing}
        ${message.role !== "user" && message.role !== "assistant" ? html`<span class="role">${message.role}</span>` : nothing}
        <a class="when" href=${toThread(message.thread_id, message.id)}>${time(message.created_at, timeOf(message.created_at))}</a>
        <span class="seq">#${message.seq}</span>
      </header>`
      }
      ${isForHumans ? html`<p class="only">${icon("lock")} Only people see this; agents see that something is hidden.</p>` : nothing}
      ${["high", "urgent"].includes(message.priority) ? html`<p class="priority">${message.priority}</p>` : nothing}
      ${message.reply_to_msg_id ? quote(talk, message.reply_to_msg_id, answered) : nothing}
      ${editing.has(message.id) ? editor(message) : body(message, isFound)}
      ${images(message)}
      ${message.edit_version ? edited(message) : nothing}
      ${pills(message)}
    </div>
    ${active === message.id ? tools(talk, message) : nothing}
  </article>`;
}

const edited = (message) => html`<button type="button" class="edited" @click=${() => history(message)}
  title="Edited ${message.edited_at ? wholeTime(message.edited_at) : ""}. Show earlier versions">edited</button>`;

// The tools stand only at the message one points to or has in focus: at each they would be most of the page.
export function pointTo(event) {
  const id = event.target.closest?.(".message")?.id.slice(2) ?? null;
  if (id === active || document.querySelector(".tools details[open]")) return;
  active = id;
  redraw();
}

function tools(talk, message) {
  return html`<div class="tools" role="toolbar" aria-label="Message actions">
      ${may("write") ? html`${picker(message)}${tool("Reply", "reply", () => talk.onReply?.(message), "Reply (r)")}` : nothing}
      ${menu("More", [
        {
          text: "Copy link",
          icon: "link",
          go: () => copy(`${location.origin}/${toThread(message.thread_id, message.id)}`, "Link copied."),
        },
        { text: "Copy text", icon: "copy", go: () => copy(message.content, "Text copied.") },
        mayChange(message) && { text: "Edit", icon: "edit", go: () => edit(message) },
        message.edit_version > 0 && { text: "History", icon: "clock", go: () => history(message) },
        mayChange(message) && { text: "Delete", icon: "trash", isBad: true, go: () => askToRemove(message) },
      ])}
    </div>`;
}

// A very long message is folded; whoever wants to read it all unfolds it.
const unfolded = new Set();
const isLong = ({ content }) => content.length > 6000 || content.split("\n", 81).length > 80;

function body(message, isFound) {
  if (isFound || unfolded.has(message.id) || !isLong(message)) return prose(message);
  return html`<div class="folded">${prose(message)}</div>
    <button type="button" class="unfold" @click=${() => (unfolded.add(message.id), redraw())}>Show all</button>`;
}

function quote(talk, messageId, answered) {
  return html`<a class="quote" href=${toThread(talk.id, messageId)}>
    ${icon("reply")} <b>${answered?.author_name ?? "An earlier message"}</b> ${answered ? plain(answered.content).slice(0, 160) : ""}</a>`;
}

function images(message) {
  const all = (message.metadata?.images ?? []).filter((image) => /^\/uploads\/[\w.-]+$/.test(image?.url ?? ""));
  if (!all.length) return nothing;
  return html`<div class="images">${all.map(
    (image) => html`<a href=${image.url} target="_blank" rel="noopener"
    ><img src=${image.url} alt=${String(image.name ?? "image")} title=${String(image.name ?? "")} loading="lazy" /></a>`,
  )}</div>`;
}

// Editing

export function edit(message) {
  editing.set(message.id, message.content);
  redraw();
  setTimeout(() => document.querySelector(`#m-${CSS.escape(message.id)} textarea`)?.focus());
}

function editor(message) {
  const stop = () => (editing.delete(message.id), redraw());
  const save = async (event) => {
    event?.preventDefault();
    try {
      const content = editing.get(message.id);
      const edited = await put(at`/api/messages/${message.id}`, { content });
      if (!edited.no_change)
        Object.assign(message, {
          content: edited.content,
          edited_at: edited.edited_at,
          edit_version: edited.edit_version,
        });
      stop();
    } catch (problem) {
      failed(problem);
    }
  };
  const keys = (event) => {
    if (event.key === "Escape") (event.stopPropagation(), stop());
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) (event.preventDefault(), save());
  };
  return html`<form class="editor" @submit=${save}>
    <textarea aria-label="Edit the message" .value=${editing.get(message.id)} @keydown=${keys}
      @input=${(event) => editing.set(message.id, event.target.value)}></textarea>
    <footer><button type="button" @click=${stop}>Cancel</button><button class="main">Save</button></footer>
  </form>`;
}

function askToRemove(message) {
  askWhether("Delete message", "It will be gone for good, with its history and reactions.", "Delete", () =>
    remove(at`/api/messages/${message.id}`),
  );
}

function history(message) {
  let found = null;
  openDialog("Earlier versions", () => {
    if (!found) return waiting();
    if (found instanceof Error) return trouble(found);
    const versions = [
      ...found.edits.map((e) => ({
        text: e.old_content,
        note: `until ${wholeTime(e.created_at)}, when ${e.edited_by} changed it`,
      })),
      { text: found.current_content, note: "now" },
    ];
    return html`<ol class="versions">${versions.reverse().map((one) => html`<li><small>${one.note}</small><div class="pre">${one.text}</div></li>`)}</ol>`;
  });
  get(at`/api/messages/${message.id}/history`)
    .then(
      (answer) => (found = answer),
      (problem) => (found = problem),
    )
    .finally(redraw);
}
