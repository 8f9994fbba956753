// A thread, open: its head, its messages, the box to write in.

import { Compose, fit } from "./compose.js";
import { on } from "./live.js";
import { markIn, unmark } from "./marking.js";
import { edit, messages, pointTo } from "./message.js";
import { empty, face, failed, icon, menu, plural, tool, trouble, waiting } from "./parts.js";
import { agentNamed } from "./people.js";
import { go, toThread } from "./route.js";
import { may, seen } from "./state.js";
import { Talk } from "./talk.js";
import {
  STATUSES,
  aboutThread,
  archive,
  change,
  pin,
  removeThread,
  renameThread,
  threadList,
  threads,
} from "./threads.js";
import { drawn, html, nothing, redraw, ref, repeat } from "./view.js";
import { searchIn } from "./search.js";

const NEAR = 700; // pixels from an end at which more is fetched

let talk = null;
let compose = null;
let focus = null;
let words = null; // what was looked for, when one comes from a search
let isAtEnd = true;
let newFrom = null;
let box = null;
let atBottomWhenDrawn = null;
let lastTop = 0;

export const threadsView = {
  opening: null, // comes true when the messages are here
  title: () => talk?.thread?.topic ?? "Threads",
  isInner: () => talk !== null,

  async enter({ parts: [id], query }) {
    const wanted = query.get("message");
    words = query.get("q");
    if (talk?.id === id) return wanted && jumpTo(wanted);
    this.leave();
    if (!id) return;
    talk = new Talk(id);
    compose = Compose.in(talk);
    talk.onReply = (message) => compose.reply(message);
    const known = threads.byId.get(id);
    newFrom = known && known.current_seq > seen.of(id) ? seen.of(id) : null;
    focus = wanted;
    isAtEnd = !wanted;
    const opening = talk;
    opening.onSent = () => talk === opening && toEnd();
    const here = document.activeElement;
    this.opening = opening.open(wanted);
    await this.opening;
    if (talk !== opening) return;
    await drawn();
    if (wanted && talk.find(wanted)) show(wanted);
    else toEnd();
    performance.mark("palaver:thread");
    fill();
    const say = document.querySelector(".compose textarea");
    if (say) fit(say);
    if (matchMedia("(min-width: 700px)").matches && !wanted && isStill(here)) compose.focus();
  },

  leave() {
    unmark();
    talk?.leave();
    talk = compose = focus = box = null;
  },

  thread: () => talk?.thread,
  threadId: () => talk?.id,

  template() {
    return html`${threadList(talk?.id)}${talk ? main() : nobody()}`;
  },

  // Before and after every drawing: what is in view stays in view.
  beforeDraw() {
    // Asked of the box itself: what has just been scrolled is told of only a moment later.
    atBottomWhenDrawn = box && isAtEnd && !talk?.hasNewer && box.scrollHeight - box.scrollTop - box.clientHeight < 80;
    place = box && keepers && !atBottomWhenDrawn ? inView() : null;
  },
  afterDraw() {
    if (atBottomWhenDrawn && box) downToEnd();
    const still = place && document.getElementById(place.id);
    if (still) moveBy(still.getBoundingClientRect().top - place.top);
    if (box && isAtEnd && !document.hidden && document.hasFocus()) talk?.markRead();
  },

  key(event) {
    if (!talk) return listKey(event);
    const here = document.activeElement?.closest?.(".message");
    if (event.key === "j" || event.key === "k") return (step(here, event.key === "j" ? 1 : -1), true);
    if (event.key === "G") return (jumpToEnd(), true);
    const message = here && talk.find(here.id.slice(2));
    if (event.key === "r" && message) return (compose.reply(message), true);
    if (event.key === "e" && message) return (edit(message), true);
    if (event.key === "Enter" && here === document.activeElement) return (compose.focus(), true);
    if (event.key === "c") return (compose.focus(), true);
    if (event.key === "J" || event.key === "K") return (listStep(event.key === "J" ? 1 : -1), true);
    if (event.key === "Escape") return (go("#/threads"), true);
    return false;
  },
};

// Who has gone on to something else while a thread came, a menu or a search, is not called back.
const isStill = (here) => [here, document.body].includes(document.activeElement);

on("state", (isOpen) => {
  if (!isOpen || !compose?.problem) return;
  compose.problem = "The server is back: press Enter to send it.";
  redraw();
});

// The keyboard

function step(here, by) {
  const all = [...box.querySelectorAll(".message")];
  const next = here ? all[all.indexOf(here) + by] : by < 0 ? all.at(-1) : firstInView(all);
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

const firstInView = (all) =>
  all.find((one) => one.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 20);

function listKey(event) {
  if (event.key !== "j" && event.key !== "k") return false;
  const all = [...document.querySelectorAll(".threads a")];
  const here = all.indexOf(document.activeElement);
  (all[here + (event.key === "j" ? 1 : -1)] ?? all[0])?.focus();
  return true;
}

function listStep(by) {
  const all = [...document.querySelectorAll(".threads a")];
  const here = all.findIndex((one) => one.dataset.thread === talk?.id);
  const next = all[here + by];
  if (next) go(next.getAttribute("href"));
}

// Scrolling

let keepers = 0; // of the place: two may be waiting for the same messages
let place = null;

// What is in view when the new ones are drawn stays there; one may have scrolled while they came.
async function keepingPlace(load) {
  keepers += 1;
  try {
    if (!(await load())) return false;
    await drawn();
    return true;
  } finally {
    keepers -= 1;
  }
}

function inView() {
  const edge = box.getBoundingClientRect().top;
  const first = [...box.querySelectorAll(".message")].find((one) => one.getBoundingClientRect().bottom > edge);
  return first ? { id: first.id, top: first.getBoundingClientRect().top } : null;
}

// What came above moves everything down; nobody has scrolled by that.
function moveBy(pixels) {
  box.scrollTop += pixels;
  lastTop += pixels;
}

// Remembered at once: the event comes a moment later, and who scrolls up before it does is not to be pulled back.
function downToEnd() {
  box.scrollTop = box.scrollHeight;
  lastTop = box.scrollTop;
}

async function onScroll() {
  if (!box || !talk?.isLoaded) return;
  const toBottom = box.scrollHeight - box.scrollTop - box.clientHeight;
  const wasAtEnd = isAtEnd;
  const wentUp = box.scrollTop < lastTop;
  lastTop = box.scrollTop;
  // A picture that has just come pushes the end away; only who scrolls up leaves it.
  isAtEnd = !talk.hasNewer && (toBottom < 80 || (wasAtEnd && !wentUp));
  if (isAtEnd && toBottom >= 80) downToEnd();
  if (isAtEnd) {
    talk.missed.clear();
    talk.markRead();
  }
  if (wasAtEnd !== isAtEnd) redraw();
  if (box.scrollTop < NEAR && talk.hasOlder) await keepingPlace(() => talk.older());
  else if (toBottom < NEAR && talk.hasNewer) await keepingPlace(() => talk.newer());
}

// A high window may show more than the first page; and who scrolls up at once should not have to wait.
const ENOUGH = 60;

async function fill() {
  const mine = talk;
  const isThin = () => box.scrollHeight < box.clientHeight + NEAR || mine.messages.length < ENOUGH;
  while (talk === mine && box && mine.hasOlder && isThin()) {
    if (!(await keepingPlace(() => mine.older()))) return;
  }
}

function toEnd() {
  isAtEnd = true;
  if (box) downToEnd();
  talk?.markRead();
}

async function jumpToEnd() {
  focus = null;
  if (location.hash.includes("message=")) history.replaceState(history.state, "", toThread(talk.id));
  if (talk.hasNewer) await talk.newest().catch(failed);
  await drawn();
  toEnd();
  redraw();
}

async function jumpTo(messageId) {
  focus = messageId;
  if (!talk.find(messageId)) {
    isAtEnd = false;
    await talk.around(messageId).catch(failed);
  }
  await drawn();
  if (talk.find(messageId)) show(messageId);
  else toEnd();
}

function show(messageId) {
  const element = document.getElementById(`m-${messageId}`);
  if (!element) return;
  isAtEnd = false;
  markIn(element.querySelector(".prose") ?? element, words);
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true });
  onScroll();
}

const watching = new ResizeObserver(() => {
  if (box && isAtEnd && !talk?.hasNewer) downToEnd();
});

function taken(element) {
  if (element === undefined) return;
  box = element;
  lastTop = 0;
  watching.disconnect();
  watching.observe(element);
  if (element.firstElementChild) watching.observe(element.firstElementChild);
}

// The picture

const PRESS = html`Or press <kbd>n</kbd> to open a new one, <kbd>/</kbd> to search, <kbd>?</kbd> for all keys.`;

const nobody = () => html`<main class="pane nobody">${empty("threads", "Choose a thread", PRESS)}</main>`;

function main() {
  return html`<main class="pane talk">
    ${head()}
    ${body()}
    ${talk.problem ? nothing : compose.template()}
  </main>`;
}

const someOf = (names) => names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : "");

function head() {
  const known = threads.byId.get(talk.id);
  const thread = talk.thread && { ...talk.thread, message_count: (known ?? talk.thread).message_count };
  const participants = [
    ...new Set([...(known?.participants ?? []), ...talk.messages.map((message) => message.author_name)]),
  ];
  return html`<header class="head">
    <a class="quiet back" href="#/threads" aria-label="Back to the threads">${icon("back")}</a>
    <div class="name">
      <h1 title=${thread?.topic ?? ""}>${thread?.topic ?? (talk.problem ? "No such thread" : "…")}</h1>
      <p>${thread ? plural(thread.message_count, "message") : nothing}
        ${participants.length ? html`<span class="with">· ${someOf(participants)}</span>` : nothing}</p>
    </div>
    <span class="faces">${participants.slice(0, 5).map((name) => {
      const agent = agentNamed(name);
      return html`<span title=${name}>${face(name, { isAgent: Boolean(agent), isOnline: agent ? agent.is_online : null })}</span>`;
    })}</span>
    ${
      thread
        ? html`
      <label class="status-choice"><span class="hidden">Status</span>
        <select ?disabled=${!may("write")} data-status=${thread.status} @change=${(event) => setStatus(thread, event.target.value)}>
          ${STATUSES.map((status) => html`<option value=${status} ?selected=${status === thread.status}>${status}</option>`)}
        </select></label>
      ${tool("Search in this thread", "search", () => searchIn(talk.id), "Search in this thread (s)")}
      ${menu("Thread menu", [
        { text: "About", icon: "help", go: () => aboutThread(thread, participants) },
        may("write") && {
          text: thread.metadata?.pinned ? "Unpin" : "Pin",
          icon: "pin",
          go: () => pin(thread).then((changed) => changed && ((talk.thread = changed), redraw())),
        },
        may("write") && { text: "Rename", icon: "edit", go: () => renameThread(thread) },
        {
          text: "Export Markdown",
          icon: "download",
          href: `/api/threads/${encodeURIComponent(talk.id)}/export`,
          download: `${thread.topic.slice(0, 60)}.md`,
        },
        may("write") && {
          text: thread.status === "archived" ? "Bring back" : "Archive",
          icon: "archive",
          go: () => archive(thread),
        },
        may("write") && { text: "Delete", icon: "trash", isBad: true, go: () => removeThread(thread) },
      ])}`
        : nothing
    }
  </header>`;
}

const setStatus = (thread, status) =>
  change(thread, { status })
    .then((changed) => ((talk.thread = changed), redraw()))
    .catch((problem) => (failed(problem), redraw()));

function body() {
  if (talk.problem) return trouble(talk.problem, () => talk.open(focus));
  if (!talk.isLoaded) return waiting();
  return html`<div class="stage"><div class="scroll" tabindex="0" role="log" aria-label="Messages" @scroll=${onScroll} ${ref(taken)}>
    <div class="messages" @pointerover=${pointTo} @focusin=${pointTo}>
      ${talk.hasOlder ? waiting("Earlier messages") : html`<p class="beginning">${talk.messages.length ? "This is where it began." : "Nothing has been said yet."}</p>`}
      ${repeat(
        messages(talk, focus, newFrom),
        (one) => one.key,
        (one) => one.template,
      )}
      ${talk.hasNewer ? waiting("Later messages") : nothing}
    </div>
  </div>
  ${
    isAtEnd
      ? nothing
      : html`<button type="button" class="to-end" @click=${jumpToEnd}>${icon("down")}
    ${talk.missed.size ? plural(talk.missed.size, "new message") : "Newest"}</button>`
  }</div>`;
}
