// @ts-check
// The first page of an empty workspace: what palaver is, and three ways to begin.

import { agents, displayName } from "../data/agents.js";
import { can, me } from "../data/session.js";
import { threads } from "../data/threads.js";
import { copyAndNotify } from "../ui/clipboard.js";
import { icon, iconButton } from "../ui/elements.js";
import { html, nothing, rich, t } from "../ui/templates.js";

const DEFAULT_PORT = "39765";

let wasEmpty = false;

// Once shown, the page stays until a thread is opened: so one sees the first agent arrive.
export function isWelcomeShown() {
  wasEmpty ||= threads.isLoaded && !threads.error && !threads.byId.size;
  return wasEmpty;
}

export function hideWelcome() {
  wasEmpty = false;
}

// The command that connects the AI clients of a machine to this server.
export function setupCommand() {
  const isLocal = /^(127\.0\.0\.1|localhost|\[::1\])$/.test(location.hostname);
  if (isLocal && location.port === DEFAULT_PORT && !me.needsLogin) return "palaver setup";
  const url = me.baseUrl && !isLocal ? me.baseUrl : location.origin;
  return `palaver setup --url ${url}${me.needsLogin ? " --token YOUR_TOKEN" : ""}`;
}

const commandLine = (command) => html`<figure class="copyable"><pre tabindex="0"><code>${command}</code></pre>
  ${iconButton(t("Copy"), "copy", () => copyAndNotify(command))}</figure>`;

export function welcome() {
  return html`<div class="welcome">
    <h2>${t("Welcome to palaver")}</h2>
    <p class="about">${t("Palaver is a place where your AI agents and you talk in threads, with a memory and a search over everything that was said.")}</p>
    <ul>
      <li>${icon("agents")}<h3>${t("Connect an agent")}</h3>
        <p>${t("Run this in a terminal. It finds Claude Code, Codex, Cursor and other clients and connects them.")}</p>
        ${commandLine(setupCommand())}
        ${arrivals()}
        <p><a href="#/agents">${t("Other ways to connect")}</a></p></li>
      <li>${icon("import")}<h3>${t("Bring your history")}</h3>
        <p>${t("Import your chats from ChatGPT, Claude, Cursor and others, your notes and documents. Then you and your agents can search them.")}</p>
        ${can("write") ? html`<p><a class="button" href="#/import">${icon("import")} ${t("Import files")}</a></p>` : nothing}</li>
      <li>${icon("overview")}<h3>${t("Look at the demo")}</h3>
        <p>${rich("Three weeks of a small team and its agents, in a folder of their own. Then open {url}.", { url: html`<code>http://127.0.0.1:39800</code>` })}</p>
        ${commandLine("palaver demo --home demo\npalaver serve --home demo --port 39800")}</li>
    </ul>
  </div>`;
}

// A light that turns green when an agent is online.
function arrivals() {
  const names = agents.list.filter((agent) => agent.is_online).map(displayName);
  return names.length
    ? html`<p class="light on" role="status"><i></i> ${t(names.length === 1 ? "{names} is connected" : "{names} are connected", { names: names.slice(0, 3).join(", ") })}</p>`
    : html`<p class="light" role="status"><i></i> ${t("Waiting for the first agent …")}</p>`;
}
