// @ts-check
// Tokens and workspaces, for admins. They are part of the agents view.

import { get, post, remove, url } from "../data/api.js";
import { me } from "../data/session.js";
import { copyAndNotify } from "../ui/clipboard.js";
import { closeDialog, confirmDialog, openDialog } from "../ui/dialog.js";
import { iconButton, loading, tagList } from "../ui/elements.js";
import { shortTime, timeAgo } from "../ui/format.js";
import { icon } from "../ui/icons.js";
import { notifyError } from "../ui/notices.js";
import { html, redraw, repeat } from "../ui/render.js";

const SCOPES = ["read", "write", "admin"];

/** @type {any[] | null} */
let tokens = null;
let workspaces = [];

export async function loadTokens() {
  [tokens, workspaces] = await Promise.all([get("/api/tokens"), get("/api/workspaces")]);
  redraw();
}

export function tokensSection() {
  return html`<section class="keys-of"><header><h2>Tokens</h2><span><a class="button" href="#/log">${icon("clock")} Audit log</a>
      <button type="button" @click=${showNewToken}>${icon("key")} New token</button></span></header>
      ${tokenTable()}
    </section>
    <section class="keys-of"><header><h2>Workspaces</h2></header>
      ${tagList(workspaces.map((name) => (name === me.workspace ? `${name} (this one)` : name)))}
      <p class="hint">Workspaces share no data. Create one on the server: <code>palaver workspace create NAME</code></p></section>`;
}

function tokenTable() {
  if (tokens === null) return loading();
  if (!tokens.length) {
    const hint = "This machine needs no tokens. Create tokens before others can reach the server.";
    return html`<p class="hint">${me.needsLogin ? "No tokens yet." : hint}</p>`;
  }
  return html`<div class="wide-table tokens" tabindex="0"><table>
    <thead><tr><th>Name</th><th>Permissions</th><th>Created</th><th>Last used</th><th><span class="hidden">Actions</span></th></tr></thead>
    <tbody>${repeat(
      tokens,
      (token) => token.id,
      (token) => html`<tr><td>${icon(token.kind === "agent" ? "agents" : "person")} ${token.name}</td>
      <td>${token.scopes.join(", ")}</td><td data-name="created">${shortTime(token.created_at)}</td>
      <td data-name="last used">${token.last_used_at ? timeAgo(token.last_used_at) : "never"}</td>
      <td><button type="button" class="bad" @click=${() => confirmRevoke(token)}>Revoke</button></td></tr>`,
    )}</tbody></table></div>`;
}

function showNewToken() {
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
      await loadTokens();
    } catch (error) {
      notifyError(error);
    }
  };
  openDialog("New token", () =>
    secret
      ? html`<p>This token is shown once. Store it in a safe place.</p><figure class="copyable"><pre tabindex="0"><code>${secret}</code></pre>
        ${iconButton("Copy", "copy", () => copyAndNotify(secret))}</figure>
        <footer><button type="button" class="main" @click=${closeDialog}>Done</button></footer>`
      : html`<form class="sheet" @submit=${create}>
        <label>For <select name="kind"><option value="agent">an agent</option><option value="human">a person</option></select></label>
        <label>Name <input name="name" required maxlength="200" autocomplete="off" autofocus /></label>
        <fieldset><legend>Permissions</legend>${SCOPES.map((scope) => html`<label class="check"><input type="checkbox" name="scope" value=${scope} ?checked=${scope !== "admin"} /> ${scope}</label>`)}</fieldset>
        <label>Expires after days (empty: never) <input name="days" type="number" min="1" max="36500" /></label>
        <footer><button type="button" @click=${closeDialog}>Cancel</button><button class="main">Create</button></footer></form>`,
  );
}

const confirmRevoke = (token) =>
  confirmDialog("Revoke token", `The server will refuse ${token.name} from now on.`, "Revoke", async () => {
    await remove(url`/api/tokens/${token.id}`);
    await loadTokens();
  });
