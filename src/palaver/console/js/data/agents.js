// @ts-check
// The agents of this workspace, those of long ago too: they wrote messages. They are loaded once, and again when one
// connects or disconnects.

import { redraw } from "../ui/templates.js";
import { get } from "./api.js";
import { on } from "./events.js";
import { soon } from "./soon.js";

/** @type {{list: import("./types.js").Agent[], isLoaded: boolean}} */
export const agents = { list: [], isLoaded: false };

// By lower-case id, slug, name and display name.
/** @type {Map<string, import("./types.js").Agent>} */
export const agentsByName = new Map();

export async function loadAgents() {
  const answer = await get("/api/agents?include_inactive=true");
  agents.list = answer.agents ?? answer;
  agents.isLoaded = true;
  agentsByName.clear();
  for (const agent of agents.list) {
    for (const name of [agent.id, agent.slug, agent.name, agent.display_name])
      if (name) agentsByName.set(name.toLowerCase(), agent);
  }
  redraw();
}

const reload = soon(() => loadAgents().catch(() => {}), 250);

on("agent.online", reload);
on("agent.offline", reload);
on("reset", reload);

export const findAgent = (name) => agentsByName.get(String(name ?? "").toLowerCase());
export const displayName = (agent) => agent.display_name || agent.name;

// The display name of an agent with this name or id, otherwise the name itself.
export const displayNameOf = (name) => (findAgent(name) ? displayName(findAgent(name)) : name);
