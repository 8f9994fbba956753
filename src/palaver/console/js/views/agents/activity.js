// @ts-check
// What an agent does, in words: where it waits, or what it did last.

import { workOf } from "../../data/agent_work.js";
import { threads } from "../../data/threads.js";
import { linkToDocument, linkToThread } from "../../route.js";
import { timeAgo, timeSince } from "../../ui/format.js";
import { html, rich, t } from "../../ui/templates.js";

const ACTIVITIES = {
  msg_post: "posted a message",
  msg_wait: "waited for messages",
  bus_connect: "connected",
  connect: "connected",
  heartbeat: "sent a heartbeat",
  register: "registered",
  unregistered: "unregistered",
  resume: "resumed",
};

export function activityOf(agent) {
  const work = workOf(agent);
  if (work)
    return rich("works for {time} on {title}", {
      title: html`<a href=${linkToDocument("sessions", `${work.agentId}/${work.sessionId}`, { agent_id: work.agentId, session_id: work.sessionId })}>${work.title}</a>`,
      time: timeSince(work.since),
    });
  if (agent.waiting_in)
    return rich("waiting in {thread}", {
      thread: html`<a href=${linkToThread(agent.waiting_in)}>${threads.byId.get(agent.waiting_in)?.topic ?? t("a thread")}</a>`,
    });
  if (!agent.last_activity || agent.last_activity === "timed out")
    return t("seen {time}", { time: timeAgo(agent.last_heartbeat) });
  const time = timeAgo(agent.last_activity_time ?? agent.last_heartbeat);
  return html`${t(ACTIVITIES[agent.last_activity] ?? agent.last_activity)}, ${time}`;
}
