// @ts-check
// The view of a thread: its header, its messages, and the box to write in.

import { findAgent, loadAgents } from "../../data/agents.js";
import { loadWork } from "../../data/agent_work.js";
import { url } from "../../data/api.js";
import { on } from "../../data/events.js";
import { readMarks } from "../../data/read_marks.js";
import { can } from "../../data/session.js";
import { soon } from "../../data/soon.js";
import { ThreadMessages } from "../../data/thread_messages.js";
import { loadThreads, setArchived, STATUSES, threads, updateThread } from "../../data/threads.js";
import { goTo, linkToThread } from "../../route.js";
import { avatar, errorState, icon, iconButton, loading, menu, stepFocus } from "../../ui/elements.js";
import { plural } from "../../ui/format.js";
import { clearHighlight, highlightElement } from "../../ui/highlight.js";
import { notify, notifyError } from "../../ui/dialog.js";
import { html, nextDraw, nextFrame, nothing, redraw, ref, repeat, t } from "../../ui/templates.js";
import { agentStrip } from "./agent_strip.js";
import { Composer, fitHeight } from "./composer.js";
import { messageTemplates, pendingMessage, startEditing, updateActiveMessage } from "./message.js";
import { searchInThread } from "../search_bar.js";
import { hideWelcome, isWelcomeShown, welcome } from "../welcome.js";
import { confirmDeleteThread, editRules, renameThread, showThreadDetails } from "./thread_dialogs.js";
import { threadList } from "./thread_list.js";
import { whatsNew } from "./whats_new.js";

const LOAD_MORE_DISTANCE = 700; // pixels from an end of the list
const AT_END_DISTANCE = 80; // pixels that still count as the end
const REFRESH_INTERVAL = 10_000; // milliseconds; what an agent does changes without an event
const MARK_INTERVAL = 150; // milliseconds
const SETTLE_DELAY = 400; // milliseconds
const MIN_MESSAGES = 60; // loaded in advance, for readers who scroll up at once

/** @type {ThreadMessages | null} */
let open = null;
/** @type {Composer | null} */
let composer = null;
let linkedId = null; // the message in the address
let query = null; // the search that led here
/** @type {{after: number, count: number} | null} */
let unread = null; // what was unread when the thread was opened: the messages after this one
/** @type {number | undefined} */
let refreshing; // the timer that loads the agents again
let isPlaced = false; // is the place at which the thread opens in view?
let isReadingOn = true; // false after a link into the thread, until the first unread message comes into view
let isAtEnd = true;
let wasAtEnd = false; // before the current drawing
/** @type {HTMLElement | null} */
let scrollBox = null;
let lastScrollTop = 0;

export const threadsView = {
  /** @type {Promise<void> | null} */
  opening: null, // resolves when the messages are loaded
  title: () => open?.thread?.topic ?? t("Threads"),
  isInner: () => open !== null,
  threadId: () => open?.id,

  async enter({ parts: [id], query: parameters }) {
    const wanted = parameters.get("message");
    query = parameters.get("q");
    if (open?.id === id) return wanted && jumpTo(wanted);
    this.leave();
    if (!id) return;
    hideWelcome();
    clearInterval(refreshing);
    refreshing = setInterval(() => document.hidden || loadActivity(), REFRESH_INTERVAL);
    const entered = new ThreadMessages(id);
    open = entered;
    composer = Composer.of(entered, () => open === entered && scrollToEnd());
    unread = null;
    isPlaced = false;
    isReadingOn = !wanted;
    linkedId = wanted;
    isAtEnd = false;
    this.opening = this.show(entered);
    await this.opening;
    if (open === entered && strip() !== nothing) loadWork().catch(() => {});
  },

  // Load the open thread and scroll to the linked message, the first unread one, or the end.
  async show(entered) {
    const focused = document.activeElement;
    const wanted = linkedId;
    await entered.load(wanted);
    if (open !== entered || entered.error) return;
    unread = unreadOf(entered);
    await nextDraw();
    isPlaced = true;
    if (wanted && entered.find(wanted)) showMessage(wanted);
    else if (!showFirstUnread()) scrollToEnd();
    performance.mark("palaver:thread");
    fillScrollBox();
    const textarea = document.querySelector(".compose textarea");
    if (textarea) fitHeight(textarea);
    // Focus the box, unless the user has opened a menu or a search in the meantime.
    const isIdle = [focused, document.body].includes(document.activeElement);
    if (matchMedia("(min-width: 700px)").matches && !wanted && isIdle) composer?.focus();
  },

  // The server is back.
  retry() {
    if (threads.error) loadThreads();
    if (open?.error?.isOffline) this.show(open).catch(notifyError);
  },

  leave() {
    clearHighlight();
    clearInterval(refreshing);
    open?.close();
    open = composer = linkedId = scrollBox = null;
  },

  template: () => html`${threadList(open?.id)}${open ? openThread() : noThread()}`,

  // Messages in view stay where they are when the list is drawn again.
  beforeDraw() {
    // The box itself is asked: its scroll event may not have arrived yet.
    wasAtEnd = scrollBox !== null && isAtEnd && !open?.hasNewer && distanceToEnd() < AT_END_DISTANCE;
    anchor = scrollBox && anchorUsers && !wasAtEnd ? firstMessageInView() : null;
  },
  afterDraw() {
    if (wasAtEnd && scrollBox) scrollDown();
    const element = anchor && document.getElementById(anchor.id);
    if (element && scrollBox) {
      const moved = element.getBoundingClientRect().top - (anchor?.top ?? 0);
      scrollBox.scrollTop += moved;
      lastScrollTop += moved;
    }
    markSeen();
    settleLater();
  },

  key(event) {
    if (!open || !composer) return stepFocus(event, ".threads a");
    const element = document.activeElement?.closest(".message");
    const message = element && open.find(element.id.slice(2));
    if (event.key === "j" || event.key === "k") focusNextMessage(element, event.key === "j" ? 1 : -1);
    else if (event.key === "J" || event.key === "K") {
      const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".threads a")]);
      const current = links.findIndex((one) => one.dataset.thread === open?.id);
      const next = links[current + (event.key === "J" ? 1 : -1)];
      if (next) goTo(next.getAttribute("href"));
    } else if (event.key === "G") jumpToEnd();
    else if (event.key === "r" && message) composer.reply(message);
    else if (event.key === "e" && message) startEditing(message);
    else if (event.key === "u" && message) markUnread(message);
    else if (event.key === "+" && message) openReactionPicker(element);
    else if (event.key === "c" || (event.key === "Enter" && element === document.activeElement)) composer.focus();
    else if (event.key === "Escape") goTo("#/threads");
    else return false;
    return true;
  },
};

// What the agents do, for the strip.
function loadActivity() {
  loadAgents().catch(() => {});
  if (strip() !== nothing) loadWork().catch(() => {});
}

on("state", (isOpen) => {
  if (!isOpen || !composer?.error) return;
  composer.error = t("The server is back. Press Enter to send your message.");
  redraw();
});

// The focused message has the toolbar with the picker.
function openReactionPicker(element) {
  const picker = /** @type {HTMLDetailsElement | null} */ (element.querySelector("details.picker"));
  if (!picker) return;
  picker.open = true;
  /** @type {HTMLElement | null} */ (picker.querySelector(".labels button"))?.focus();
}

function focusNextMessage(element, step) {
  const all = /** @type {HTMLElement[]} */ ([...(scrollBox?.querySelectorAll(".message") ?? [])]);
  const top = (scrollBox?.getBoundingClientRect().top ?? 0) + 20;
  const first = step < 0 ? all.at(-1) : all.find((one) => one.getBoundingClientRect().bottom > top);
  const next = element ? all[all.indexOf(element) + step] : first;
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

// Scrolling

/** @type {{id: string, top: number} | null} */
let anchor = null; // the message that must not move during a drawing
let anchorUsers = 0; // loads in progress that need an anchor

const distanceToEnd = () => (scrollBox ? scrollBox.scrollHeight - scrollBox.scrollTop - scrollBox.clientHeight : 0);

// Load messages, and keep those in view where they are when the new ones are drawn.
async function loadInPlace(load) {
  anchorUsers += 1;
  try {
    if (!(await load())) return false;
    await nextDraw();
    return true;
  } finally {
    anchorUsers -= 1;
  }
}

// In a burst of messages the browser lays out those in view. The others follow, some in each frame, when no more arrive.
/** @type {number | undefined} */
let settling;
function settleLater() {
  if (!open?.arrived.size) return;
  clearTimeout(settling);
  settling = setTimeout(settle, SETTLE_DELAY);
}

async function settle() {
  const thread = open;
  while (thread && thread === open && thread.arrived.size) {
    await loadInPlace(async () => thread.settleSome());
    await nextFrame();
  }
}

function firstMessageInView() {
  const edge = scrollBox?.getBoundingClientRect().top ?? 0;
  const all = [...(scrollBox?.querySelectorAll(".message") ?? [])];
  const first = all[countWhile(all, (one) => one.getBoundingClientRect().bottom <= edge)];
  return first ? { id: first.id, top: first.getBoundingClientRect().top } : null;
}

// How many elements at the start fulfil the condition, by halving: messages are in order.
function countWhile(elements, condition) {
  let [from, to] = [0, elements.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (condition(elements[middle])) from = middle + 1;
    else to = middle;
  }
  return from;
}

// The position is remembered at once. The scroll event comes later, and a reader may scroll up before it.
function scrollDown() {
  if (!scrollBox) return;
  scrollBox.scrollTop = scrollBox.scrollHeight;
  lastScrollTop = scrollBox.scrollTop;
}

function scrollToEnd() {
  isAtEnd = true;
  scrollDown();
  markSeen();
}

// Unread messages

// Messages that were unread when the thread was opened, or null.
function unreadOf(thread) {
  return thread.unreadCount ? { after: readMarks.get(thread.id), count: thread.unreadCount } : null;
}

// Scroll to the line above the first unread message. Returns whether there is one.
function showFirstUnread() {
  const line = scrollBox?.querySelector(".new");
  if (!line || !scrollBox) return false;
  isAtEnd = false;
  const top = line.getBoundingClientRect().top - scrollBox.getBoundingClientRect().top;
  scrollBox.scrollTop += top - scrollBox.clientHeight / 5;
  lastScrollTop = scrollBox.scrollTop;
  onScroll();
  return true;
}

// What is in view counts as read, if somebody looks.
function markSeen() {
  if (!open?.isLoaded || !scrollBox || !isPlaced || document.hidden || !document.hasFocus()) return;
  if (!open.unreadCount || open.error) return;
  if (isAtEnd && !open.hasNewer) return open.markRead(Math.max(open.latestSeq, open.lastSeq));
  isReadingOn ||= (open.find(firstMessageInView()?.id.slice(2))?.seq ?? Infinity) <= readMarks.get(open.id) + 1;
  if (isReadingOn) open.markRead(lastSeqInView());
}

// While somebody scrolls, marks are set a few times a second: each one draws the list again.
const markSeenSoon = soon(markSeen, MARK_INTERVAL);

// The number of the last message whose end, or whose first half window, is in view.
function lastSeqInView() {
  const all = /** @type {HTMLElement[]} */ ([...(scrollBox?.querySelectorAll(".message[data-seq]") ?? [])]);
  const { top = 0, bottom = 0 } = scrollBox?.getBoundingClientRect() ?? {};
  const isSeen = (element) => {
    const box = element.getBoundingClientRect();
    return box.bottom <= bottom + 4 || box.top < (top + bottom) / 2;
  };
  return Number(all[countWhile(all, isSeen) - 1]?.dataset.seq ?? 0);
}

function markUnread(message) {
  open?.markUnread(message);
  if (open) unread = unreadOf(open);
  notify(t("Marked as unread."));
}

async function onScroll() {
  const thread = open;
  if (!scrollBox || !thread?.isLoaded) return;
  const distance = distanceToEnd();
  const before = isAtEnd;
  const isScrolledUp = scrollBox.scrollTop < lastScrollTop;
  lastScrollTop = scrollBox.scrollTop;
  // An image that has just loaded moves the end away. Only scrolling up leaves the end.
  isAtEnd = !thread.hasNewer && (distance < AT_END_DISTANCE || (before && !isScrolledUp));
  if (isAtEnd && distance >= AT_END_DISTANCE) scrollDown();
  markSeenSoon();
  if (before !== isAtEnd) redraw();
  if (scrollBox.scrollTop < LOAD_MORE_DISTANCE && thread.hasOlder) await loadInPlace(() => thread.loadOlder());
  else if (distance < LOAD_MORE_DISTANCE && thread.hasNewer) await loadInPlace(() => thread.loadNewer());
}

// Load older messages until a tall window is full.
async function fillScrollBox() {
  const thread = open;
  while (thread && thread === open && scrollBox && thread.hasOlder) {
    const isFull = scrollBox.scrollHeight >= scrollBox.clientHeight + LOAD_MORE_DISTANCE;
    if (isFull && thread.messages.length >= MIN_MESSAGES) return;
    if (!(await loadInPlace(() => thread.loadOlder()))) return;
  }
}

async function jumpToEnd() {
  if (!open) return;
  linkedId = null;
  if (location.hash.includes("message=")) history.replaceState(history.state, "", linkToThread(open.id));
  if (open.hasNewer) await open.loadNewest().catch(notifyError);
  await nextDraw();
  scrollToEnd();
  redraw();
}

async function jumpTo(messageId) {
  linkedId = messageId;
  if (!open?.find(messageId)) {
    isAtEnd = false;
    await open?.loadAround(messageId).catch(notifyError);
  }
  await nextDraw();
  if (open?.find(messageId)) showMessage(messageId);
  else scrollToEnd();
}

function showMessage(messageId) {
  const element = document.getElementById(`m-${messageId}`);
  if (!element) return;
  isAtEnd = false;
  highlightElement(element.querySelector(".prose") ?? element, query);
  element.scrollIntoView({ block: "center" });
  element.focus({ preventScroll: true });
  onScroll();
}

// The end stays in view when the window or the messages change their height.
const resizeObserver = new ResizeObserver(() => {
  if (isAtEnd && !open?.hasNewer) scrollDown();
});

function setScrollBox(element) {
  if (element === undefined) return;
  scrollBox = element;
  lastScrollTop = 0;
  resizeObserver.disconnect();
  resizeObserver.observe(element);
  if (element.firstElementChild) resizeObserver.observe(element.firstElementChild);
}

// Templates

const noThread = () =>
  html`<main class="pane nobody">${
    isWelcomeShown() ? html`<div class="scroll">${welcome()}</div>` : whatsNew()
  }</main>`;

function openThread() {
  return html`<main class="pane talk">
    ${header()}
    ${strip()}
    ${messageList()}
    ${open?.error ? nothing : composer?.template()}
  </main>`;
}

function participantsOf(thread) {
  const known = threads.byId.get(thread.id)?.participants ?? [];
  return [...new Set([...known, ...thread.messages.map((message) => message.author_name)])];
}

function strip() {
  if (!open?.isLoaded || open.error) return nothing;
  const canMention = can("write") && !["closed", "archived"].includes(open.thread?.status ?? "");
  const topicOf = (threadId) => threads.byId.get(threadId)?.topic;
  const mention = canMention ? (agent) => composer?.mention(agent.slug) : undefined;
  return agentStrip(open.id, participantsOf(open), topicOf, mention);
}

function header() {
  if (!open) return nothing;
  const known = threads.byId.get(open.id);
  const thread = open.thread && { ...open.thread, message_count: (known ?? open.thread).message_count };
  const participants = participantsOf(open);
  const more = participants.length > 4 ? ` ${t("and {n} more", { n: participants.length - 4 })}` : "";
  return html`<header class="head">
    <a class="quiet back" href="#/threads" aria-label=${t("Back to threads")}>${icon("back")}</a>
    <div class="name">
      <h1 title=${thread?.topic ?? ""}>${thread?.topic ?? (open.error ? t("Thread") : "…")}</h1>
      <p>${thread ? plural(thread.message_count, "message") : nothing}
        ${participants.length ? html`<span class="with">· ${participants.slice(0, 4).join(", ")}${more}</span>` : nothing}</p>
    </div>
    <span class="faces">${participants.slice(0, 5).map((name) => {
      const agent = findAgent(name);
      return html`<span title=${name}>${avatar(name, { isAgent: Boolean(agent), isOnline: agent ? agent.is_online : null })}</span>`;
    })}</span>
    ${thread ? headerActions(thread, participants) : nothing}
  </header>`;
}

function headerActions(thread, participants) {
  const update = (changes) =>
    updateThread(thread, changes)
      .then((updated) => open && (open.thread = updated))
      .catch(notifyError)
      .finally(redraw);
  const archive = async () => {
    const isArchived = thread.status !== "archived";
    await setArchived(thread, isArchived).catch(notifyError);
    notify(isArchived ? "Archived. Search still finds it." : "Unarchived.");
  };
  return html`
    <label class="status-choice"><span class="hidden">${t("Status")}</span>
      <select ?disabled=${!can("write")} data-status=${thread.status} @change=${(event) => update({ status: event.target.value })}>
        ${STATUSES.map((status) => html`<option value=${status} ?selected=${status === thread.status}>${t(status)}</option>`)}
      </select></label>
    <span class="search-here">${iconButton(t("Search in this thread"), "search", () => searchInThread(thread.id), "Search in this thread (s)")}</span>
    ${menu(t("Thread menu"), [
      { text: t("Search in this thread"), icon: "search", run: () => searchInThread(thread.id) },
      { text: t("Details"), icon: "help", run: () => showThreadDetails(thread, participants) },
      can("write") && {
        text: thread.metadata?.pinned ? "Unpin" : "Pin",
        icon: "pin",
        run: () => update({ metadata: { pinned: !thread.metadata?.pinned } }),
      },
      can("write") && { text: t("Rename"), icon: "edit", run: () => renameThread(thread) },
      (can("write") || thread.system_prompt) && {
        text: t("Rules"),
        icon: "template",
        run: () => editRules(thread, (updated) => open && (open.thread = updated)),
      },
      open?.messages.length && {
        text: t("Mark as unread"),
        icon: "unread",
        run: () => markUnread(open?.messages.at(-1)),
      },
      {
        text: t("Export Markdown"),
        icon: "download",
        href: url`/api/threads/${thread.id}/export`,
        download: `${thread.topic.slice(0, 60)}.md`,
      },
      can("write") && { text: thread.status === "archived" ? "Unarchive" : "Archive", icon: "archive", run: archive },
      can("write") && { text: t("Delete"), icon: "trash", isDangerous: true, run: () => confirmDeleteThread(thread) },
    ])}`;
}

function messageList() {
  const thread = open;
  if (!thread) return nothing;
  if (thread.error) return errorState(thread.error, () => threadsView.show(thread));
  if (!thread.isLoaded) return loading();
  const start = t(thread.messages.length ? "This is the start of the thread." : "No messages yet.");
  return html`<div class="stage"><div class="scroll" tabindex="0" role="log" aria-label=${t("Messages")} @scroll=${onScroll} ${ref(setScrollBox)}>
    <div class="messages" @pointerover=${updateActiveMessage} @focusin=${updateActiveMessage}>
      ${thread.hasOlder ? loading(t("Loading older messages")) : html`<p class="beginning">${start}</p>`}
      ${repeat(
        messageTemplates(thread, { linkedId, unread, markUnread, reply: (message) => composer?.reply(message) }),
        (one) => one.key,
        (one) => one.template,
      )}
      ${thread.hasNewer ? loading(t("Loading newer messages")) : composer?.pending.map(pendingMessage)}
    </div>
  </div>
  ${
    isAtEnd
      ? nothing
      : html`<button type="button" class="to-end" @click=${jumpToEnd}>${icon("down")}
    ${thread.unreadCount ? plural(thread.unreadCount, "new message") : t("Newest messages")}</button>`
  }</div>`;
}
