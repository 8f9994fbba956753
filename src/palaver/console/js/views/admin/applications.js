// @ts-check
// Connected applications: programs that people let in with OAuth. Admins see those of everybody.

import { get, remove, url } from "../../data/api.js";
import { can, me } from "../../data/session.js";
import { confirmDialog } from "../../ui/dialog.js";
import { emptyState, errorState, loading } from "../../ui/elements.js";
import { shortTime, timeAgo } from "../../ui/format.js";
import { icon } from "../../ui/icons.js";
import { html, redraw, repeat } from "../../ui/render.js";
import { rich, t } from "../../ui/texts.js";

/** @type {any[] | null} */
let applications = null;
/** @type {Error | null} */
let error = null;

export const applicationsView = {
  title: () => t("Connected applications"),
  isInner: () => true,
  enter: () => load(),
  template: () => html`<main class="pane applications">
    <header class="head">
      <a class="quiet back always" href=${can("admin") ? "#/administration" : "#/threads"} aria-label=${t("Back")}>${icon("back")}</a>
      <div class="name"><h1>${t("Connected applications")}</h1><p>${t(can("admin") ? "Programs that people let in with OAuth" : "Programs that you let in with OAuth")}</p></div></header>
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
      rich("Give claude.ai, ChatGPT or another MCP client the address {address}. It sends you here to allow it.", {
        address: html`<code>${me.baseUrl}/mcp</code>`,
      }),
    );
  return html`<div class="wide-table tokens" tabindex="0" role="region" aria-label=${t("Connected applications")}><table>
    <thead><tr><th>${t("Application")}</th><th>${t("Person")}</th><th>${t("Permissions")}</th><th>${t("Connected")}</th><th>${t("Last used")}</th><th><span class="hidden">${t("Actions")}</span></th></tr></thead>
    <tbody>${repeat(
      applications,
      (one) => one.id,
      (one) => html`<tr><td>${icon("agents")} ${one.name}</td><td>${one.person}</td><td>${one.scopes.join(", ")}</td>
      <td data-name=${t("connected since")}>${shortTime(one.created_at)}</td>
      <td data-name=${t("last used")}>${one.last_used_at ? timeAgo(one.last_used_at) : t("never")}</td>
      <td><button type="button" class="bad" @click=${() => confirmRevoke(one)}>${t("Revoke")}</button></td></tr>`,
    )}</tbody></table></div>`;
}

const confirmRevoke = (one) =>
  confirmDialog(
    t("Revoke application"),
    t("The server will refuse {name} from now on. It can ask again.", { name: one.name }),
    "Revoke",
    async () => {
      await remove(url`/api/applications/${one.id}`);
      await load();
    },
  );
