// @ts-check
// The audit log, for admins: logins, tokens, denials, exports and deletions. It never contains message texts.

import { get, withQuery } from "../../data/api.js";
import { goTo, link, linkToThread } from "../../route.js";
import { avatar, choice, emptyState, errorState, icon, loading } from "../../ui/elements.js";
import { formatNumber, timeElement } from "../../ui/format.js";
import { html, nothing, redraw, rich, t } from "../../ui/templates.js";

const KINDS = [
  ["", "Everything"],
  ["login", "Logins"],
  ["logout", "Logouts"],
  ["token", "Tokens"],
  ["denied", "Denied"],
  ["export", "Exports"],
  ["deletion", "Deletions"],
  ["workspace", "Workspace"],
  ["upkeep", "Maintenance"],
];
const ACTIONS = { "POST /api/session": "failed login" };
const PAGE = 100;
const MAX_ENTRIES = 1000;

let kind = "";
let limit = PAGE;
/** @type {any[] | null} */
let entries = null;
/** @type {Error | null} */
let error = null;

export const auditLogView = {
  title: () => t("Audit log"),
  isInner: () => true,
  enter({ query }) {
    const wanted = query.get("kind") ?? "";
    if (wanted !== kind) (entries = null), (limit = PAGE);
    kind = wanted;
    return load();
  },
  retry: () => load(),
  template: () => html`<main class="pane log">
    <header class="head">
      <a class="quiet back always" href="#/administration" aria-label=${t("Back")}>${icon("back")}</a>
      <div class="name"><h1>${t("Audit log")}</h1><p>${t("Who did what and when, without message texts")}</p></div></header>
    <div class="narrow">${choice(t("Kind"), KINDS, kind, (wanted) => goTo(link("log", { kind: wanted }), { replace: true }))}</div>
    <div class="scroll"><div class="page-body wide">${table()}</div></div>
  </main>`,
};

async function load() {
  const wanted = kind;
  try {
    const found = await get(withQuery("/api/audit", { kind: wanted, limit }));
    if (wanted !== kind) return;
    entries = found;
    error = null;
  } catch (problem) {
    error = problem;
  }
  redraw();
}

function table() {
  if (error) return errorState(error, load);
  if (!entries) return loading();
  if (!entries.length) return emptyState("check", "No entries", kind ? "There are no entries of this kind." : nothing);
  const showMore = () => {
    limit = Math.min(limit + PAGE, MAX_ENTRIES);
    return load();
  };
  return html`<div class="wide-table" tabindex="0" role="region" aria-label=${t("Audit log")}><table>
      <thead><tr><th scope="col">${t("Time")}</th><th scope="col">${t("Who")}</th><th scope="col">${t("Action")}</th><th scope="col">${t("Details")}</th></tr></thead>
      <tbody>${entries.map(row)}</tbody></table></div>
    ${entries.length === limit && limit < MAX_ENTRIES ? html`<p class="more"><button type="button" @click=${showMore}>${t("Show more")}</button></p>` : nothing}
    ${entries.length === MAX_ENTRIES ? html`<p class="hint">${rich("These are the latest {n} entries. On the server, {command} shows all.", { n: formatNumber(MAX_ENTRIES), command: html`<code>palaver audit</code>` })}</p>` : nothing}`;
}

function row(entry) {
  const [, type, name, token] = entry.who.match(/^(human|agent) (.+) \(token (\S+)\)$/) ?? [];
  const who = name
    ? html`<span class="who" title=${t("token {id}", { id: token })}>${avatar(name, { isAgent: type === "agent" })} ${name}</span>`
    : entry.who;
  const details = Object.entries(entry.facts).map(
    ([label, value]) =>
      html`<span><small>${label.replaceAll("_", " ").replace(/ id$/, "")}</small> ${
        label === "thread_id" && typeof value === "string"
          ? html`<a href=${linkToThread(value)}><code>${value}</code></a>`
          : html`<code>${value}</code>`
      }</span>`,
  );
  return html`<tr data-kind=${entry.kind}><td>${timeElement(entry.at)}</td><td>${who}</td>
  <td><i class="tag">${entry.kind}</i> ${t(ACTIONS[entry.what] ?? "") || entry.what.replaceAll("_", " ")}</td><td class="facts-of">${details}</td></tr>`;
}
