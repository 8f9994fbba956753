// @ts-check
// Connected applications: programs that people let in with OAuth. Admins see those of everybody.

import { can, me } from "../../data/session.js";
import { emptyState, icon } from "../../ui/elements.js";
import { shortTime, timeAgo } from "../../ui/format.js";
import { accessTable, LoadedList } from "../loaded_list.js";
import { html, rich, t } from "../../ui/templates.js";

const applications = new LoadedList("/api/applications");

export const applicationsView = {
  title: () => t("Connected applications"),
  isInner: () => true,
  enter: applications.load,
  template: () => html`<main class="pane applications">
    <header class="head">
      <a class="quiet back always" href=${can("admin") ? "#/administration" : "#/threads"} aria-label=${t("Back")}>${icon("back")}</a>
      <div class="name"><h1>${t("Connected applications")}</h1><p>${t(can("admin") ? "Programs that people let in with OAuth" : "Programs that you let in with OAuth")}</p></div></header>
    <div class="scroll"><div class="page-body wide">${applications.template(table)}</div></div>
  </main>`,
};

function table(all) {
  if (!all.length)
    return emptyState(
      "key",
      "No applications yet",
      rich("Give claude.ai, ChatGPT or another MCP client the address {address}. It sends you here to allow it.", {
        address: html`<code>${me.baseUrl}/mcp</code>`,
      }),
    );
  return accessTable(
    t("Connected applications"),
    [t("Application"), t("Person"), t("Permissions"), t("Connected"), t("Last used")],
    all,
    (one) => html`<td>${icon("agents")} ${one.name}</td><td>${one.person}</td><td>${one.scopes.join(", ")}</td>
      <td data-name=${t("connected since")}>${shortTime(one.created_at)}</td>
      <td data-name=${t("last used")}>${one.last_used_at ? timeAgo(one.last_used_at) : t("never")}</td>`,
    confirmRevoke,
  );
}

const confirmRevoke = (one) =>
  applications.confirmRemove(one, {
    title: t("Revoke application"),
    text: t("The server will refuse {name} from now on. It can ask again.", { name: one.name }),
    action: "Revoke",
  });
