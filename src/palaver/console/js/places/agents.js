// Agents: who is here, doing what, waiting where; how to connect another one; and, for those in charge, the keys.

import { at, get, post, remove } from "../api.js";
import {
  askWhether,
  choice,
  closeDialog,
  copy,
  empty,
  face,
  failed,
  icon,
  openDialog,
  shortTime,
  sinceWhen,
  tool,
  waiting,
} from "../parts.js";
import { loadAgents, people, shownName } from "../people.js";
import { link, toThread } from "../route.js";
import { may, me } from "../state.js";
import { threads } from "../threads.js";
import { html, nothing, redraw, repeat } from "../view.js";

const LOOK_EVERY = 5000;

let looking = null;
let client = "Claude Code";
let keys = null;
let workspaces = [];

export const agentsView = {
  title: () => "Agents",
  isInner: () => true,
  enter() {
    loadAgents().catch(failed);
    if (may("admin")) loadKeys().catch(failed);
    // Waiting and doing change without an event, and "a minute ago" grows old.
    clearInterval(looking);
    looking = setInterval(() => document.hidden || loadAgents().catch(() => {}), LOOK_EVERY);
  },
  leave: () => clearInterval(looking),
  template: () => html`<main class="pane agents">
    <header class="head"><div class="name"><h1>Agents</h1><p>${online()} online of ${people.agents.length}</p></div></header>
    <div class="scroll"><div class="page-body wide">
      ${people.isLoaded ? everyone() : waiting()}
      ${connecting()}
      ${may("admin") ? inCharge() : nothing}
    </div></div>
  </main>`,
};

const online = () => people.agents.filter((agent) => agent.is_online).length;

function everyone() {
  if (!people.agents.length)
    return empty(
      "agents",
      "No agent has come yet",
      "Connect one with the lines below, then tell it: “Connect to palaver, join the thread plans and wait for messages.”",
    );
  const sorted = [...people.agents].sort(
    (a, b) => b.is_online - a.is_online || (a.last_heartbeat < b.last_heartbeat ? 1 : -1),
  );
  return html`<ul class="people">${repeat(sorted, (agent) => agent.id, one)}</ul>`;
}

const DOING = {
  msg_post: "wrote a message",
  msg_wait: "waits for messages",
  bus_connect: "connected",
  connect: "connected",
  heartbeat: "gave a sign of life",
  register: "registered",
  unregistered: "left",
  "timed out": "fell silent",
  resume: "came back",
};

function one(agent) {
  const place = agent.waiting_in && threads.byId.get(agent.waiting_in);
  return html`<li class=${agent.is_online ? "" : "off"}>
    ${face(shownName(agent), { isAgent: true, isOnline: agent.is_online })}
    <div>
      <b>${shownName(agent)}</b> <small>@${agent.slug}</small>
      <p>${[agent.ide, agent.model].filter(Boolean).join(" · ") || "unknown client"}</p>
      <p class="doing">${
        agent.waiting_in
          ? html`waiting in <a href=${toThread(agent.waiting_in)}>${place?.topic ?? "a thread"}</a>`
          : agent.last_activity
            ? html`${DOING[agent.last_activity] ?? agent.last_activity}, ${sinceWhen(agent.last_activity_time ?? agent.last_heartbeat)}`
            : html`seen ${sinceWhen(agent.last_heartbeat)}`
      }</p>
      ${agent.description ? html`<p class="about">${agent.description}</p>` : nothing}
      ${agent.capabilities?.length ? html`<p class="tags">${agent.capabilities.slice(0, 8).map((tag) => html`<i class="tag">${tag}</i>`)}</p>` : nothing}
      <p><a href=${link("search", { author: shownName(agent), q: "" })}>Search what it said</a></p>
    </div>
  </li>`;
}

// Lines to copy. The token is only named: nobody's secret stands on a page.
function lines() {
  const url = `${me.baseUrl && !/127\.0\.0\.1|localhost/.test(location.host) ? me.baseUrl : location.origin}/mcp?tools=core`;
  const needs = me.needsLogin;
  const token = "YOUR_TOKEN";
  const header = needs ? `, "headers": {"Authorization": "Bearer ${token}"}` : "";
  return {
    "Claude Code": `claude mcp add --scope user --transport http palaver "${url}"${needs ? ` --header "Authorization: Bearer ${token}"` : ""}`,
    Cursor: `// ~/.cursor/mcp.json\n{"mcpServers": {"palaver": {"url": "${url}"${header}}}}`,
    "VS Code": `code --add-mcp '{"name": "palaver", "type": "http", "url": "${url}"${header}}'`,
    Codex: `codex mcp add palaver --url "${url}"${needs ? " --bearer-token-env-var PALAVER_TOKEN" : ""}`,
    "Gemini CLI": `gemini mcp add --scope user --transport http palaver "${url}"${needs ? ` --header "Authorization: Bearer ${token}"` : ""}`,
    opencode: `// ~/.config/opencode/opencode.json\n{"mcp": {"palaver": {"type": "remote", "url": "${url}"${header}}}}`,
    "Claude Desktop": `// claude_desktop_config.json\n{"mcpServers": {"palaver": {"command": "palaver", "args": ["mcp"]${needs ? `, "env": {"PALAVER_TOKEN": "${token}"}` : ""}}}}`,
    stdio: `${needs ? `PALAVER_TOKEN=${token} ` : ""}palaver mcp`,
    curl: `curl ${location.origin}/api/threads${needs ? ` -H "Authorization: Bearer ${token}"` : ""}`,
  };
}

const copyable = (text) => html`<figure class="copyable"><pre tabindex="0"><code>${text}</code></pre>
  ${tool("Copy", "copy", () => copy(text))}</figure>`;

function connecting() {
  const all = lines();
  return html`<section class="connect"><h2>Connect an agent</h2>
    ${choice(
      "Client",
      Object.keys(all).map((name) => [name, name]),
      client,
      (name) => ((client = name), redraw()),
    )}
    ${copyable(all[client])}
    ${me.needsLogin ? html`<p class="hint">Each agent gets a token of its own${may("admin") ? ": make one below." : "; ask somebody in charge for one."}</p>` : nothing}
  </section>`;
}

// For those in charge

async function loadKeys() {
  [keys, workspaces] = await Promise.all([get("/api/tokens"), get("/api/workspaces")]);
  redraw();
}

function inCharge() {
  return html`<section class="keys-of"><header><h2>Tokens</h2><span><a class="button" href="#/log">${icon("clock")} What was done</a>
      <button type="button" @click=${newToken}>${icon("key")} New token</button></span></header>
      ${
        keys === null
          ? waiting()
          : keys.length
            ? html`<div class="wide-table tokens" tabindex="0"><table><thead><tr><th>For</th><th>May</th><th>Made</th><th>Last used</th><th><span class="hidden">Actions</span></th></tr></thead>
        <tbody>${repeat(
          keys,
          (token) => token.id,
          (
            token,
          ) => html`<tr><td>${icon(token.kind === "agent" ? "agents" : "person")} ${token.name}</td><td>${token.scopes.join(", ")}</td><td data-name="made">${shortTime(token.created_at)}</td>
          <td data-name="last used">${token.last_used_at ? sinceWhen(token.last_used_at) : "never"}</td><td><button type="button" class="bad" @click=${() => revoke(token)}>Revoke</button></td></tr>`,
        )}</tbody></table></div>`
            : html`<p class="hint">${me.needsLogin ? "No tokens yet." : "Nobody needs one on this machine. Make tokens before others can reach the server."}</p>`
      }
    </section>
    <section class="keys-of"><header><h2>Workspaces</h2></header>
      <p class="tags">${workspaces.map((name) => html`<i class="tag">${name}${name === me.workspace ? " (here)" : ""}</i>`)}</p>
      <p class="hint">A workspace is a world of its own. New ones are made where the server runs: <code>palaver workspace create NAME</code></p></section>`;
}

function newToken() {
  let secret = null;
  const make = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    try {
      const body = { kind: given.get("kind"), name: given.get("name").trim(), scopes: given.getAll("scope") };
      if (given.get("days")) body.days = Number(given.get("days"));
      secret = (await post("/api/tokens", body)).secret;
      redraw();
      await loadKeys();
    } catch (problem) {
      failed(problem);
    }
  };
  openDialog("New token", () =>
    secret
      ? html`<p>This is shown once. Keep it where it is safe.</p><figure class="copyable"><pre tabindex="0"><code>${secret}</code></pre>
        <button type="button" class="quiet" aria-label="Copy" @click=${() => copy(secret)}>${icon("copy")}</button></figure>
        <footer><button type="button" class="main" @click=${closeDialog}>Done</button></footer>`
      : html`<form class="sheet" @submit=${make}>
        <label>For <select name="kind"><option value="agent">an agent</option><option value="human">a person</option></select></label>
        <label>Name <input name="name" required maxlength="200" autocomplete="off" autofocus /></label>
        <fieldset><legend>May</legend>${["read", "write", "admin"].map((scope) => html`<label class="check"><input type="checkbox" name="scope" value=${scope} ?checked=${scope !== "admin"} /> ${scope}</label>`)}</fieldset>
        <label>Runs out after, in days (empty: never) <input name="days" type="number" min="1" max="36500" /></label>
        <footer><button type="button" @click=${closeDialog}>Cancel</button><button class="main">Make</button></footer></form>`,
  );
}

const revoke = (token) =>
  askWhether("Revoke token", `${token.name} will be refused from the next request on.`, "Revoke", async () => {
    await remove(at`/api/tokens/${token.id}`);
    await loadKeys();
  });
