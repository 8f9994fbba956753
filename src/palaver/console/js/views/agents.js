// @ts-check
// The agents view: who is online and doing what, and how to connect another agent. At #/agents/{slug} one agent.

import { agents, displayName, loadAgents } from "../data/agents.js";
import { loadWork } from "../data/agent_work.js";
import { can, me } from "../data/session.js";
import { link, parseRoute } from "../route.js";
import { copyAndNotify } from "../ui/clipboard.js";
import { avatar, choice, emptyState, icon, iconButton, loading, tagList } from "../ui/elements.js";
import { notifyError } from "../ui/dialog.js";
import { formatNumber } from "../ui/format.js";
import { html, nothing, redraw, repeat, t } from "../ui/templates.js";
import { focusSearchBar } from "./search_bar.js";
import { activityOf } from "./agents/activity.js";
import { claimList, loadClaims } from "./agents/claim_list.js";

const REFRESH_INTERVAL = 5000; // milliseconds; an agent's activity changes without an event
const SHOWN_FOR = 7 * 864e5; // milliseconds without activity, after which an agent is behind "Show all"

/** @type {number | undefined} */
let refreshing;
let client = "Claude Code";
let isAllShown = false;

/** @type {typeof import("./agents/agent_page.js") | null} */
let agentModule = null; // the code of the page of one agent, while one is open

export const agentsView = {
  title: () => (agentModule ? agentModule.agentTitle() : t("Agents")),
  isInner: () => true,
  /** @param {{parts: string[]}} route */
  async enter({ parts: [slug] }) {
    clearInterval(refreshing);
    refreshing = setInterval(() => document.hidden || loadActivity().catch(() => {}), REFRESH_INTERVAL);
    loadActivity().catch(notifyError);
    agentModule = slug ? await import("./agents/agent_page.js") : null;
    await agentModule?.enterAgent(slug);
  },
  leave: () => clearInterval(refreshing),
  retry: () => agentsView.enter(parseRoute()),
  template: () => html`<main class="pane agents">${agentModule ? agentModule.agentPage() : everyone()}</main>`,
};

const loadActivity = () => Promise.all([loadAgents(), loadWork(), loadClaims()]);

function everyone() {
  const online = agents.list.filter((agent) => agent.is_online).length;
  return html`<header class="head"><div class="name"><h1>${t("Agents")}</h1><p>${t("{n} of {total} online", { n: online, total: agents.list.length })}</p></div>
      ${can("admin") ? html`<a class="button" href="#/administration">${icon("key")} ${t("Administration")}</a>` : nothing}</header>
    <div class="scroll"><div class="page-body wide">
      ${agents.isLoaded ? agentList() : loading()}
      ${claimList()}
      ${connectSection()}
    </div></div>`;
}

function agentList() {
  if (!agents.list.length)
    return emptyState(
      "agents",
      "No agents yet",
      "Connect one with a command below. Then tell it: “Connect to palaver, join the thread plans and wait for messages.”",
    );
  const sorted = [...agents.list].sort(
    (a, b) => Number(b.is_online) - Number(a.is_online) || (a.last_heartbeat < b.last_heartbeat ? 1 : -1),
  );
  const isCurrent = (agent) => agent.is_online || Date.now() - new Date(agent.last_heartbeat).getTime() < SHOWN_FOR;
  const shown = isAllShown ? sorted : sorted.filter(isCurrent);
  const showAll = () => ((isAllShown = true), redraw());
  return html`<ul class="people">${repeat(shown, (agent) => agent.id, agentCard)}</ul>
    ${shown.length < sorted.length ? html`<p class="more"><button type="button" @click=${showAll}>${t("Show all {n} agents", { n: formatNumber(sorted.length) })}</button></p>` : nothing}`;
}

function agentCard(agent) {
  return html`<li class=${agent.is_online ? "" : "off"}>
    ${avatar(displayName(agent), { isAgent: true, isOnline: agent.is_online })}
    <div>
      <a class="name" href=${link(["agents", agent.slug])}>${displayName(agent)}</a> <small>@${agent.slug}</small>
      <p>${[agent.ide, agent.model].filter(Boolean).join(" · ") || t("unknown client")}</p>
      <p class="doing">${activityOf(agent)}</p>
      ${agent.description ? html`<p class="about">${agent.description}</p>` : nothing}
      ${tagList(agent.capabilities?.slice(0, 8))}
      <p><a href=${link("search", { author: displayName(agent) })} @click=${() => setTimeout(focusSearchBar)}>${t("Search its messages")}</a></p>
    </div>
  </li>`;
}

// The command or configuration of each client. It contains a placeholder, never a real token.
function clientCommands() {
  const isLocal = /127\.0\.0\.1|localhost/.test(location.host);
  const url = `${me.baseUrl && !isLocal ? me.baseUrl : location.origin}/mcp?tools=core`;
  const bearer = "Authorization: Bearer YOUR_TOKEN";
  const needsToken = me.needsLogin;
  const option = needsToken ? ` --header "${bearer}"` : "";
  const headers = needsToken ? `, "headers": {"Authorization": "Bearer YOUR_TOKEN"}` : "";
  return {
    "Claude Code": `claude mcp add --scope user --transport http palaver "${url}"${option}`,
    Cursor: `// ~/.cursor/mcp.json\n{"mcpServers": {"palaver": {"url": "${url}"${headers}}}}`,
    "VS Code": `code --add-mcp '{"name": "palaver", "type": "http", "url": "${url}"${headers}}'`,
    Codex: `codex mcp add palaver --url "${url}"${needsToken ? " --bearer-token-env-var PALAVER_TOKEN" : ""}`,
    "Gemini CLI": `gemini mcp add --scope user --transport http palaver "${url}"${option}`,
    opencode: `// ~/.config/opencode/opencode.json\n{"mcp": {"palaver": {"type": "remote", "url": "${url}"${headers}}}}`,
    "Claude Desktop": `// claude_desktop_config.json\n{"mcpServers": {"palaver": {"command": "palaver", "args": ["mcp"]${needsToken ? `, "env": {"PALAVER_TOKEN": "YOUR_TOKEN"}` : ""}}}}`,
    stdio: `${needsToken ? "PALAVER_TOKEN=YOUR_TOKEN " : ""}palaver mcp`,
    curl: `curl ${location.origin}/api/threads${needsToken ? ` -H "${bearer}"` : ""}`,
  };
}

function connectSection() {
  const commands = clientCommands();
  const clients = Object.keys(commands).map((name) => [name, name]);
  return html`<section class="connect"><h2>${t("Connect an agent")}</h2>
    ${choice(t("Client"), clients, client, (name) => ((client = name), redraw()))}
    <figure class="copyable"><pre tabindex="0"><code>${commands[client]}</code></pre>
      ${iconButton(t("Copy"), "copy", () => copyAndNotify(commands[client]))}</figure>
    ${me.needsLogin ? html`<p class="hint">${t("Each agent needs its own token.")} ${can("admin") ? html`<a href="#/administration">${t("Create one.")}</a>` : t("Ask an admin for one.")}</p>` : nothing}
  </section>`;
}
