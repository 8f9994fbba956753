// What was done: logins, tokens, denials, exports, deletions; for those in charge. Never what was said.

import { get, withQuery } from "../api.js";
import { choice, count, empty, face, icon, time, trouble, waiting } from "../parts.js";
import { go, link, toThread } from "../route.js";
import { may } from "../state.js";
import { html, nothing, redraw } from "../view.js";

const KINDS = [
  ["", "Everything"],
  ["login", "Logins"],
  ["logout", "Logouts"],
  ["token", "Tokens"],
  ["denied", "Denied"],
  ["export", "Exports"],
  ["deletion", "Deletions"],
  ["workspace", "Workspace"],
  ["upkeep", "Upkeep"],
];
const PAGE = 100;
const MOST = 1000;

let kind = "";
let limit = PAGE;
let deeds = null;
let problem = null;

export const logView = {
  title: () => "What was done",
  isInner: () => true,
  enter({ query }) {
    const wanted = query.get("kind") ?? "";
    if (wanted !== kind) ((deeds = null), (limit = PAGE));
    kind = wanted;
    return load();
  },
  template: () => html`<main class="pane log">
    <header class="head">
      <a class="quiet back always" href="#/agents" aria-label="Back to the agents">${icon("back")}</a>
      <div class="name"><h1>What was done</h1><p>By whom, to what and when; never what was said</p></div></header>
    <div class="narrow">${choice("Which", KINDS, kind, (name) => go(link("log", { kind: name }), { replace: true }))}</div>
    <div class="scroll"><div class="page-body wide">${body()}</div></div>
  </main>`,
};

async function load() {
  if (!may("admin")) return redraw();
  const wanted = kind;
  try {
    const found = await get(withQuery("/api/audit", { kind: wanted, limit }));
    if (wanted !== kind) return;
    deeds = found;
    problem = null;
  } catch (wrong) {
    problem = wrong;
  }
  redraw();
}

function more() {
  limit = Math.min(limit + PAGE, MOST);
  return load();
}

function body() {
  if (!may("admin"))
    return empty("lock", "For those in charge", "A token with the admin scope of this workspace opens the log.");
  if (problem) return trouble(problem, load);
  if (!deeds) return waiting();
  if (!deeds.length)
    return empty(
      "check",
      "Nothing to show",
      kind ? "Nothing of this kind was done here." : "Nothing was done here yet.",
    );
  return html`<div class="wide-table" tabindex="0" role="region" aria-label="What was done"><table>
      <thead><tr><th scope="col">When</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">To what</th></tr></thead>
      <tbody>${deeds.map(row)}</tbody></table></div>
    ${deeds.length === limit && limit < MOST ? html`<p class="more"><button type="button" @click=${more}>More</button></p>` : nothing}
    ${limit === MOST && deeds.length === MOST ? html`<p class="hint">The latest ${count(MOST)}. Where the data is, <code>palaver audit</code> shows them all.</p>` : nothing}`;
}

const row = (deed) => html`<tr data-kind=${deed.kind}>
  <td>${time(deed.at)}</td><td>${person(deed.who)}</td>
  <td><i class="tag">${deed.kind}</i> ${deed.what.replaceAll("_", " ")}</td>
  <td class="facts-of">${Object.entries(deed.facts).map(fact)}</td></tr>`;

function person(who) {
  const [, sort, name, token] = who.match(/^(human|agent) (.+) \(token (\S+)\)$/) ?? [];
  if (!name) return who;
  return html`<span class="who" title="token ${token}">${face(name, { isAgent: sort === "agent" })} ${name}</span>`;
}

const fact = ([name, value]) => html`<span><small>${name.replaceAll("_", " ").replace(/ id$/, "")}</small> ${
  name === "thread_id" && typeof value === "string"
    ? html`<a href=${toThread(value)}><code>${value}</code></a>`
    : html`<code>${value}</code>`
}</span>`;
