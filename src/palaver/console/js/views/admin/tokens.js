// @ts-check
// Tokens of people and agents, and workspaces, for admins.

import { post } from "../../data/api.js";
import { me } from "../../data/session.js";
import { copyAndNotify } from "../../ui/clipboard.js";
import { closeDialog, notifyError, openDialog } from "../../ui/dialog.js";
import { icon, iconButton, tagList } from "../../ui/elements.js";
import { shortTime, timeAgo } from "../../ui/format.js";
import { accessTable, LoadedList } from "../loaded_list.js";
import { html, redraw, t } from "../../ui/templates.js";

const SCOPES = ["read", "write", "admin"];

const tokens = new LoadedList("/api/tokens");
const workspaces = new LoadedList("/api/workspaces");

export const loadTokens = () => Promise.all([tokens.load(), workspaces.load()]);

export function tokensSection() {
  return html`<section class="keys-of"><header><h2>${t("People and agents with a token")}</h2><button type="button" @click=${showNewToken}>${icon("key")} ${t("New token")}</button></header>
      ${tokens.template(tokenTable)}
    </section>
    <section class="keys-of"><header><h2>${t("Workspaces")}</h2></header>
      ${workspaces.template((names) => tagList(names.map((name) => (name === me.workspace ? t("{name} (this one)", { name }) : name))))}
      <p class="hint">${t("Workspaces share no data. Create one on the server:")} <code>palaver workspace create NAME</code></p></section>`;
}

function tokenTable(all) {
  if (!all.length) {
    const hint = t("This machine needs no tokens. Create tokens before others can reach the server.");
    return html`<p class="hint">${me.needsLogin ? t("No tokens yet.") : hint}</p>`;
  }
  return accessTable(
    t("People and agents with a token"),
    [t("Name"), t("Permissions"), t("Created"), t("Last used"), t("Expires")],
    all,
    (token) => html`<td>${icon(token.kind === "agent" ? "agents" : "person")} ${token.name}</td>
      <td>${token.scopes.join(", ")}</td><td data-name=${t("created")}>${shortTime(token.created_at)}</td>
      <td data-name=${t("last used")}>${token.last_used_at ? timeAgo(token.last_used_at) : t("never")}</td>
      <td data-name=${t("expires")}>${token.expires_at ? shortTime(token.expires_at) : t("never")}</td>`,
    confirmRevoke,
  );
}

export function showNewToken() {
  let secret = null;
  const create = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const days = form.get("days");
    try {
      const { secret: created } = await post("/api/tokens", {
        kind: form.get("kind"),
        name: String(form.get("name")).trim(),
        scopes: form.getAll("scope"),
        days: days ? Number(days) : undefined,
      });
      secret = created;
      redraw();
      await tokens.load();
    } catch (error) {
      notifyError(error);
    }
  };
  openDialog(t("New token"), () =>
    secret
      ? html`<p>${t("This token is shown once. Store it in a safe place.")}</p><figure class="copyable"><pre tabindex="0"><code>${secret}</code></pre>
        ${iconButton(t("Copy"), "copy", () => copyAndNotify(secret))}</figure>
        <footer><button type="button" class="main" @click=${closeDialog}>${t("Done")}</button></footer>`
      : html`<form class="sheet" @submit=${create}>
        <label>${t("For")} <select name="kind"><option value="agent">${t("an agent")}</option><option value="human">${t("a person")}</option></select></label>
        <label>${t("Name")} <input name="name" required maxlength="200" autocomplete="off" autofocus /></label>
        <fieldset><legend>${t("Permissions")}</legend>${SCOPES.map((scope) => html`<label class="check"><input type="checkbox" name="scope" value=${scope} ?checked=${scope !== "admin"} /> ${scope}</label>`)}</fieldset>
        <label>${t("Expires after days (empty: never)")} <input name="days" type="number" min="1" max="36500" /></label>
        <footer><button type="button" @click=${closeDialog}>${t("Cancel")}</button><button class="main">${t("Create")}</button></footer></form>`,
  );
}

const confirmRevoke = (token) =>
  tokens.confirmRemove(token, {
    title: t("Revoke token"),
    text: t("The server will refuse {name} from now on.", { name: token.name }),
    action: "Revoke",
  });
