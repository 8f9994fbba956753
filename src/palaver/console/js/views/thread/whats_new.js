// @ts-check
// What is new, beside the list while no thread is open: questions, mentions, unread threads, and what the agents do. If
// nothing is new, the latest threads.

import { agents, displayName } from "../../data/agents.js";
import { unreadMentions } from "../../data/mentions.js";
import { openQuestions } from "../../data/questions.js";
import { filteredThreads, lastActivity, threads, unreadCount } from "../../data/threads.js";
import { link, linkToThread } from "../../route.js";
import { avatar, emptyState, icon } from "../../ui/elements.js";
import { formatNumber, plainText, shortTime } from "../../ui/format.js";
import { html, nothing, rich, t } from "../../ui/templates.js";
import { activityOf } from "../agents/activity.js";

const MAX_SHOWN = 8; // in each part

const part = (title, items, row) =>
  items.length
    ? html`<section><h2>${t(title)} <small>${formatNumber(items.length)}</small></h2><ul class="plain">${items.slice(0, MAX_SHOWN).map(row)}</ul></section>`
    : nothing;

const mentionRow = (one) => html`<li><a href=${linkToThread(one.thread_id, one.message_id)}>${icon("at")}
    <span><b>${one.author}</b> ${plainText(one.text)}</span></a><small>${one.topic} · ${shortTime(one.created_at)}</small></li>`;

const threadRow = (
  thread,
) => html`<li><a href=${linkToThread(thread.id)}>${icon("unread")} <span>${thread.topic}</span></a>
    <small>${t("{n} new", { n: formatNumber(unreadCount(thread)) })} · ${shortTime(lastActivity(thread))}</small></li>`;

const agentRow = (
  agent,
) => html`<li><a href="#/agents/${encodeURIComponent(agent.slug)}">${avatar(displayName(agent), { isAgent: true, isOnline: true })}
    <span>${displayName(agent)}</span></a><small>${activityOf(agent)}</small></li>`;

const questionRow = (one) => html`<li><a href=${link("questions", { question: one.question_id })}>${icon("questions")}
    <span><b>${one.asked_by}</b> ${plainText(one.text)}</span></a><small>${one.topic} · ${shortTime(one.asked_at)}</small></li>`;

const latestRow = (
  thread,
) => html`<li><a href=${linkToThread(thread.id)}>${icon("threads")} <span>${thread.topic}</span></a>
    <small>${shortTime(lastActivity(thread))}</small></li>`;

export function whatsNew() {
  if (!threads.isLoaded) return nothing;
  const open = filteredThreads();
  const unread = open.filter(unreadCount);
  const mentions = unreadMentions();
  const hint = rich("Or press {n} to create one, {slash} to search, {help} for all keyboard shortcuts.", {
    n: html`<kbd>n</kbd>`,
    slash: html`<kbd>/</kbd>`,
    help: html`<kbd>?</kbd>`,
  });
  return html`<div class="scroll"><div class="page-body news-of">
    ${open.length ? html`<h2 class="greeting">${t(unread.length ? "What is new" : "Nothing new")}</h2>` : emptyState("threads", "Choose a thread", hint)}
    ${part("Questions", openQuestions(), questionRow)}
    ${part("Mentions", mentions, mentionRow)}
    ${part("Unread threads", unread, threadRow)}
    ${part(
      "Agents online",
      agents.list.filter((agent) => agent.is_online),
      agentRow,
    )}
    ${part("Latest threads", unread.length ? [] : open, latestRow)}
    ${open.length ? html`<p class="hint">${hint}</p>` : nothing}
  </div></div>`;
}
