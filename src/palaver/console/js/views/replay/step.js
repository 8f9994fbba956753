// @ts-check
// One step of a replay: a line with its kind, its text in short, its time and its duration; unfolded, all of it.

import { codeElement, copyButton, languageOfPath } from "../../ui/code.js";
import { formatNumber, fullTime, plainText } from "../../ui/format.js";
import { icon } from "../../ui/elements.js";
import { renderMarkdown } from "../../ui/markdown.js";
import { html, nothing, t } from "../../ui/templates.js";
import { diffWithOrigins } from "./line_origin.js";

const FOLDED_LINES = 24;
const FOLDED_LENGTH = 2400; // characters
const PIECE = 40_000; // characters of a long output in one element
export const RUNNING_FOR = 10 * 60 * 1000; // milliseconds; a call without a result is over after this time

const KIND_NAMES = { question: "Question", answer: "Answer", call: "Tool call", output: "Output", note: "Note" };
const KIND_ICONS = { question: "person", answer: "chats", call: "sessions", output: "sessions", note: "note" };

// "0.4 s", "12 s", "3 min 20 s", "2 h 5 min"
export function duration(seconds) {
  if (seconds < 0.05) return t("{n} ms", { n: Math.max(1, Math.round(seconds * 1000)) });
  if (seconds < 10) return t("{n} s", { n: formatNumber(Math.round(seconds * 10) / 10) });
  if (seconds < 60) return t("{n} s", { n: Math.round(seconds) });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10 && Math.round(seconds % 60)) return t("{m} min {s} s", { m: minutes, s: Math.floor(seconds % 60) });
  if (minutes < 60) return t("{n} min", { n: minutes });
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return rest ? t("{h} h {m} min", { h: formatNumber(hours), m: rest }) : t("{n} h", { n: formatNumber(hours) });
}

// "+1:02:03": the time since the start of the session.
function sinceStart(ts, start) {
  const seconds = Math.max(0, Math.floor((new Date(ts).getTime() - new Date(start).getTime()) / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h
    ? `+${h}:${String(m).padStart(2, "0")}:${String(s).padStart(2, "0")}`
    : `+${m}:${String(s).padStart(2, "0")}`;
}

function stateText(step) {
  if (step.state === "failed") return t("failed");
  if (step.state === "silent") return t("no output");
  if (step.state !== "open") return "";
  const isRunning = step.ts && Date.now() - new Date(step.ts).getTime() < RUNNING_FOR;
  return isRunning ? t("running") : t("never answered");
}

const firstLine = (text) => (text ?? "").trim().split("\n", 1)[0].slice(0, 200);

export function stepTemplate(replay, step, branch) {
  const isOpen = replay.isUnfolded(step, branch);
  const isCurrent = !branch && step.number === replay.current;
  const isFound = !branch && step.number === replay.found;
  const { started_at } = replay.steps.outline.totals;
  const state = stateText(step);
  const id = isFound ? `t-${replay.foundId}` : `t-${branch ? `${branch}-` : ""}${step.id}`;
  const classes = [
    "step",
    "turn",
    step.kind,
    step.state,
    (step.is_error || step.state === "failed") && "failed",
    step.is_edit && "edit",
    isOpen && "open-step",
    isFound && "found",
  ];
  return html`<article class=${classes.filter(Boolean).join(" ")} id=${id} data-step="${branch}/${step.number}"
      tabindex=${isCurrent ? "0" : "-1"} aria-posinset=${step.number} aria-setsize=${replay.steps.total}
      aria-label=${t("Step {n}", { n: step.number })} @focusin=${() => branch || ((replay.current = step.number))}>
    <button type="button" class="line" aria-expanded=${isOpen} @click=${() => replay.toggle(step, branch)}>
      <span class="at">${step.ts && started_at ? html`<time datetime=${step.ts} title=${fullTime(step.ts)}>${sinceStart(step.ts, started_at)}</time>` : nothing}</span>
      <span class="kind">${icon(step.is_edit ? "edit" : KIND_ICONS[step.kind])}${step.kind === "call" ? html`<span class="hidden">${t(KIND_NAMES.call)}</span>` : nothing}</span>
      <span class="short">${shortText(replay, step, isOpen)}</span>
      ${state ? html`<span class="state">${state}</span>` : nothing}
      <span class="took">${step.seconds ? duration(step.seconds) : nothing}</span>
    </button>
    ${step.kind === "question" ? html`<h2 class="hidden">${t("Question")}: ${firstLine(step.text)}</h2>` : nothing}
    ${isOpen ? html`<div class="detail">${detail(replay, step, branch)}</div>` : nothing}
    ${branch ? nothing : replay.subagentsAt(step.number).map((one) => html`<a class="subagent" href=${replay.linkToSession(one.id)}>${icon("branch")} ${t("Subagent: {title}", { title: one.title || one.id })}</a>`)}
  </article>`;
}

function shortText(replay, step, isOpen) {
  if (step.kind === "call") {
    const failure =
      step.state === "failed" && !isOpen ? html` <span class="why">${firstLine(step.text)}</span>` : nothing;
    return html`<b>${step.tool}</b> <code>${step.brief}</code>${failure}`;
  }
  const name = html`<b>${replay.names[step.kind] ?? t(KIND_NAMES[step.kind])}</b>`;
  if (isOpen && step.kind !== "output") return name;
  const text = step.kind === "output" || step.kind === "note" ? firstLine(step.text) : plainText(step.text ?? "");
  return html`${name} <span>${text.slice(0, 300)}</span>`;
}

function detail(replay, step, branch) {
  const tools = branch
    ? nothing
    : html`<button type="button" class="quiet copy-link" aria-label=${t("Copy link")} title=${t("Copy link")} @click=${() => replay.copyLink(step)}>${icon("link")}</button>`;
  if (step.kind === "call") return html`${callDetail(replay, step, branch)}${tools}`;
  if (step.kind === "output") return html`${output(replay, step, branch)}${tools}`;
  return html`${message(replay, step, branch)}${tools}`;
}

// Elements are made once for each text: a step is drawn often.
const elements = new WeakMap();
function once(step, name, text, make) {
  const made = elements.get(step) ?? {};
  elements.set(step, made);
  if (made[name]?.text !== text) made[name] = { text, element: make(text) };
  return made[name].element;
}

const showAllButton = (
  replay,
  step,
  branch,
) => html`<button type="button" class="show-all" @click=${() => replay.showWhole(step, branch)}
  >${t("Show all ({n} characters)", { n: formatNumber(step.length ?? step.text.length) })}</button>`;

function message(replay, step, branch) {
  const text = step.text ?? "";
  const element = once(step, "prose", text, renderMarkdown);
  const isLong = text.length > 3 * FOLDED_LENGTH || text.split("\n", 2 * FOLDED_LINES + 1).length > 2 * FOLDED_LINES;
  if (step.length || (isLong && !replay.isWhole(step, branch) && step.number !== replay.found))
    return html`<div class="folded">${element}</div>${showAllButton(replay, step, branch)}`;
  return element;
}

// The command of a shell is shown as such. Arguments that the line shows whole are not repeated.
function givenText(step) {
  let given;
  try {
    given = JSON.parse(step.arguments);
  } catch {
    return { text: step.arguments, language: undefined, title: t("Arguments") };
  }
  const command = given?.command ?? given?.cmd;
  if (typeof command === "string") return { text: command, language: "bash", title: t("Command") };
  const values = Object.values(given ?? {});
  if (values.length === 1 && values[0] === step.brief) return null;
  return { text: step.arguments, language: "json", title: t("Arguments") };
}

function callDetail(replay, step, branch) {
  const change = step.diff
    ? html`<figure class="code"><figcaption><span>${step.path ?? step.tool}</span>${once(step, "copy-diff", step.diff, (text) => copyButton(text, t("Copy the change")))}</figcaption>
      ${once(step, "diff", step.diff, () => diffWithOrigins(step, replay.steps.project))}</figure>`
    : nothing;
  const given = step.arguments && !step.diff ? givenText(step) : null;
  return html`${change}${
    given
      ? html`<figure class="code"><figcaption><span>${given.title}</span>${once(step, "copy-given", given.text, (text) => copyButton(text, t("Copy the arguments")))}</figcaption>
      <pre tabindex="0">${once(step, "given", given.text, (text) => codeElement(text, given.language))}</pre></figure>`
      : nothing
  }${step.text ? output(replay, step, branch) : html`<p class="no-output">${stateText(step) || t("no output")}</p>`}`;
}

// The output of a tool, in pieces: the browser lays out only those in view.
function pieces(text) {
  const found = [];
  for (let start = 0; start < text.length; ) {
    const line = text.lastIndexOf("\n", start + PIECE);
    const end = start + PIECE >= text.length ? text.length : line > start ? line + 1 : start + PIECE;
    found.push(text.slice(start, end));
    start = end;
  }
  return found;
}

function output(replay, step, branch) {
  const text = step.text ?? "";
  const isLong = text.length > FOLDED_LENGTH || text.split("\n", FOLDED_LINES + 1).length > FOLDED_LINES;
  const isFolded = step.length || (isLong && !replay.isWhole(step, branch));
  const shown = isFolded ? text.split("\n").slice(0, FOLDED_LINES).join("\n").slice(0, FOLDED_LENGTH) : text;
  const language = step.path && step.tool && /read|cat|view/i.test(step.tool) ? languageOfPath(step.path) : undefined;
  const make = () => {
    const pre = document.createElement("pre");
    pre.tabIndex = 0;
    const parts = pieces(shown);
    if (parts.length === 1) pre.append(codeElement(parts[0], language));
    else
      for (const part of parts) {
        const piece = document.createElement("span");
        piece.className = "piece";
        piece.append(part);
        pre.append(piece);
      }
    return pre;
  };
  return html`<figure class="code output ${step.is_error ? "failed" : ""}"><figcaption><span>${step.is_error ? t("Error") : t("Output")}</span>${step.length ? nothing : once(step, "copy-output", text, (all) => copyButton(all, t("Copy the output")))}</figcaption>
    ${once(step, "output", shown, make)}</figure>${isFolded ? showAllButton(replay, step, branch) : nothing}`;
}
