// @ts-check
// The strip below the header of a thread, in one row: which of its agents listen, and what the others work on and for how
// long. The rest are behind a number. A click mentions the agent.

import { agents, displayName } from "../../data/agents.js";
import { workOf } from "../../data/agent_work.js";
import { avatar } from "../../ui/elements.js";
import { formatNumber, projectName, timeAgo, timeSince } from "../../ui/format.js";
import { html, nothing, redraw, repeat, t } from "../../ui/templates.js";

const SILENT_AFTER = 10 * 60 * 1000; // milliseconds without activity
const ORDER = ["listens", "works", "silent"];
const SHOWN = 4; // agents of a closed strip, and one at least

/** @type {string | null} */
let openIn = null; // the thread whose strip shows all agents

// The agents of a thread: those who wait in it, and those who took part.
function agentsOf(threadId, participants) {
  const names = new Set(participants.map((name) => name.toLowerCase()));
  return agents.list.filter(
    (agent) =>
      agent.waiting_in === threadId ||
      [agent.name, agent.display_name, agent.slug].some((name) => name && names.has(name.toLowerCase())),
  );
}

const lastSeen = (agent) => agent.last_activity_time ?? agent.last_heartbeat;

function stateOf(agent, threadId) {
  if (agent.is_online && agent.waiting_in === threadId) return "listens";
  if (workOf(agent)) return "works";
  const isRecent = Date.now() - new Date(lastSeen(agent)).getTime() < SILENT_AFTER;
  return agent.is_online && isRecent ? "works" : "silent";
}

function stateText(agent, state, threadId, topicOf) {
  if (state === "listens") return t("listens");
  if (state === "silent") return t("seen {time}", { time: timeAgo(lastSeen(agent)) });
  const work = workOf(agent);
  if (work) return t("works for {time} on {title}", { title: workTitle(work), time: timeSince(work.since) });
  const place = agent.waiting_in && agent.waiting_in !== threadId ? topicOf(agent.waiting_in) : null;
  if (place) return t("listens in {topic}", { topic: place });
  const time = timeAgo(lastSeen(agent));
  return agent.project
    ? t("active {time} in {project}", { time, project: projectName(agent.project) })
    : t("active {time}", { time });
}

// The title of the session, and its project.
const workTitle = ({ title, project }) => {
  const shown = `“${title}”`;
  return project ? `${shown} (${projectName(project)})` : shown;
};

// `mention` gets the agent that was clicked; without it the agents are only shown.
export function agentStrip(threadId, participants, topicOf, mention) {
  const found = agentsOf(threadId, participants)
    .map((agent) => ({ agent, state: stateOf(agent, threadId) }))
    .sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  if (!found.length) return nothing;
  const isOpen = openIn === threadId;
  const active = found.filter(({ state }) => state !== "silent").length;
  const shown = isOpen ? found : found.slice(0, Math.max(1, Math.min(active, SHOWN)));
  const toggle = () => ((openIn = isOpen ? null : threadId), redraw());
  const label = isOpen ? t("Show fewer") : t("Show all {n} agents", { n: formatNumber(found.length) });
  const sign = isOpen ? "−" : `+${found.length - shown.length}`;
  return html`<ul class="strip ${isOpen ? "open" : ""}" aria-label=${t("Agents in this thread")}>${repeat(
    shown,
    ({ agent }) => agent.id,
    ({ agent, state }) => {
      const text = stateText(agent, state, threadId, topicOf);
      return html`<li><button type="button" data-state=${state} ?disabled=${!mention} title="${displayName(agent)} ${text}. ${t("Mention {name}", { name: displayName(agent) })}"
      @click=${() => mention?.(agent)}>${avatar(displayName(agent), { isAgent: true, isOnline: agent.is_online })}
      <b>${displayName(agent)}</b> <small>${text}</small></button></li>`;
    },
  )}${
    isOpen || shown.length < found.length
      ? html`<li class="rest"><button type="button" aria-expanded=${isOpen} aria-label="${sign} ${label}" title=${label} @click=${toggle}>${sign}</button></li>`
      : nothing
  }</ul>`;
}
