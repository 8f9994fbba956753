// @ts-check
// The line under a message that names agents: a mark for each, with its words when the line is opened.

import { findAgent } from "../../data/agents.js";
import { observe } from "../../data/receipts.js";
import { isHumanOnly } from "../../data/threads.js";
import { linkToThread } from "../../route.js";
import { icon } from "../../ui/elements.js";
import { momentOf, timeElement } from "../../ui/format.js";
import { html, nothing, ref, t } from "../../ui/templates.js";

const MOST_MARKS = 3; // in one line

const STATES = {
  stored: { icon: "clock", label: "{name} has not read this yet" },
  delivered: { icon: "check", label: "{name} was given this and has not confirmed it" },
  read: { icon: "checks", label: "{name} read this" },
  reacted: { icon: "smile", label: "{name} reacted with {reaction}" },
  declined: { icon: "close", label: "{name} declined this" },
  answered: { icon: "reply", label: "{name} answered this" },
  not_reached: { icon: "barred", label: "{name} was not reached" },
};
const WAYS = {
  wake: () => t("woken by it"),
  prompt: () => t("with a prompt"),
  stop: () => t("before it stopped"),
  briefing: () => t("when its session began"),
  mcp: () => t("in the thread"),
};

// "Codex read this in turn 3, woken by it"
function wordsOf({ name, state, turn, way, reason, reaction }) {
  const isReadIn = state === "read" && turn;
  const what = isReadIn
    ? t("{name} read this in turn {turn}", { name, turn })
    : t(STATES[state].label, { name, reaction });
  return `${what}${WAYS[way] ? `, ${WAYS[way]()}` : ""}${reason ? `. ${t(reason)}` : ""}`;
}

// Does the message seem to name an agent? Then room is kept, so that nothing moves when its receipts arrive.
const namesAgent = ({ content, mentions }) =>
  [...(mentions ?? []), ...(content.match(/@[\w.-]+/g) ?? [])].some((name) =>
    findAgent(name.replace(/^@|[.-]+$/g, "")),
  );

const isBad = ({ state }) => Number(state === "not_reached" || state === "declined");

const mark = (label, words, state) => html`<span class="mark" data-state=${state ?? nothing} title=${words}
  >${state ? icon(STATES[state].icon) : nothing}<span aria-hidden="true">${label}</span><i class="hidden">${words}</i></span>`;

const line = ({ thread_id }, one) =>
  html`<li data-state=${one.state}>${icon(STATES[one.state].icon)}<span>${
    one.answer_id ? html`<a href=${linkToThread(thread_id, one.answer_id)}>${wordsOf(one)}</a>` : wordsOf(one)
  } ${one.at ? timeElement(one.at, momentOf(one.at)) : nothing}</span></li>`;

// Only these messages may have receipts, so nothing is asked for the others.
const mayHave = (message, repliedTo) =>
  !isHumanOnly(message.metadata) &&
  (message.content.includes("@") ||
    message.mentions?.length ||
    message.metadata?.handoff_target ||
    repliedTo?.author_id);

export function receiptMarks(message, receipts = [], repliedTo) {
  if (!mayHave(message, repliedTo)) return nothing;
  const all = [...receipts].sort((one, other) => isBad(other) - isBad(one)); // what went wrong is in view
  const rest = all.slice(MOST_MARKS);
  const marks = all.slice(0, MOST_MARKS).map((one) => mark(one.name, wordsOf(one), one.state));
  if (rest.length) marks.push(mark(`+${rest.length}`, rest.map(wordsOf).join("\n")));
  return html`<div class="receipts ${namesAgent(message) ? "expected" : ""}" data-message=${message.id} ${ref(observe)}>${
    all.length
      ? html`<details><summary>${marks}</summary><ul>${all.map((one) => line(message, one))}</ul></details>`
      : nothing
  }</div>`;
}
