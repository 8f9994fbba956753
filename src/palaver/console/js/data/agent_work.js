// @ts-check
// What agents work on: the latest session of each, as far as it is recorded. Agents themselves do not say it.

import { redraw } from "../ui/templates.js";
import { get } from "./api.js";

const RECENT = 10 * 60 * 1000; // milliseconds: a session without a turn for longer is not being worked on
const SESSIONS = 40;

/** @type {Map<string, {title: string, project: string | null, since: string, sessionId: string, agentId: string}>} */
const work = new Map(); // by the id of the agent

export async function loadWork() {
  const { documents } = await get(`/api/library/sessions?limit=${SESSIONS}`);
  work.clear();
  for (const one of documents) {
    const isRecent = Date.now() - new Date(one.changed_at).getTime() < RECENT;
    if (!isRecent || work.has(one.agent_id)) continue;
    work.set(one.agent_id, {
      title: one.title,
      project: one.project,
      since: one.created_at,
      sessionId: one.session_id,
      agentId: one.agent_id,
    });
  }
  redraw();
}

export const workOf = (agent) => work.get(agent.id);
