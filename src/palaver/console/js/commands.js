// @ts-check
// Actions that can be run from anywhere: by a key, or from the command palette.

import { can, me } from "./data/session.js";
import { url } from "./data/api.js";
import { sourceNames, SOURCES } from "./data/sources.js";
import { settings } from "./data/settings.js";
import { theme } from "./data/storage.js";
import { filteredThreads, markAllRead, unreadCount } from "./data/threads.js";
import { goTo, link, linkToThread } from "./route.js";
import { notify, notifyError, openDialog } from "./ui/dialog.js";
import { html, redraw, t } from "./ui/templates.js";
import { logOut } from "./views/login.js";
import { focusSearchBar } from "./views/search_bar.js";
import { newThread } from "./views/thread/thread_dialogs.js";

// The pages, with the key that opens each after g.
export const PAGES = [
  ["threads", "Threads", "t"],
  ["questions", "Questions", "q"],
  ["library", "Library", "l"],
  ["mentions", "Mentions", "m"],
  ["agents", "Agents", "a"],
  ["overview", "Overview", "o"],
  ["import", "Import", "i"],
  ["settings", "Settings", "s"],
];

const SHORTCUTS = [
  [
    "Everywhere",
    [
      [["Ctrl K"], "command palette"],
      [["/"], "search everything"],
      [["g", "t q l m a o i s"], "go to threads, questions, library, mentions, agents, overview, import, settings"],
      [["n"], "new thread"],
      [["Shift N"], "next thread with unread messages"],
      [["Esc"], "close, cancel or go back"],
      [["?"], "show this list"],
    ],
  ],
  [
    "Lists",
    [
      [["j", "k"], "next, previous message, thread, result or document"],
      [["Enter"], "open the selected item; in a thread, write a message"],
    ],
  ],
  [
    "In the search",
    [
      [["c"], "show the evidence that an agent gets"],
      [["b"], "save the search"],
      [["Tab"], "accept the suggested operator or value"],
    ],
  ],
  [
    "In a session",
    [
      [["j", "k"], "next, previous step"],
      [["Enter"], "unfold or fold the step"],
      [["e", "Shift E"], "next, previous error"],
      [["d", "Shift D"], "next, previous edit"],
      [["u", "Shift U"], "next, previous question"],
      [["a"], "from a question to its answer and back"],
    ],
  ],
  [
    "In a thread",
    [
      [["c"], "write a message"],
      [["r"], "reply to the selected message"],
      [["+"], "react to the selected message"],
      [["e"], "edit the selected message or document"],
      [["u"], "mark the selected message as unread"],
      [["s"], "search in this thread"],
      [["Shift J", "Shift K"], "next, previous thread"],
      [["Shift G"], "go to the newest message"],
    ],
  ],
];

export const showShortcuts = () =>
  openDialog(
    t("Keyboard shortcuts"),
    () =>
      html`<div tabindex="0" role="region" aria-label=${t("Keyboard shortcuts")}><div class="columns">${SHORTCUTS.map(
        ([title, keys]) => html`<section><h3 class="keys-title">${t(/** @type {string} */ (title))}</h3>
      <table class="keys"><tbody>${
        /** @type {[string[], string][]} */ (keys).map(
          ([names, action]) =>
            html`<tr><td>${names.map((key) => html`<kbd>${key}</kbd> `)}</td><td>${t(action)}</td></tr>`,
        )
      }</tbody></table></section>`,
      )}</div></div>`,
  );

// Open the latest thread with unread messages, other than the open one.
export function goToNextUnread(openId) {
  const next = filteredThreads(openId).find((thread) => unreadCount(thread) && thread.id !== openId);
  if (next) goTo(linkToThread(next.id));
  else notify(t("There are no other unread threads."));
}

export const THEME_ICONS = { system: "system", light: "sun", dark: "moon" };
const LANGUAGES = [
  ["en", "English", "englisch"],
  ["de", "Deutsch", "german"],
];
const NEXT_THEME = { system: "light", light: "dark", dark: "system" };
const setTheme = (name) => {
  theme.choice = name;
  redraw();
};
export const switchTheme = () => setTheme(NEXT_THEME[theme.choice]);

async function newToken() {
  goTo("#/administration");
  const { showNewToken } = await import("./views/admin/tokens.js");
  showNewToken();
}

function exportThread(id) {
  const anchor = document.createElement("a");
  anchor.href = url`/api/threads/${id}/export`;
  anchor.download = "";
  anchor.click();
}

// The actions of the palette. `openId` is the open thread.
export function paletteActions(openId) {
  const action = (title, icon, run, keys = "", words = "") => ({ title, icon, run, keys, words, kind: t("Action") });
  const page = (title, icon, path, keys = "") => ({ title, icon, run: () => goTo(path), keys, kind: t("Page") });
  const libraryPages = sourceNames
    .filter((name) => SOURCES[name].library)
    .map((name) => page(t(SOURCES[name].label), SOURCES[name].icon, link(["library", name])));
  const newDocuments = sourceNames
    .filter((name) => SOURCES[name].isWritten)
    .map((name) =>
      action(t(`New ${SOURCES[name].singular.toLowerCase()}`), "plus", () => goTo(link(["library", name, "new"]))),
    );
  return [
    action(t("Next unread thread"), "unread", () => goToNextUnread(openId), "Shift N"),
    action(t("Mark all as read"), "check", () => markAllRead().catch(notifyError)),
    ...(can("write") ? [action(t("New thread"), "plus", newThread, "n"), ...newDocuments] : []),
    action(t("Search everything"), "search", focusSearchBar, "/"),
    ...PAGES.map(([name, label, key]) => page(t(label), name === "mentions" ? "at" : name, `#/${name}`, `g ${key}`)),
    ...libraryPages,
    page(t("Templates"), "template", "#/library/templates"),
    ...(openId ? [action(t("Export this thread as Markdown"), "download", () => exportThread(openId))] : []),
    ...(can("admin")
      ? [
          action(t("New token"), "key", () => newToken().catch(notifyError)),
          page(t("Administration"), "key", "#/administration"),
          page(t("Audit log"), "clock", "#/log"),
        ]
      : []),
    action(t("Switch theme"), "moon", switchTheme),
    ...["light", "dark", "system"].map((name) =>
      action(t("Theme: {name}", { name: t(name) }), THEME_ICONS[name], () => setTheme(name), "", name),
    ),
    ...LANGUAGES.map(([code, name, words]) =>
      action(t("Language: {name}", { name }), "settings", () => settings.set("language", code), "", words),
    ),
    action(t("Keyboard shortcuts"), "help", showShortcuts, "?"),
    ...(me.needsLogin ? [action(t("Log out"), "leave", () => logOut())] : []),
  ];
}
