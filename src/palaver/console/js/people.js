// The agents we know: asked for once, again when one comes or goes.

import { get } from "./api.js";
import { on } from "./live.js";
import { redraw } from "./view.js";

export const people = { agents: [], isLoaded: false };
const byName = new Map();

export async function loadAgents() {
  const answer = await get("/api/agents");
  people.agents = answer.agents ?? answer;
  people.isLoaded = true;
  byName.clear();
  for (const agent of people.agents) {
    for (const name of [agent.id, agent.slug, agent.name, agent.display_name])
      if (name) byName.set(name.toLowerCase(), agent);
  }
  redraw();
}

let isDue = false;
function soon() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    loadAgents().catch(() => {});
  }, 250);
}

on("agent.online", soon);
on("agent.offline", soon);
on("reset", soon);

export const agentNamed = (name) => byName.get(String(name ?? "").toLowerCase());
export const mentionable = () => byName;
export const shownName = (agent) => agent.display_name || agent.name;
