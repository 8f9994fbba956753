// The console: who is looking, where they are, and the frame around it.

import { hangUp, listen, on, tryAgain } from "./live.js";
import { logOut, loginView } from "./login.js";
import {
  askFor,
  empty,
  face,
  failed,
  icon,
  isDialogOpen,
  openDialog,
  shownDialog,
  shownNotices,
  tool,
  trouble,
  waiting,
} from "./parts.js";
import { loadAgents } from "./people.js";
import { parse } from "./route.js";
import { focusBar, searchBar, searchIn, searchView } from "./search.js";
import { findOut, know, may, me, rename, theme, told } from "./state.js";
import { threadsView } from "./thread.js";
import { loadThreads, newThread, unreadThreads } from "./threads.js";
import { drawWith, drawn, holdUntil, html, nothing, redraw, ref, render } from "./view.js";

const VIEWS = { threads: threadsView, search: searchView };

// Not needed to read a thread: fetched when somebody goes there, or when there is nothing else to do.
const PLACES_FOR_LATER = {
  library: async () => (await import("./places/library.js")).libraryView,
  open: async () => (await import("./places/reader.js")).readerView,
  agents: async () => (await import("./places/agents.js")).agentsView,
  overview: async () => (await import("./places/overview.js")).overviewView,
  import: async () => (await import("./places/bring.js")).bringView,
  log: async () => (await import("./places/log.js")).logView,
};

const nowhere = {
  title: () => "No such place",
  isInner: () => true,
  enter: () => {},
  template: () => html`<main class="pane"><header class="head"><div class="name"><h1>No such place</h1></div></header>
    ${empty("help", "It is not here", "This link leads nowhere. It may be old, or not whole.", html`<a class="button" href="#/threads">To the threads</a>`)}</main>`,
};

async function viewOf(name) {
  if (!Object.hasOwn(PLACES_FOR_LATER, name)) return nowhere;
  return (VIEWS[name] ??= await PLACES_FOR_LATER[name]());
}

const PLACES = [
  ["threads", "Threads"],
  ["library", "Library"],
  ["agents", "Agents"],
  ["overview", "Overview"],
  ["import", "Import"],
];

let route = parse();
let view = null;
let broken = null;
let isAway = false;
let wasIn = false;

const SHORT = 250; // milliseconds a thread may take before the frame around it is drawn without it
const LONG = 1500; // and a place before the stream is opened all the same

const root = document.getElementById("app");

drawWith(() => {
  view?.beforeDraw?.();
  render(shell(), root);
  view?.afterDraw?.();
  const unread = me.isIn ? unreadThreads() : 0;
  document.title = `${unread ? `(${unread}) ` : ""}${me.isIn && view ? view.title() : "palaver"} · palaver`.replace(
    "palaver · palaver",
    "palaver",
  );
});

// Who goes back finds a page as far down as it was. Every entry of the history has a number by which it is known.
const wasDown = new Map();
let entry = null;
const scroller = () => document.querySelector(".pane:not(.talk) > .scroll");

function arrive() {
  if (entry !== null) wasDown.set(entry, scroller()?.scrollTop ?? 0);
  if (!history.state?.entry) history.replaceState({ entry: `${Date.now()}.${wasDown.size}` }, "");
  entry = history.state.entry;
  return wasDown.get(entry) ?? 0;
}

async function follow() {
  route = parse();
  if (!me.isIn) return redraw();
  const down = arrive();
  try {
    const asked = route;
    const next = Object.hasOwn(VIEWS, route.name) ? VIEWS[route.name] : await viewOf(route.name);
    if (asked !== route) return;
    if (view && view !== next) view.leave?.();
    view = next;
    const entering = view.enter(route);
    redraw();
    await entering;
    if (down && asked === route) {
      await drawn();
      if (scroller()) scroller().scrollTop = down;
    }
  } catch (problem) {
    failed(problem);
  }
}

// Coming in

async function begin() {
  broken = null;
  redraw();
  try {
    const session = await findOut();
    if (me.isIn) comeIn(session);
    else redraw();
  } catch (problem) {
    broken = problem;
    redraw();
  }
}

// What somebody came to see comes first; what happens meanwhile is not missed: one listens from the event told with it.
async function comeIn(session) {
  wasIn = true;
  const agents = loadAgents().catch(() => {});
  const arriving = follow();
  if (threadsView.opening) holdUntil(Promise.all([agents, threadsView.opening]), SHORT);
  await Promise.race([arriving, waited(LONG)]);
  await waited(0); // painted
  loadThreads();
  listen(session.last_event_id);
  (globalThis.requestIdleCallback ?? setTimeout)(() =>
    Object.keys(PLACES_FOR_LATER).forEach((name) => viewOf(name).catch(() => {})),
  );
}

const waited = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

addEventListener("hashchange", follow);
addEventListener("palaver:in", () => {
  if (wasIn) return location.reload(); // nothing that somebody else looked at stays in this window
  begin();
});
addEventListener("focus", redraw); // what is in view has been read now
addEventListener("palaver:stranger", () => {
  if (!me.isIn || !me.needsLogin) return;
  me.isIn = false;
  hangUp();
  view?.leave?.();
  view = null;
  redraw();
});

// When the server goes away, and comes back. A blink is not worth a word.

let blink = null;
on("state", (isOpen) => {
  clearTimeout(blink);
  if (isOpen) {
    const wasAway = isAway;
    isAway = false;
    if (wasAway) loadAgents().catch(() => {});
    redraw();
  } else {
    blink = setTimeout(() => {
      isAway = true;
      redraw();
      if (me.needsLogin) lookAgain().catch(() => {});
    }, 400);
  }
});

// The stream also ends when somebody logs out in another window, or comes in as somebody else.
async function lookAgain() {
  const [name, workspace] = [me.name, me.workspace];
  await findOut();
  if (!me.isIn) hangUp();
  else if (me.name !== name || me.workspace !== workspace) location.reload();
  else listen();
  redraw();
}

// Keys

addEventListener("keydown", (event) => {
  if (!me.isIn || isDialogOpen()) return;
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey)
    return (event.preventDefault(), focusBar());
  if (event.key === "Escape") {
    const open = document.querySelector("details.menu[open]");
    if (open) return ((open.open = false), open.querySelector("summary").focus());
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") return (event.preventDefault(), focusBar());
  if (event.key === "?") return help();
  if (event.key === "n" && may("write")) return (event.preventDefault(), newThread());
  if (event.key === "s" && threadsView.threadId()) return (event.preventDefault(), searchIn(threadsView.threadId()));
  if (event.target.closest?.("button, a, summary") && event.key === "Enter") return;
  if (view?.key?.(event)) event.preventDefault();
});

const KEYS = [
  ["/  or  Ctrl K", "search everything"],
  ["s", "search in this thread"],
  ["j  k", "next, previous message, thread or result"],
  ["Shift J  K", "next, previous thread"],
  ["Enter", "open what is chosen; in a thread, write"],
  ["r", "reply to the message"],
  ["e", "edit the message"],
  ["c", "write"],
  ["n", "new thread"],
  ["Shift G", "to the newest message"],
  ["Esc", "leave, close, back"],
  ["?", "this help"],
];

function help() {
  openDialog(
    "Keys",
    () =>
      html`<table class="keys"><tbody>${KEYS.map(
        ([key, what]) => html`<tr>
    <td>${key.split(/\s{2,}/).map((one) => (one === "or" ? " or " : html`<kbd>${one}</kbd> `))}</td><td>${what}</td></tr>`,
      )}</tbody></table>`,
  );
}

// The frame

const THEMES = { system: "light", light: "dark", dark: "system" };
const SIGN = { system: "system", light: "sun", dark: "moon" };

function shell() {
  if (broken) return html`<div class="alone">${trouble(broken, begin)}</div>`;
  if (!me.isKnown) return html`<div class="alone">${waiting("One moment")}</div>`;
  if (!me.isIn) return html`${loginView()}${shownNotices()}`;
  const inner = view?.isInner?.() ? "inner" : "";
  return html`<a class="skip" href="#app" @click=${skip}>Skip to the content</a>
    <div class="shell ${inner}" data-view=${route.name}>
      ${rail()}
      <div class="top">${searchBar(route)}</div>
      ${
        isAway
          ? html`<p class="away" role="alert"><i></i> The server cannot be reached. Trying again …
        <button type="button" @click=${tryAgain}>Now</button></p>`
          : nothing
      }
      ${view?.template() ?? nothing}
    </div>
    ${shownDialog(ref)}${shownNotices()}`;
}

function skip(event) {
  event.preventDefault();
  const main = document.querySelector(".scroll, main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}

const WITHIN = { open: "library", log: "agents" };
const isAt = (name) => (WITHIN[route.name] ?? route.name) === name;

function rail() {
  const unread = unreadThreads();
  return html`<nav class="rail" aria-label="Places">
    <a class="brand" href="#/threads" aria-label="palaver"><img src=${new URL("../icon.svg", import.meta.url).pathname} alt="" width="32" height="32" /></a>
    ${PLACES.map(
      ([name, text]) => html`<a href="#/${name}" aria-current=${isAt(name) ? "page" : nothing}>
      <span class="sign">${icon(name)}${name === "threads" && unread ? html`<b class="news" aria-label="${unread} threads with news"></b>` : nothing}</span><span>${text}</span></a>`,
    )}
    <span class="space"></span>
    ${tool(`Theme: ${theme.choice}`, SIGN[theme.choice], () => ((theme.choice = THEMES[theme.choice]), redraw()))}
    <button type="button" class="quiet keys-help" aria-label="Keys" title="Keys (?)" @click=${help}>${icon("help")}</button>
    ${account()}
  </nav>`;
}

function account() {
  return html`<details class="menu account"><summary aria-label="You are ${me.name}" title=${me.name}>${face(me.name)}</summary>
    <div role="menu">
      <p><b>${me.name}</b><br /><small>workspace ${me.workspace} · palaver ${me.version}</small></p>
      ${me.needsLogin ? nothing : html`<button type="button" role="menuitem" @click=${chooseName}>${icon("edit")} Change name</button>`}
      ${may("admin") ? html`<a role="menuitem" href="#/log">${icon("clock")} What was done</a>` : nothing}
      <a role="menuitem" href="/docs" target="_blank">${icon("note")} API</a>
      ${
        me.needsLogin
          ? html`<button type="button" role="menuitem" @click=${() => logOut()}>${icon("leave")} Log out</button>
        <button type="button" role="menuitem" @click=${() => logOut({ everywhere: true })}>${icon("leave")} Log out everywhere</button>`
          : nothing
      }
    </div></details>`;
}

function chooseName() {
  askFor("Your name", { label: "What others see beside your messages", value: me.name, most: 80 }, async (name) => {
    rename(name);
    redraw();
  });
}

if (told.is_in) comeIn(know(told));
else {
  redraw();
  begin();
}
