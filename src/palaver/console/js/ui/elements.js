// @ts-check
// Small elements that many views use. They translate the texts they get: avatars, icon buttons, choices, tags, and the empty, error and loading states.

import { icon } from "./icons.js";
import { html, nothing } from "./render.js";
import { t } from "./texts.js";

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
