// @ts-check
// The library: the documents of each source, with filters, an order, pages and the deleted ones. The address has the
// filters, so that links and the back button keep them.

import { get, withQuery } from "../data/api.js";
import { documentDrafts, documentKey } from "../data/drafts.js";
import { can } from "../data/session.js";
import { findSource, LIBRARY_PAGE, sourceNames, SOURCES } from "../data/sources.js";
import { goTo, link, linkToDocument } from "../route.js";
import { avatar, emptyState, errorState, icon, loading, stepFocus } from "../ui/elements.js";
import { formatNumber, plainText, shortTime } from "../ui/format.js";
import { notifyError } from "../ui/dialog.js";
import { html, nothing, redraw, repeat, rich, t } from "../ui/templates.js";
import { filterBar, isFiltered, linkToLibrary, readFilters, showTyped } from "./library/filters.js";

const FIRST = ["notes", "prompts"]; // the tabs before the others
const TABS = [...FIRST, ...sourceNames.filter((name) => SOURCES[name].library && !FIRST.includes(name))];

let name = "notes";
let filters = readFilters(new URLSearchParams());
/** @type {{documents: any[], total: number, number: number} | null} */
let page = null;
/** @type {any} */
let choices = null; // the values to filter by
/** @type {any} */
let error = null;
let counts = {};
let request = 0; // the number of the last request: answers to earlier ones are dropped
/** @type {any} */
let templatesTab = null; // the module of the tab of thread templates; it is loaded when the tab is opened

export const libraryView = {
  title: () => `${templatesTab ? t("Templates") : t(SOURCES[name].label)} · ${t("Library")}`,
  isInner: () => true,
  async enter({ parts: [wanted, action], query }) {
    templatesTab = wanted === "templates" ? await import("./library/templates.js") : null;
    if (templatesTab) return Promise.all([templatesTab.loadTemplates(), loadCounts()]);
    const next = findSource(wanted)?.library ? wanted : "notes";
    if (action === "new" && SOURCES[next].isWritten) return goTo(linkToNew(next), { replace: true });
    const before = filters;
    filters = readFilters(query);
    showTyped(filters.text);
    if (next !== name || filters.deleted !== before.deleted) page = choices = null;
    name = next;
    return load();
  },
  retry: () => error?.isOffline && load(),
  template: () => html`<main class="pane library">
    <header class="head"><div class="name"><h1>${t("Library")}</h1><p>${t(templatesTab ? templatesTab.ABOUT : (SOURCES[name].library?.about ?? ""))}</p></div>
      ${templatesTab ? templatesTab.createButton() : actions()}</header>
    <nav class="shelves" aria-label=${t("Sources")}>${TABS.map((tab) =>
      tabLink(tab, SOURCES[tab].icon, SOURCES[tab].label, !templatesTab && tab === name),
    )}${tabLink("templates", "template", "Templates", templatesTab !== null)}</nav>
    ${templatesTab ? nothing : filterBar({ name, filters, choices, total: page?.total })}
    <div class="scroll">${templatesTab ? templatesTab.templateList() : list()}</div>
  </main>`,
  key: (event) => stepFocus(event, ".cards a, .cards button"),
};

const tabLink = (
  path,
  iconName,
  label,
  isCurrent,
) => html`<a href=${link(["library", path])} aria-current=${isCurrent ? "page" : nothing}>
      ${icon(iconName)} ${t(label)} ${counts[path] ? html`<small>${formatNumber(counts[path])}</small>` : nothing}</a>`;

async function load() {
  const asked = ++request;
  const { page: number, ...filter } = filters;
  const path = `/api/library/${name}`;
  try {
    const answer = await get(
      withQuery(path, {
        ...filter,
        deleted: filter.deleted || undefined,
        choices: choices ? undefined : true,
        limit: LIBRARY_PAGE,
        offset: (number - 1) * LIBRARY_PAGE || undefined,
      }),
    );
    if (asked !== request) return;
    page = { ...answer, number };
    choices ??= answer.choices;
    error = null;
  } catch (problem) {
    if (asked !== request) return;
    error = problem;
  }
  redraw();
  return loadCounts();
}

const loadCounts = () =>
  get("/api/overview?days=1")
    .then((answer) => ((counts = answer.documents), redraw()))
    .catch(() => {});

// It is created when it is saved.
const linkToNew = (source) => link(["open", source, "new"], { edit: "new" });

async function restore(id) {
  const { restoreDocument } = await import("./library/trash.js");
  await restoreDocument(name, id);
  choices = null;
  await load();
}

const addFromAddress = async () => (await import("./library/web_page.js")).addFromAddress();

const createButton = () =>
  can("write") && SOURCES[name].isWritten
    ? html`<button type="button" class="main" @click=${() => goTo(linkToNew(name))}>${icon("plus")} ${t(`New ${SOURCES[name].singular.toLowerCase()}`)}
        ${documentDrafts.has(documentKey(name, "new")) ? html`<i class="tag warn">${t("Not saved")}</i>` : nothing}</button>`
    : nothing;

const addressButton = () =>
  html`<button type="button" @click=${() => addFromAddress().catch(notifyError)}>${icon("link")} ${t("Add from address")}</button>`;

const actions = () => html`${createButton()}
  ${name === "archive" ? html`<a class="button" href="#/import">${icon("import")} ${t("Import")}</a>` : nothing}
  ${name === "media" && can("write") ? addressButton() : nothing}`;

function list() {
  if (error) return errorState(error, load);
  if (!page) return loading();
  if (!page.documents.length) return empty();
  const { card } = /** @type {NonNullable<import("../data/sources.js").Source["library"]>} */ (SOURCES[name].library);
  return html`<ul class="cards">${repeat(
    page.documents,
    (one) => one.id,
    (one) => cardTemplate(one, card(one)),
  )}</ul>${pager()}`;
}

function empty() {
  const { library, label, icon: iconName } = SOURCES[name];
  if (filters.deleted && !isFiltered(filters))
    return emptyState("trash", "Nothing deleted", "Deleted documents are listed here. They can be restored.");
  if (page?.total || isFiltered(filters))
    return emptyState(
      "filter",
      "No document matches",
      "The filter looks at titles and tags. To look into the texts, search.",
      html`<a class="button" href=${link(["library", name], { deleted: filters.deleted ? "1" : "" })}>${t("Clear filters")}</a>`,
    );
  if (name === "archive")
    return emptyState(
      "archive",
      "No imported chats yet",
      "Import your chats from ChatGPT, Claude, Cursor and other tools to search them here.",
      html`<a class="button" href="#/import">${t("Import")}</a>`,
    );
  if (name === "sessions")
    return emptyState(
      "sessions",
      "No sessions yet",
      rich("{command} records the sessions of Claude Code and Codex while they run.", {
        command: html`<code>palaver watch</code>`,
      }),
    );
  return emptyState(iconName, t(`No ${label.toLowerCase()} yet`), library?.about, createButton());
}

function pager() {
  if (!page || page.total <= LIBRARY_PAGE) return nothing;
  const { total, number: current, documents } = page;
  const last = Math.ceil(total / LIBRARY_PAGE);
  const first = (current - 1) * LIBRARY_PAGE + 1;
  const step = (number, text, iconName) =>
    number < 1 || number > last
      ? html`<span class="button off">${icon(iconName)} ${t(text)}</span>`
      : html`<a class="button" href=${linkToLibrary(name, { ...filters, page: number })}>${icon(iconName)} ${t(text)}</a>`;
  return html`<nav class="pager" aria-label=${t("Pages")}>${step(current - 1, "Previous", "back")}
    <span>${t("{first}–{last} of {total}", {
      first: formatNumber(first),
      last: formatNumber(first + documents.length - 1),
      total: formatNumber(total),
    })}</span>
    ${step(current + 1, "Next", "forward")}</nav>`;
}

/** @type {(document: any, card: import("../data/sources.js").Card) => unknown} */
function cardTemplate(document, { id, title, text, kind, tags, when, avatar: avatarName, isAgent, loc }) {
  const shownTime = document.deleted_at ?? when;
  const content = html`<span class="title">${avatarName ? avatar(avatarName, { isAgent }) : icon(SOURCES[name].icon)} <b>${title || t("Untitled")}</b></span>
    ${text ? html`<span class="text">${plainText(text)}</span>` : nothing}
    <span class="foot">${documentDrafts.has(documentKey(name, id)) ? html`<i class="tag warn">${t("Not saved")}</i>` : nothing}${kind ? html`<span>${kind}</span>` : nothing}${(tags ?? []).slice(0, 3).map((tag) => html`<i class="tag">${tag}</i>`)}${shownTime ? html`<time datetime=${shownTime}>${document.deleted_at ? t("deleted {time}", { time: shortTime(shownTime) }) : shortTime(shownTime)}</time>` : nothing}</span>`;
  if (!document.deleted_at) return html`<li><a href=${linkToDocument(name, id, loc)}>${content}</a></li>`;
  return html`<li class="gone">${content}${
    can("write")
      ? html`<button type="button" @click=${() => restore(id).catch(notifyError)}>${icon("reply")} ${t("Restore")}<span class="hidden"> ${title}</span></button>`
      : nothing
  }</li>`;
}
