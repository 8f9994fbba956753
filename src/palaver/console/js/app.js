// @ts-check
// The console: starts the session, shows the view of the current route, and draws the frame around it.

import { assetUrl } from "./assets.js";
import { loadAgents } from "./data/agents.js";
import { on, reconnect, startListening, stopListening } from "./data/events.js";
import { loadMentions, updateBadge } from "./data/mentions.js";
import { loadQuestions, openQuestions } from "./data/questions.js";
import { can, loadSession, me, pageSession, setName, setSession } from "./data/session.js";
import { settings } from "./data/settings.js";
import { theme } from "./data/storage.js";
import { loadThreads, refreshMarks, unreadThreadCount } from "./data/threads.js";
import { goToNextUnread, PAGES, paletteActions, showShortcuts, switchTheme, THEME_ICONS } from "./commands.js";
import { goTo, parseRoute } from "./route.js";
import { dialogTemplate, isDialogOpen, noticesTemplate, notifyError, promptDialog } from "./ui/dialog.js";
import { avatar, emptyState, errorState, icon, iconButton, loading } from "./ui/elements.js";
import { plural } from "./ui/format.js";
import {
  html,
  language,
  nextDraw,
  nothing,
  pauseDrawing,
  preferredLanguage,
  redraw,
  render,
  setDraw,
  t,
} from "./ui/templates.js";
import { loginView, logOut } from "./views/login.js";
import { searchView } from "./views/search.js";
import { focusSearchBar, searchBar, searchInThread } from "./views/search_bar.js";
import { threadsView } from "./views/thread/thread.js";
import { newThread } from "./views/thread/thread_dialogs.js";

// A page that only says why there is nothing.
const emptyView = (title, iconName, heading, text) => ({
  title: () => t(title),
  isInner: () => true,
  enter: () => {},
  template: () => html`<main class="pane"><header class="head"><div class="name"><h1>${t(title)}</h1></div></header>
    ${emptyState(iconName, heading, text, html`<a class="button" href="#/threads">${t("Go to threads")}</a>`)}</main>`,
});

const notFoundView = emptyView(
  "Page not found",
  "help",
  "Not found",
  "This link does not lead to a page. It may be old or incomplete.",
);
const adminsOnlyView = emptyView(
  "Administration",
  "lock",
  "Admins only",
  "Your token has no permission for this page. An admin can give you one that has it.",
);
const ADMIN_VIEWS = ["administration", "log"];

/**
 * @typedef {object} View
 * @property {() => string} title
 * @property {() => boolean} isInner On a phone: does it hide the list of threads?
 * @property {(route: any) => unknown} enter
 * @property {() => void} [leave]
 * @property {() => unknown} [retry] Load again what could not be loaded: the server is back.
 * @property {() => unknown} template
 * @property {(event: KeyboardEvent) => boolean} [key] Handle a key; true if it was used.
 * @property {() => void} [beforeDraw]
 * @property {() => void} [afterDraw]
 */

/** @type {Record<string, View>} */
const views = { threads: threadsView, search: searchView };

// These views are loaded when they are opened, or when the browser is idle.
const LAZY_VIEWS = {
  library: async () => (await import("./views/library.js")).libraryView,
  open: async () => (await import("./views/reader.js")).readerView,
  agents: async () => (await import("./views/agents.js")).agentsView,
  overview: async () => (await import("./views/overview.js")).overviewView,
  import: async () => (await import("./views/import.js")).importView,
  log: async () => (await import("./views/admin/audit_log.js")).auditLogView,
  applications: async () => (await import("./views/admin/applications.js")).applicationsView,
  administration: async () => (await import("./views/admin/administration.js")).administrationView,
  connect: async () => (await import("./views/connect.js")).connectView,
  questions: async () => (await import("./views/questions.js")).questionsView,
  mentions: async () => (await import("./views/mentions.js")).mentionsView,
  settings: async () => (await import("./views/settings.js")).settingsView,
};

// These only when they are opened.
const RARE_VIEWS = [
  "settings",
  "questions",
  "mentions",
  "administration",
  "connect",
  "applications",
  "log",
  "import",
  "agents",
  "overview",
];

async function loadView(name) {
  if (!Object.hasOwn(LAZY_VIEWS, name)) return notFoundView;
  if (ADMIN_VIEWS.includes(name) && !can("admin")) return adminsOnlyView;
  return (views[name] ??= await LAZY_VIEWS[name]());
}

const DRAW_DELAY = 250; // milliseconds to wait for a thread before the frame is drawn without it
const LISTEN_DELAY = 1500; // milliseconds to wait for a view before the event stream is opened
const RETRY_DELAYS = [0, 2000, 5000, 10_000]; // milliseconds: a request of before may fail only after the server is back
const OFFLINE_DELAY = 400; // milliseconds without a connection before the banner is shown

let route = parseRoute();
/** @type {View | null} */
let view = null;
/** @type {Error | null} */
let startError = null;
let isOffline = false;
let isNavigationFailed = false; // the code of a view could not be loaded
let wasLoggedIn = false;

const root = /** @type {HTMLElement} */ (document.getElementById("app"));

setDraw(() => {
  view?.beforeDraw?.();
  render(frame(), root);
  view?.afterDraw?.();
  const unread = me.isIn ? unreadThreadCount() : 0;
  const title = me.isIn && view ? `${view.title()} · palaver` : "palaver";
  updateBadge();
  document.title = unread ? `(${unread}) ${title}` : title;
});

// Navigation. The back button restores the scroll position: each entry of the history has an id for that, and how many
// entries of the console are before it.

const scrollPositions = new Map();
let entryId = null;
let depth = -1;
const scrollBox = () => document.querySelector(".pane:not(.talk) > .scroll");

async function navigate() {
  const wanted = parseRoute();
  route = wanted;
  isNavigationFailed = false;
  if (!me.isIn) return redraw();
  if (entryId !== null) scrollPositions.set(entryId, scrollBox()?.scrollTop ?? 0);
  if (!history.state?.entry)
    history.replaceState({ entry: `${Date.now()}.${scrollPositions.size}`, depth: depth + 1 }, "");
  ({ entry: entryId, depth } = history.state);
  const scrollTop = scrollPositions.get(entryId) ?? 0;
  try {
    const next = Object.hasOwn(views, wanted.name) ? views[wanted.name] : await loadView(wanted.name);
    if (wanted !== route) return;
    if (view && view !== next) view.leave?.();
    view = next;
    const entering = view.enter(wanted);
    redraw();
    await entering;
    if (!scrollTop || wanted !== route) return;
    await nextDraw();
    scrollBox()?.scrollTo(0, scrollTop);
  } catch (error) {
    if (wanted === route) isNavigationFailed = true;
    notifyError(error);
  }
}

addEventListener("hashchange", navigate);

// The server is back: load what could not be loaded.
function retry() {
  loadAgents().catch(() => {});
  if (startError) startSession();
  else if (isNavigationFailed) navigate();
  else view?.retry?.();
}

// The session

async function startSession() {
  startError = null;
  redraw();
  try {
    const session = await loadSession();
    if (me.isIn) return startConsole(session);
  } catch (error) {
    startError = error;
  }
  redraw();
}

// The current view is loaded first. Events are received from the session's event on, so none is missed meanwhile.
async function startConsole(session) {
  wasLoggedIn = true;
  const agentsLoaded = loadAgents().catch(() => {});
  const entered = navigate();
  if (threadsView.opening) pauseDrawing(Promise.all([agentsLoaded, threadsView.opening]), DRAW_DELAY);
  await Promise.race([entered, wait(LISTEN_DELAY)]);
  await wait(0); // let the browser paint
  loadThreads();
  loadMentions();
  loadQuestions();
  startListening(session.last_event_id);
  (globalThis.requestIdleCallback ?? setTimeout)(() => {
    for (const name of Object.keys(LAZY_VIEWS)) if (!RARE_VIEWS.includes(name)) loadView(name).catch(() => {});
  });
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

addEventListener("palaver:logged-in", () => {
  if (wasLoggedIn) return location.reload(); // remove everything the previous user has loaded
  startSession();
});
addEventListener("palaver:logged-out", () => {
  if (!me.isIn || !me.needsLogin) return;
  me.isIn = false;
  stopListening();
  view?.leave?.();
  view = null;
  redraw();
});
addEventListener("focus", () => {
  if (me.isIn) refreshMarks();
  redraw(); // messages in view are read now
});

// The connection

/** @type {number | undefined} */
let offlineTimer;
let wasCut = false; // also when the first connection fails
on("state", (isOpen) => {
  clearTimeout(offlineTimer);
  if (isOpen) {
    if (wasCut) for (const delay of RETRY_DELAYS) setTimeout(retry, delay);
    wasCut = false;
    isOffline = false;
    return redraw();
  }
  wasCut = true;
  offlineTimer = setTimeout(() => {
    isOffline = true;
    redraw();
    if (me.needsLogin) checkSession().catch(() => {});
  }, OFFLINE_DELAY);
});

// The stream also ends when the user logs out, or logs in as someone else, in another window.
async function checkSession() {
  const { name, workspace } = me;
  await loadSession();
  if (!me.isIn) stopListening();
  else if (me.name !== name || me.workspace !== workspace) location.reload();
  else startListening();
  redraw();
}

// Keyboard shortcuts

const GO_TIME = 1500; // milliseconds in which the second key follows g
let goUntil = 0;

const openPalette = async () => {
  const { openPalette: open } = await import("./views/palette.js");
  open(paletteActions(threadsView.threadId()));
};

addEventListener("keydown", (event) => {
  if (!me.isIn || isDialogOpen()) return;
  const target = /** @type {Element} */ (event.target);
  const run = (action) => (event.preventDefault(), action());
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey)
    return run(() => openPalette().catch(notifyError));
  const openMenu = /** @type {HTMLDetailsElement | null} */ (document.querySelector("details.menu[open]"));
  if (event.key === "Escape" && openMenu) return (openMenu.open = false), openMenu.querySelector("summary")?.focus();
  const isTyping = target.closest?.("input, textarea, select, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const threadId = threadsView.threadId();
  const page = event.timeStamp < goUntil && PAGES.find(([, , key]) => key === event.key);
  goUntil = event.key === "g" ? event.timeStamp + GO_TIME : 0;
  if (page) return run(() => goTo(`#/${page[0]}`));
  if (event.key === "N") return run(() => goToNextUnread(threadId));
  if (event.key === "/") return run(focusSearchBar);
  if (event.key === "?") return showShortcuts();
  if (event.key === "n" && can("write")) return run(newThread);
  if (event.key === "s" && threadId) return run(() => searchInThread(threadId));
  if (target.closest?.("button, a, summary") && event.key === "Enter") return;
  if (view?.key?.(event)) event.preventDefault();
});

// The frame

const PARENT_VIEWS = {
  open: "library",
  log: "agents",
  mentions: "threads",
  applications: "agents",
  administration: "agents",
};

function frame() {
  if (startError) return html`<div class="alone">${errorState(startError, startSession)}</div>`;
  if (!me.isKnown) return html`<div class="alone">${loading()}</div>`;
  if (!me.isIn) return html`${loginView()}${noticesTemplate()}`;
  if (route.name === "connect") return html`${view?.template() ?? nothing}${noticesTemplate()}`; // it stands alone
  const skipToContent = (event) => {
    event.preventDefault();
    const content = /** @type {HTMLElement | null} */ (document.querySelector(".scroll, main"));
    if (!content?.hasAttribute("tabindex")) content?.setAttribute("tabindex", "-1");
    content?.focus();
  };
  return html`<a class="skip" href="#app" @click=${skipToContent}>${t("Skip to content")}</a>
    <div class="shell ${view?.isInner() ? "inner" : ""}" data-view=${route.name}>
      ${navigationRail()}
      <div class="top">${searchBar(route)}</div>
      ${
        isOffline
          ? html`<p class="away" role="alert"><i></i> ${t("The server cannot be reached. Reconnecting …")}
        <button type="button" @click=${reconnect}>${t("Try now")}</button></p>`
          : nothing
      }
      ${view?.template() ?? nothing}
    </div>
    ${dialogTemplate()}${noticesTemplate()}`;
}

function navigationRail() {
  const unread = unreadThreadCount();
  const asked = openQuestions().length;
  const current = PARENT_VIEWS[route.name] ?? route.name;
  return html`<nav class="rail" aria-label=${t("Main")}>
    <a class="brand" href="#/threads" aria-label="palaver"><img src=${assetUrl("icon.svg")} alt="" width="32" height="32" /></a>
    ${PAGES.filter(([name]) => !["settings", "mentions"].includes(name)).map(
      ([name, label]) => html`<a href="#/${name}" aria-current=${name === current ? "page" : nothing}>
      <span class="sign">${icon(name)}${name === "threads" && unread ? html`<b class="news" aria-label=${t("{n} unread threads", { n: unread })}></b>` : nothing}${name === "questions" && asked ? html`<b class="news count" aria-label=${plural(asked, "open question")}>${asked}</b>` : nothing}</span><span>${t(label)}</span></a>`,
    )}
    <span class="space"></span>
    ${iconButton(t("Theme: {name}", { name: t(theme.choice) }), THEME_ICONS[theme.choice], switchTheme)}
    <button type="button" class="quiet keys-help" aria-label=${t("Keyboard shortcuts")} title=${t("Keyboard shortcuts (?)")} @click=${showShortcuts}>${icon("help")}</button>
    ${accountMenu()}
  </nav>`;
}

function accountMenu() {
  const changeName = () =>
    promptDialog(
      t("Change name"),
      { label: t("Name shown with your messages"), value: me.name, maxLength: 80 },
      async (name) => {
        setName(name);
        redraw();
      },
    );
  return html`<details class="menu account"><summary aria-label=${t("Account: {name}", { name: me.name })} title=${me.name}>${avatar(me.name)}</summary>
    <div role="menu">
      <p><b>${me.name}</b><br /><small>${t("workspace {name}", { name: me.workspace })} · palaver ${me.version}</small></p>
      ${me.needsLogin ? nothing : html`<button type="button" role="menuitem" @click=${changeName}>${icon("edit")} ${t("Change name")}</button>`}
      <button type="button" role="menuitem" @click=${() => openPalette().catch(notifyError)}>${icon("search")} ${t("Command palette")}</button>
      <a role="menuitem" href="#/settings">${icon("settings")} ${t("Settings")}</a>
      ${me.needsLogin ? html`<a role="menuitem" href="#/applications">${icon("agents")} ${t("Connected applications")}</a>` : nothing}
      ${
        can("admin")
          ? html`<a role="menuitem" href="#/administration">${icon("key")} ${t("Administration")}</a>
      <a role="menuitem" href="#/log">${icon("clock")} ${t("Audit log")}</a>`
          : nothing
      }
      <a role="menuitem" href="/docs" target="_blank">${icon("note")} ${t("API reference")}</a>
      ${
        me.needsLogin
          ? html`<button type="button" role="menuitem" @click=${() => logOut()}>${icon("leave")} ${t("Log out")}</button>
        <button type="button" role="menuitem" @click=${() => logOut({ everywhere: true })}>${icon("leave")} ${t("Log out everywhere")}</button>`
          : nothing
      }
    </div></details>`;
}

// The settings

const TRANSLATIONS = { de: async () => (await import("./texts/de.js")).texts };

async function applyLanguage() {
  const code = preferredLanguage(settings.get("language"));
  if (code === language.code) return;
  const texts = Object.hasOwn(TRANSLATIONS, code) ? await TRANSLATIONS[code]() : {};
  Object.assign(language, { code, texts });
  document.documentElement.lang = code;
  settings.announce();
}

function applySettings() {
  document.body.dataset.density = settings.get("density");
  applyLanguage().catch(notifyError);
  redraw();
}
addEventListener("palaver:settings", applySettings);

function start() {
  applySettings();
  if (pageSession.is_in) startConsole(setSession(pageSession));
  else startSession();
}

// English needs no file, so the console starts at once.
if (preferredLanguage(settings.get("language")) === "en") start();
else applyLanguage().then(start, start);
