// @ts-check
// Connected applications: programs that people let in with OAuth. Admins see those of everybody.

import { get, remove, url } from "../data/api.js";
import { can, me } from "../data/session.js";
import { confirmDialog } from "../ui/dialog.js";
import { emptyState, errorState, loading } from "../ui/elements.js";
import { shortTime, timeAgo } from "../ui/format.js";
import { icon } from "../ui/icons.js";
import { html, redraw, repeat } from "../ui/render.js";

/** @type {any[] | null} */
let applications = null;
/** @type {Error | null} */
let error = null;

export const applicationsView = {
  title: () => "Connected applications",
  isInner: () => true,
  enter: () => load(),
  template: () => html`<main class="pane applications">
    <header class="head">
      <a class="quiet back always" href="#/agents" aria-label="Back to agents">${icon("back")}</a>
      <div class="name"><h1>Connected applications</h1><p>Programs that ${can("admin") ? "people" : "you"} let in with OAuth</p></div></header>
    <div class="scroll"><div class="page-body wide">${table()}</div></div>
  </main>`,
};

async function load() {
  try {
    applications = await get("/api/applications");
    error = null;
  } catch (problem) {
    error = problem;
  }
  redraw();
}

function table() {
  if (error) return errorState(error, load);
  if (!applications) return loading();
  if (!applications.length)
    return emptyState(
      "key",
      "No applications yet",
      html`Give claude.ai, ChatGPT or another MCP client the address <code>${me.baseUrl}/mcp</code>. It sends you here to allow it.`,
    );
  return html`<div class="wide-table tokens" tabindex="0" role="region" aria-label="Connected applications"><table>
    <thead><tr><th>Application</th><th>Person</th><th>Permissions</th><th>Connected</th><th>Last used</th><th><span class="hidden">Actions</span></th></tr></thead>
    <tbody>${repeat(
      applications,
      (one) => one.id,
      (one) => html`<tr><td>${icon("agents")} ${one.name}</td><td>${one.person}</td><td>${one.scopes.join(", ")}</td>
      <td data-name="connected">${shortTime(one.created_at)}</td>
      <td data-name="last used">${one.last_used_at ? timeAgo(one.last_used_at) : "never"}</td>
      <td><button type="button" class="bad" @click=${() => confirmRevoke(one)}>Revoke</button></td></tr>`,
    )}</tbody></table></div>`;
}

const confirmRevoke = (one) =>
  confirmDialog(
    "Revoke application",
    `The server will refuse ${one.name} from now on. It can ask again.`,
    "Revoke",
    async () => {
      await remove(url`/api/applications/${one.id}`);
      await load();
    },
  );
