// Small things that stand in many places: icons, faces, times, words with marks, notices.

import { drawn, html, nothing, redraw, svg } from "./view.js";

const PATHS = {
  threads:
    "M4 6.5A2.5 2.5 0 0 1 6.5 4h8A2.5 2.5 0 0 1 17 6.500v4a2.50 2.50 0 0 1-2.50 2.500H10l-3.50 3V13A2.50 2.50 0 0 1 4 10.500zM20 9.500v5a2.50 2.50 0 0 1-2 2.450V20l-3.30-3H11",
  search: "M10.50 17a6.50 6.50 0 1 0 0-13 6.50 6.50 0 0 0 0 13ZM15.50 15.50 20 20",
  library: "M5 4.500v15M9 4.500v15M12.50 5.200l4 14M5 4.500h4M5 19.500h4M12.50 5.200l3.40-.9 4 14.20-3.40.9",
  import: "M12 4v10m0 0 4-4m-4 4-4-4M5 16v2.500A1.50 1.50 0 0 0 6.50 20h11a1.50 1.50 0 0 0 1.50-1.500V16",
  agents:
    "M9 11a3.50 3.50 0 1 0 0-7 3.50 3.50 0 0 0 0 7ZM3 20c0-3.30 2.70-6 6-6s6 2.70 6 6M16 4.500a3.50 3.50 0 0 1 0 6.500M17.50 14.300c2.10.8 3.50 2.90 3.50 5.70",
  overview: "M5 20V11M10 20V5M15 20v-7M20 20V8",
  key: "M14.50 13a4.50 4.50 0 1 0-4.30-3.200L4 16v4h4v-2h2v-2h2l1.20-1.200c.4.10.90.20 1.30.200ZM15.50 8.500h.01",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2.500v2M12 19.500v2M2.50 12h2M19.50 12h2M5.30 5.300l1.40 1.400M17.30 17.300l1.40 1.400M5.30 18.700l1.40-1.400M17.30 6.700l1.40-1.40",
  moon: "M20 14.500A8.50 8.50 0 0 1 9.50 4 8.50 8.50 0 1 0 20 14.500Z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  help: "M9.30 9.200a2.80 2.80 0 1 1 3.90 2.600c-.8.4-1.20 1-1.20 1.900M12 17h.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.50 20.500c0-4 3.40-6.50 7.50-6.500s7.50 2.50 7.50 6.50",
  back: "M15 5l-7 7 7 7",
  close: "M6 6l12 12M18 6 6 18",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  plus: "M12 5v14M5 12h14",
  reply: "M9 7 4 12l5 5M4 12h9a7 7 0 0 1 7 7",
  smile: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM8.50 14.500c1.80 2 5.20 2 7 0M9 9.500h.01M15 9.500h.01",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  trash: "M5 7h14M10 7V4.500h4V7M7 7l1 13h8l1-13",
  link: "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.70-5.700l-1 1M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.70 5.700l1-1",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v6",
  archive: "M4 5h16v4H4zM5.50 9v10.500h13V9M10 13h4",
  download: "M12 4v11m0 0 4-4m-4 4-4-4M5 20h14",
  lock: "M7 11V8a5 5 0 0 1 10 0v3M5.50 11h13v9.500h-13z",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 2.50-2.500L20 17M15 9h.01",
  send: "M5 12 4 4.50 21 12 4 19.500zM5 12h7",
  down: "M12 5v14m0 0 6-6m-6 6-6-6",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3 2",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.50 10 17 19 7",
  note: "M6 3.500h9l4 4V20.500H6zM9 10h7M9 13.500h7M9 17h4",
  media: "M4 5h16v14H4zM10 9v6l5-3z",
  chats: "M5 5h14v10H11l-4 4v-4H5z",
  prompts: "M5 6l5 6-5 6M12 18h7",
  characters:
    "M12 13a4.50 4.50 0 1 0 0-9 4.50 4.50 0 0 0 0 9ZM5 20.500c.5-3.50 3.50-5 7-5s6.50 1.50 7 5M17.50 3.500l.7 1.80 1.80.7-1.80.7-.7 1.80-.7-1.80-1.80-.7 1.80-.7z",
  sessions: "M4 5h16v14H4zM7.50 10l3 2.50-3 2.500M13 15h4",
  leave: "M14 5H6v14h8M10 12h10m0 0-3.50-3.500M20 12l-3.50 3.50",
  filter: "M4 6h16M7 12h10M10 18h4",
};
PATHS.bus = PATHS.threads;
PATHS.notes = PATHS.note;

export const icon = (name) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${svg`<path d=${PATHS[name]} />`}</svg>`;

// A face: initials on a colour that belongs to the name.
export function face(name, { isAgent = false, isOnline = null } = {}) {
  const words = name
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .split(/[\s_-]+/)
    .filter(Boolean);
  const initials = (
    words.length > 1 ? first(words[0]) + first(words[1]) : [...(words[0] ?? "?")].slice(0, 2).join("")
  ).toUpperCase();
  return html`<span class="face ${isAgent ? "agent" : ""}" data-tint=${tint(name)} data-initials=${initials} aria-hidden="true"
    >${isOnline === null ? nothing : html`<i class="dot ${isOnline ? "on" : ""}"></i>`}</span
  >`;
}

const first = (word) => [...word][0] ?? "";

function tint(name) {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return sum % 8;
}

// Times

// Each is made when it is first needed: together they would cost more than a thread takes to be drawn.
function format(options) {
  let made = null;
  return (date) => (made ??= new Intl.DateTimeFormat(undefined, options)).format(date);
}

const clock = format({ hour: "2-digit", minute: "2-digit" });
const dayOnly = format({ weekday: "long", day: "numeric", month: "long" });
const dayAndYear = format({ day: "numeric", month: "long", year: "numeric" });
const shortDay = format({ day: "numeric", month: "short" });
const shortDayAndYear = format({ day: "numeric", month: "short", year: "numeric" });
const whole = format({ dateStyle: "full", timeStyle: "medium" });

const isSameDay = (a, b) => a.toDateString() === b.toDateString();
const daysAgo = (date) => Math.round((new Date().setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / 864e5);

export function dayName(iso) {
  const date = new Date(iso);
  const ago = daysAgo(date);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  return ago < 300 && ago > 0 ? dayOnly(date) : dayAndYear(date);
}

export const dayOf = (iso) => new Date(iso).toDateString();
export const timeOf = (iso) => clock(new Date(iso));
export const wholeTime = (iso) => whole(new Date(iso));

export function shortTime(iso) {
  const date = new Date(iso);
  if (isSameDay(date, new Date())) return clock(date);
  return (daysAgo(date) < 300 ? shortDay : shortDayAndYear)(date);
}

export function sinceWhen(iso) {
  const seconds = Math.max(0, (Date.now() - new Date(iso)) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return shortTime(iso);
}

export const time = (iso, shown = shortTime(iso)) =>
  html`<time datetime=${iso} title=${wholeTime(iso)}>${shown}</time>`;

export const count = (n) => n.toLocaleString();
// The last component of a project's path.
export const projectName = (path) =>
  path
    .split(/^[a-z]:[/\\]|^\\\\/i.test(path) ? /[/\\]/ : "/")
    .filter(Boolean)
    .at(-1) ?? path;

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// Words with marks. The server's HTML snippets hold nothing but escaped text and <mark>: they are read as text.

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#39;": "'" };
const unescaped = (text) => text.replace(/&(?:lt|gt|amp|quot|#x27|#39);/g, (entity) => ENTITIES[entity]);

// A snippet is read as a line of words: the signs of Markdown only stand in the way.
const withoutSigns = (text) =>
  text
    .replace(/```\w*\s?|`/g, "")
    .replace(/\*\*(?=\S)(.+?)\*\*/g, "$1")
    .replace(/(^|\s)\*(?=\S)([^*]+?)\*(?=[\s.,;:!?)]|$)/g, "$1$2");

export function marked(snippet) {
  return withoutSigns(snippet)
    .split(/<mark>(.*?)<\/mark>/s)
    .map((part, i) => (i % 2 ? html`<mark>${unescaped(part)}</mark>` : unescaped(part)));
}

export const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

// Near enough to what the index does: "retries" and "retry" are the same word.
export const stem = (word) => (word.length > 7 ? word.slice(0, -3) : word.length > 4 ? word.slice(0, -1) : word);

// What a question is made of says little about where its answer stands; it is marked only if nothing else was asked for.
const COMMON = new Set(
  `a about after all an and any are as at be been but by can could did do does for from had has have he her his how i if in
  into is it its just me my near no not of on or our out she should so than that the their them then there these they this
  to up us was we were what when where which who whom whose why will with would you your`.split(/\s+/),
);

export function wordsOf(query) {
  const all = [...new Set(folded(query).match(/[\p{L}\p{N}]+/gu) ?? [])];
  const telling = all.filter((word) => !COMMON.has(word));
  return (telling.length ? telling : all).map((word) => stem(word));
}

// The words of a query, marked wherever a word of the text begins with one of them.
export function highlighted(text, query) {
  const words = wordsOf(query);
  if (!words.length) return withoutSigns(text);
  return withoutSigns(text).split(/([\p{L}\p{N}\p{M}]+)/u).map((part, i) => {
    if (i % 2 === 0) return part;
    const plain = folded(part);
    const isHit = words.some((word) =>
      word.length < 3 || isCjk(word) ? plain === word || (isCjk(word) && plain.includes(word)) : plain.startsWith(word),
    );
    return isHit ? html`<mark>${part}</mark>` : part;
  });
}

const isCjk = (word) => /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u.test(word);

// Markdown as one plain line, for where there is no room for more.
export const plain = (text) =>
  text
    .slice(0, 600)
    .replace(/^---\n[\s\S]*?\n---/, "")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[-:]{3,}/g, "")
    .replace(/```\w*|[*`>|~]+|^#+ |^[-*] (\[.\] )?/gm, "")
    .replace(/\s+/g, " ")
    .trim();

// Notices: said once, at the bottom, and gone after a while.

const notices = [];

export function notify(text, { isBad = false } = {}) {
  const notice = { text, isBad };
  notices.push(notice);
  setTimeout(
    () => {
      notices.splice(notices.indexOf(notice), 1);
      redraw();
    },
    isBad ? 8000 : 3500,
  );
  redraw();
}

export const shownNotices = () => html`<div class="notices" role="status" aria-live="polite">
  ${notices.map((notice) => html`<p class=${notice.isBad ? "bad" : ""}>${notice.text}</p>`)}
</div>`;

export async function copy(text, said = "Copied.") {
  try {
    await navigator.clipboard.writeText(text);
    notify(said);
  } catch {
    notify("The browser does not allow copying here.", { isBad: true });
  }
}

export const failed = (problem) => {
  if (problem.name !== "AbortError") notify(problem.message, { isBad: true });
};

// Menus and dialogs. A menu is a <details>; it closes when something else is clicked or Esc is pressed.

document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.menu[open]")) {
    if (!open.contains(event.target) || event.target.closest("[role=menuitem]")) open.open = false;
  }
});

// In an open menu the arrows go from one thing to the next.
document.addEventListener("keydown", (event) => {
  const open = event.target.closest?.("details.menu[open]");
  const items = open ? [...open.querySelectorAll("[role=menuitem]")] : [];
  if (!items.length) return;
  const now = items.indexOf(event.target);
  const next = {
    ArrowDown: items[(now + 1) % items.length],
    ArrowUp: items.at(now <= 0 ? -1 : now - 1),
    Home: items[0],
    End: items.at(-1),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  next.focus();
});

// Who leaves a menu with Tab has left it.
document.addEventListener("focusout", ({ target, relatedTarget }) => {
  const open = target.closest?.("details.menu[open]");
  if (open && relatedTarget && !open.contains(relatedTarget)) open.open = false;
});

// One that would not fit below opens upwards.
document.addEventListener(
  "toggle",
  ({ target }) => {
    if (!target.matches?.("details.menu") || !target.open) return;
    target.classList.remove("up");
    const panel = target.querySelector(":scope > div").getBoundingClientRect();
    const around = target.closest(".scroll")?.getBoundingClientRect() ?? { top: 0, bottom: innerHeight };
    target.classList.toggle(
      "up",
      panel.bottom > around.bottom && target.getBoundingClientRect().top - panel.height > around.top,
    );
  },
  true,
);

export const menu = (label, items, name = "more") => html`<details class="menu">
  <summary class="quiet" aria-label=${label} title=${label}>${icon(name)}</summary>
  <div role="menu">
    ${items
      .filter(Boolean)
      .map(({ text, icon: sign, go, href, download, isBad }) =>
        href
          ? html`<a role="menuitem" href=${href} download=${download ?? nothing}>${icon(sign)} ${text}</a>`
          : html`<button type="button" role="menuitem" class=${isBad ? "bad" : ""} @click=${go}>${icon(sign)} ${text}</button>`,
      )}
  </div>
</details>`;

let dialog = null;

export function openDialog(title, content) {
  const here = document.activeElement;
  dialog = { title, content, cameFrom: here?.closest("details.menu")?.querySelector("summary") ?? here };
  redraw();
}

export function closeDialog() {
  const cameFrom = dialog?.cameFrom;
  dialog = null;
  drawn().then(() => cameFrom?.isConnected && cameFrom.focus()); // while it is open nothing else takes the focus
}

export const isDialogOpen = () => dialog !== null;

// A dialog can be opened once it stands in the page.
const showModal = (element) => queueMicrotask(() => element?.isConnected && !element.open && element.showModal());

export function shownDialog(ref) {
  if (!dialog) return nothing;
  return html`<dialog ${ref(showModal)} aria-label=${dialog.title} @cancel=${(e) => (e.preventDefault(), closeDialog())}
    @click=${(event) => event.target === event.currentTarget && closeDialog()}>
    <header><h2>${dialog.title}</h2>
      <button type="button" class="quiet" aria-label="Close" @click=${closeDialog}>${icon("close")}</button></header>
    <div class="body">${dialog.content()}</div>
  </dialog>`;
}

// A question with one line to fill in.
export function askFor(title, { label, value = "", action = "Save", most = 500 }, done) {
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target).get("answer").trim();
    if (!given) return;
    try {
      await done(given);
      closeDialog();
    } catch (problem) {
      failed(problem);
    }
  };
  openDialog(
    title,
    () => html`<form class="ask" @submit=${submit}>
    <label>${label}<input name="answer" .value=${value} maxlength=${most} autocomplete="off" autofocus required /></label>
    <footer><button type="button" @click=${closeDialog}>Cancel</button><button class="main">${action}</button></footer>
  </form>`,
  );
}

export function askWhether(title, text, action, done) {
  const yes = async () => {
    closeDialog();
    await done().catch(failed);
  };
  openDialog(
    title,
    () => html`<p>${text}</p>
    <footer><button type="button" @click=${closeDialog}>Cancel</button
      ><button type="button" class="main bad" autofocus @click=${yes}>${action}</button></footer>`,
  );
}

// A button that is only a sign; and some of which one is pressed.
export const tool = (label, sign, act, title = label) => html`<button type="button" class="quiet" aria-label=${label}
  title=${title} @click=${act}>${icon(sign)}</button>`;

export const choice = (label, options, chosen, choose) => html`<div class="choice" role="group" aria-label=${label}>
  ${options.map(
    ([value, text]) =>
      html`<button type="button" aria-pressed=${value === chosen} @click=${() => choose(value)}>${text}</button>`,
  )}</div>`;

// What to show when there is nothing, or when something went wrong.
export const empty = (sign, title, text = nothing, more = nothing) => html`<div class="empty">
  ${icon(sign)}<h2>${title}</h2><p>${text}</p>${more}</div>`;

export const trouble = (problem, again) => html`<div class="empty bad" role="alert">
  ${icon("help")}<h2>${problem.status === 404 ? "It is not here" : "That did not work"}</h2><p>${problem.message}</p>
  ${again && problem.status !== 404 ? html`<button type="button" @click=${again}>Try again</button>` : nothing}</div>`;

export const waiting = (text = "Loading") => html`<div class="waiting" role="status"><i></i><span>${text}</span></div>`;
