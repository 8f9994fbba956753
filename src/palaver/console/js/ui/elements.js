// @ts-check
// Small elements that many views use: icons, avatars, buttons, choices, tags, menus, and the empty, error and loading states.
// They translate the texts they get.

import { html, nothing, svg, t } from "./templates.js";

// Icons: one SVG path each, drawn on a 24 × 24 grid.
/** @type {Record<string, string>} */
const PATHS = {
  threads:
    "M4 6.5A2.5 2.5 0 0 1 6.5 4h8A2.5 2.5 0 0 1 17 6.500v4a2.50 2.50 0 0 1-2.50 2.500H10l-3.50 3V13A2.50 2.50 0 0 1 4 10.500zM20 9.500v5a2.50 2.50 0 0 1-2 2.450V20l-3.30-3H11",
  questions: "M4 13.500h4.500l1.500 3h4l1.500-3H20M4 13.500 6.500 5h11L20 13.500V19H4z",
  at: "M15.500 12a3.500 3.500 0 1 1-7 0 3.500 3.500 0 0 1 7 0Zm0 0v1.200a2.300 2.300 0 0 0 4.600 0V12a8.100 8.100 0 1 0-3.200 6.400",
  unread: "M4 6.500h9M4 12h6M4 17.500h16M18 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z",
  search: "M10.50 17a6.50 6.50 0 1 0 0-13 6.50 6.50 0 0 0 0 13ZM15.50 15.50 20 20",
  library: "M5 4.500v15M9 4.500v15M12.50 5.200l4 14M5 4.500h4M5 19.500h4M12.50 5.200l3.40-.9 4 14.20-3.40.9",
  import: "M12 4v10m0 0 4-4m-4 4-4-4M5 16v2.500A1.50 1.50 0 0 0 6.50 20h11a1.50 1.50 0 0 0 1.50-1.500V16",
  agents:
    "M9 11a3.50 3.50 0 1 0 0-7 3.50 3.50 0 0 0 0 7ZM3 20c0-3.30 2.70-6 6-6s6 2.70 6 6M16 4.500a3.50 3.50 0 0 1 0 6.500M17.50 14.300c2.10.8 3.50 2.90 3.50 5.70",
  overview: "M5 20V11M10 20V5M15 20v-7M20 20V8",
  settings:
    "M12 15.500a3.50 3.50 0 1 0 0-7 3.50 3.50 0 0 0 0 7ZM12 3v3M12 18v3M3 12h3M18 12h3M5.600 5.600l2.200 2.200M16.200 16.200l2.200 2.200M5.600 18.400l2.200-2.200M16.200 7.800l2.200-2.200",
  key: "M14.50 13a4.50 4.50 0 1 0-4.30-3.200L4 16v4h4v-2h2v-2h2l1.20-1.200c.4.10.90.20 1.30.200ZM15.50 8.500h.01",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2.500v2M12 19.500v2M2.50 12h2M19.50 12h2M5.30 5.300l1.40 1.400M17.30 17.300l1.40 1.400M5.30 18.700l1.40-1.400M17.30 6.700l1.40-1.40",
  moon: "M20 14.500A8.50 8.50 0 0 1 9.50 4 8.50 8.50 0 1 0 20 14.500Z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  help: "M9.30 9.200a2.80 2.80 0 1 1 3.90 2.600c-.8.4-1.20 1-1.20 1.900M12 17h.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.50 20.500c0-4 3.40-6.50 7.50-6.500s7.50 2.50 7.50 6.50",
  back: "M15 5l-7 7 7 7",
  forward: "M9 5l7 7-7 7",
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
  up: "M12 19V5m0 0 6 6m-6-6-6 6",
  branch: "M7 4v12M7 8c0 4 10 2 10 7M7 20a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM17 19a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z",
  attach:
    "M18.500 11.500 11.800 18.200a4 4 0 0 1-5.700-5.700l7.400-7.400a2.700 2.700 0 0 1 3.800 3.800l-7.300 7.300a1.300 1.300 0 0 1-1.900-1.900l6.600-6.600",
  file: "M6 3.500h8l4 4V20.500H6zM14 3.500v4h4",
  down: "M12 5v14m0 0 6-6m-6 6-6-6",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3 2",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  star: "M12 4l2.400 5 5.600.7-4.100 3.800 1.100 5.500-5-2.700-5 2.700 1.100-5.500L4 9.700 9.600 9z",
  check: "M5 12.50 10 17 19 7",
  checks: "M2 12.500 7 17 15 8M11 16l1 1L21 7.500",
  barred: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM6 6l12 12",
  note: "M6 3.500h9l4 4V20.500H6zM9 10h7M9 13.500h7M9 17h4",
  media: "M4 5h16v14H4zM10 9v6l5-3z",
  chats: "M5 5h14v10H11l-4 4v-4H5z",
  prompts: "M5 6l5 6-5 6M12 18h7",
  characters:
    "M12 13a4.50 4.50 0 1 0 0-9 4.50 4.50 0 0 0 0 9ZM5 20.500c.5-3.50 3.50-5 7-5s6.50 1.50 7 5M17.50 3.500l.7 1.80 1.80.7-1.80.7-.7 1.80-.7-1.80-1.80-.7 1.80-.7z",
  sessions: "M4 5h16v14H4zM7.50 10l3 2.50-3 2.500M13 15h4",
  leave: "M14 5H6v14h8M10 12h10m0 0-3.50-3.500M20 12l-3.50 3.50",
  template: "M4 5h16v5H4zM4 14h7v6H4zM15 14h5v6h-5z",
  filter: "M4 6h16M7 12h10M10 18h4",
};

export const icon = (name) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">${svg`<path d=${PATHS[name]} />`}</svg>`;

// Two letters of a name: AL for Ada Lovelace, RO for rook. Names of the same kind differ at their end: A12 for agent-012.
export function initialsOf(name) {
  const words = name
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .split(/[\s_-]+/)
    .filter(Boolean);
  const [first = ["?"], second] = words.map((word) => [...word]);
  const number = name.match(/\D0*(\d+)$/)?.[1] ?? (/^\d/.test(words[1] ?? "") ? words[1] : "");
  if (number) return `${first[0]}${number.slice(-2)}`.toUpperCase();
  return (second ? first[0] + second[0] : first.slice(0, 2).join("")).toUpperCase();
}

// Initials on a colour computed from the name.
/** @type {(name: string, state?: {isAgent?: boolean, isOnline?: boolean | null}) => unknown} */
export function avatar(name, { isAgent = false, isOnline = null } = {}) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return html`<span class="face ${isAgent ? "agent" : ""}" data-tint=${hash % 8} data-initials=${initialsOf(name)} aria-hidden="true"
    >${isOnline === null ? nothing : html`<i class="dot ${isOnline ? "on" : ""}"></i>`}</span
  >`;
}

export const iconButton = (label, iconName, click, title = label) => html`<button type="button" class="quiet"
  aria-label=${t(label)} title=${t(title)} @click=${click}>${icon(iconName)}</button>`;

// Buttons of which exactly one is pressed. `options` are pairs of value and text.
export const choice = (label, options, chosen, choose) => html`<div class="choice" role="group" aria-label=${t(label)}>
  ${options.map(
    ([value, text]) =>
      html`<button type="button" aria-pressed=${value === chosen} @click=${() => choose(value)}>${t(text)}</button>`,
  )}</div>`;

// `linkOf` gives the address of a tag; without it tags are plain text.
/** @type {(tags: string[] | null | undefined, linkOf?: (tag: string) => string) => unknown} */
export const tagList = (tags, linkOf) =>
  tags?.length
    ? html`<p class="tags">${tags.map((tag) => (linkOf ? html`<a class="tag" href=${linkOf(tag)}>${tag}</a>` : html`<i class="tag">${tag}</i>`))}</p>`
    : nothing;

// The keys j and k move the focus in a list. Returns whether it was one of them.
export function stepFocus({ key }, selector) {
  if (key !== "j" && key !== "k") return false;
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);
  const current = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  (all[current + (key === "j" ? 1 : -1)] ?? all[0])?.focus();
  return true;
}

// Shown when there is nothing to list.
/** @type {(iconName: string, title: string, text?: unknown, action?: unknown) => unknown} */
export const emptyState = (iconName, title, text = nothing, action = nothing) => html`<div class="empty">
  ${icon(iconName)}<h2>${t(title)}</h2><p>${typeof text === "string" ? t(text) : text}</p>${action}</div>`;

const errorTitle = (error) =>
  error.status === 404 ? "Not found" : error.isOffline ? "No connection" : "Something went wrong";

// Shown when loading failed. Views load again by themselves when the server is back.
/** @type {(error: any, retry?: () => unknown) => unknown} */
export const errorState = (error, retry) => html`<div class="empty bad" role="alert">
  ${icon("help")}<h2>${t(errorTitle(error))}</h2><p>${t(error.message)} ${error.isOffline ? t("This page loads when the server is back.") : nothing}</p>
  ${retry && error.status !== 404 ? html`<button type="button" @click=${retry}>${t("Try again")}</button>` : nothing}</div>`;

export const loading = (text = "Loading") =>
  html`<div class="waiting" role="status"><i></i><span>${t(text)}</span></div>`;

// A menu is a <details class="menu">. It closes on Esc, on a click elsewhere and when the focus leaves it.
export const menu = (label, items, iconName = "more") => html`<details class="menu">
  <summary class="quiet" aria-label=${t(label)} title=${t(label)}>${icon(iconName)}</summary>
  <div role="menu">
    ${items
      .filter(Boolean)
      .map((item) =>
        item.href
          ? html`<a role="menuitem" href=${item.href} download=${item.download ?? nothing}>${icon(item.icon)} ${t(item.text)}</a>`
          : html`<button type="button" role="menuitem" class=${item.isDangerous ? "bad" : ""} @click=${item.run}>${icon(item.icon)} ${t(item.text)}</button>`,
      )}
  </div>
</details>`;

const openMenu = (element) => element?.closest?.("details.menu[open]");

document.addEventListener("click", ({ target }) => {
  const clicked = /** @type {Element} */ (target);
  for (const open of document.querySelectorAll("details.menu[open]")) {
    if (!open.contains(clicked) || clicked.closest("[role=menuitem]")) open.removeAttribute("open");
  }
});

// Arrow keys, Home and End move between the items of an open menu.
document.addEventListener("keydown", (event) => {
  const items = [...(openMenu(event.target)?.querySelectorAll("[role=menuitem]") ?? [])];
  if (!items.length) return;
  const current = items.indexOf(event.target);
  const next = {
    ArrowDown: items[(current + 1) % items.length],
    ArrowUp: items.at(current <= 0 ? -1 : current - 1),
    Home: items[0],
    End: items.at(-1),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  next.focus();
});

document.addEventListener("focusout", ({ target, relatedTarget }) => {
  const open = openMenu(target);
  if (open && relatedTarget && !open.contains(relatedTarget)) open.open = false;
});

// A menu that does not fit below its button opens upwards, if there is more room.
export function placeMenu(open) {
  open.classList.remove("up");
  open.style.removeProperty("--room");
  const panel = open.querySelector(":scope > div").getBoundingClientRect();
  const button = open.getBoundingClientRect();
  const around = open.closest(".scroll")?.getBoundingClientRect() ?? { top: 0, bottom: innerHeight };
  const [above, below] = [button.top - around.top, around.bottom - button.bottom];
  open.classList.toggle("up", panel.bottom > around.bottom && above > below);
  if (panel.height > below) open.style.setProperty("--room", `${Math.max(above, below) - 12}px`);
}

document.addEventListener("toggle", ({ target }) => target === openMenu(target) && placeMenu(target), true);
