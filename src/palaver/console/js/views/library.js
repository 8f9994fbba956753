// @ts-check
// The library: a list of the documents of each source.

import { get, post } from "../data/api.js";
import { documentDrafts, documentKey } from "../data/drafts.js";
import { can } from "../data/session.js";
import { LIBRARY_PAGE, SOURCES, findSource, sourceNames } from "../data/sources.js";
import { goTo, link, linkToDocument } from "../route.js";
import { avatar, emptyState, errorState, loading } from "../ui/elements.js";
import { formatNumber, plainText, shortTime } from "../ui/format.js";
import { icon } from "../ui/icons.js";
import { notifyError } from "../ui/notices.js";
import { html, nothing, redraw, repeat } from "../ui/render.js";
import { rich, t } from "../ui/texts.js";

const FIRST = ["notes", "prompts"]; // the tabs before the others
const TABS = [...FIRST, ...sourceNames.filter((name) => SOURCES[name].library && !FIRST.includes(name))];

let name = "notes";
let items = [];
let hasMore = false;
/** @type {any} */
let error = null;
let isLoaded = false;
let counts = {};

export const libraryView = {
  title: () => `${t(SOURCES[name].label)} · ${t("Library")}`,
  isInner: () => true,
  enter({ parts: [wanted, action] }) {
    const next = findSource(wanted)?.library ? wanted : "notes";
    if (action === "new" && SOURCES[next].blank) return create(next);
    if (next !== name) items = [];
    name = next;
    isLoaded = items.length > 0;
    return load();
  },
  retry: () => error?.isOffline && load(),
  template: () => html`<main class="pane library">
    <header class="head"><div class="name"><h1>${t("Library")}</h1><p>${t(SOURCES[name].library?.about ?? "")}</p></div>
      ${createButton()}
      ${name === "archive" ? html`<a class="button" href="#/import">${icon("import")} ${t("Import")}</a>` : nothing}</header>
    <nav class="shelves" aria-label=${t("Sources")}>${TABS.map(
      (tab) => html`<a href=${link(["library", tab])} aria-current=${tab === name ? "page" : nothing}>
      ${icon(SOURCES[tab].icon)} ${t(SOURCES[tab].label)} ${counts[tab] ? html`<small>${formatNumber(counts[tab])}</small>` : nothing}</a>`,
    )}</nav>
    <div class="scroll">${list()}</div>
  </main>`,
  key(event) {
    if (event.key !== "j" && event.key !== "k") return false;
    const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".cards a")]);
    const current = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    (links[current + (event.key === "j" ? 1 : -1)] ?? links[0])?.focus();
    return true;
  },
};

async function load(offset = 0) {
  const wanted = name;
  try {
    const found = (await SOURCES[wanted].library?.list(offset)) ?? [];
    if (wanted !== name) return;
    items = offset ? [...items, ...found] : found;
    hasMore = found.length === LIBRARY_PAGE;
    error = null;
  } catch (problem) {
    error = problem;
  }
  isLoaded = true;
  redraw();
  get("/api/overview?days=1")
    .then((answer) => ((counts = answer.documents), redraw()))
    .catch(() => {});
}

async function create(source) {
  try {
    const { id } = await post(SOURCES[source].path, SOURCES[source].blank);
    items = [];
    goTo(link(["open", source, String(id)], { edit: "new" }));
  } catch (problem) {
    notifyError(problem);
  }
}

const createButton = () =>
  can("write") && SOURCES[name].blank
    ? html`<button type="button" class="main" @click=${() => create(name)}>${icon("plus")} ${t(`New ${SOURCES[name].singular.toLowerCase()}`)}</button>`
    : nothing;

function list() {
  const { library, label, icon: iconName } = SOURCES[name];
  if (error) return errorState(error, () => load());
  if (!isLoaded || !library) return loading();
  if (!items.length && name === "archive")
    return emptyState(
      "archive",
      "No imported chats yet",
      "Import your chats from ChatGPT, Claude, Cursor and other tools to search them here.",
      html`<a class="button" href="#/import">${t("Import")}</a>`,
    );
  if (!items.length && name === "sessions")
    return emptyState(
      "sessions",
      "No sessions yet",
      rich("{command} records the sessions of Claude Code and Codex while they run.", {
        command: html`<code>palaver watch</code>`,
      }),
    );
  if (!items.length) return emptyState(iconName, t(`No ${label.toLowerCase()} yet`), library.about, createButton());
  return html`<ul class="cards">${repeat(items.map(library.card), ({ id }) => id, card)}</ul>
    ${hasMore ? html`<p class="more"><button type="button" @click=${() => load(items.length)}>${t("Show more")}</button></p>` : nothing}`;
}

/** @param {import("../data/sources.js").Card} card */
function card({ id, title, text, kind, tags, when, avatar: avatarName, isAgent, loc }) {
  return html`<li><a href=${linkToDocument(name, id, loc)}>
    <span class="title">${avatarName ? avatar(avatarName, { isAgent }) : icon(SOURCES[name].icon)} <b>${title || t("Untitled")}</b></span>
    ${text ? html`<span class="text">${plainText(text)}</span>` : nothing}
    <span class="foot">${documentDrafts.has(documentKey(name, id)) ? html`<i class="tag warn">${t("Not saved")}</i>` : nothing}${kind ? html`<span>${kind}</span>` : nothing}${(tags ?? []).slice(0, 3).map((tag) => html`<i class="tag">${tag}</i>`)}${when ? html`<time datetime=${when}>${shortTime(when)}</time>` : nothing}</span>
  </a></li>`;
}
