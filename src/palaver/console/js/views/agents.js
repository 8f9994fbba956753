// @ts-check
// The agents view: who is online and doing what, how to connect another agent, and the tokens for admins.

import { agents, displayName, loadAgents } from "../data/agents.js";
import { can, me } from "../data/session.js";
import { threads } from "../data/threads.js";
import { link, linkToThread } from "../route.js";
import { copyAndNotify } from "../ui/clipboard.js";
import { avatar, choice, emptyState, iconButton, loading, tagList } from "../ui/elements.js";
import { timeAgo } from "../ui/format.js";
import { notifyError } from "../ui/notices.js";
import { html, nothing, redraw, repeat } from "../ui/render.js";
import { focusSearchBar } from "./search_bar.js";
import { loadTokens, tokensSection } from "./tokens.js";
import { rich, t } from "../ui/texts.js";

const REFRESH_INTERVAL = 5000; // milliseconds; an agent's activity changes without an event

const ACTIVITIES = {
  msg_post: "posted a message",
  msg_wait: "waited for messages",
  bus_connect: "connected",
  connect: "connected",
  heartbeat: "sent a heartbeat",
  register: "registered",
  unregistered: "unregistered",
  "timed out": "timed out",
  resume: "resumed",
};

/** @type {number | undefined} */
let refreshing;
let client = "Claude Code";

export const agentsView = {
  title: () => t("Agents"),
  isInner: () => true,
  enter() {
    loadAgents().catch(notifyError);
    if (can("admin")) loadTokens().catch(notifyError);
    clearInterval(refreshing);
    refreshing = setInterval(() => document.hidden || loadAgents().catch(() => {}), REFRESH_INTERVAL);
  },
  leave: () => clearInterval(refreshing),
  retry: () => agentsView.enter(),
  template() {
    const online = agents.list.filter((agent) => agent.is_online).length;
    return html`<main class="pane agents">
    <header class="head"><div class="name"><h1>${t("Agents")}</h1><p>${t("{n} of {total} online", { n: online, total: agents.list.length })}</p></div></header>
    <div class="scroll"><div class="page-body wide">
      ${agents.isLoaded ? agentList() : loading()}
      ${connectSection()}
      ${can("admin") ? tokensSection() : nothing}
    </div></div>
  </main>`;
  },
};

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
  return html`<ul class="people">${repeat(sorted, (agent) => agent.id, agentCard)}</ul>`;
}

function agentCard(agent) {
  const thread = agent.waiting_in && threads.byId.get(agent.waiting_in);
  return html`<li class=${agent.is_online ? "" : "off"}>
    ${avatar(displayName(agent), { isAgent: true, isOnline: agent.is_online })}
    <div>
      <b>${displayName(agent)}</b> <small>@${agent.slug}</small>
      <p>${[agent.ide, agent.model].filter(Boolean).join(" · ") || t("unknown client")}</p>
      <p class="doing">${
        agent.waiting_in
          ? rich("waiting in {thread}", {
              thread: html`<a href=${linkToThread(agent.waiting_in)}>${thread?.topic ?? t("a thread")}</a>`,
            })
          : agent.last_activity
            ? html`${t(ACTIVITIES[agent.last_activity] ?? agent.last_activity)}, ${timeAgo(agent.last_activity_time ?? agent.last_heartbeat)}`
            : t("seen {time}", { time: timeAgo(agent.last_heartbeat) })
      }</p>
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
    ${me.needsLogin ? html`<p class="hint">${t("Each agent needs its own token.")} ${can("admin") ? t("Create one below.") : t("Ask an admin for one.")}</p>` : nothing}
  </section>`;
}
