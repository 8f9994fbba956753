// @ts-check
// Why a line of a change is there: a click on it, or Enter, asks which turn wrote it, and what for.

import { post } from "../../data/api.js";
import { linkToDocument } from "../../route.js";
import { diffElement } from "../../ui/code.js";
import { notifyError } from "../../ui/dialog.js";
import { plainText, timeElement } from "../../ui/format.js";
import { html, nothing, render, t } from "../../ui/templates.js";

const AROUND = 10; // lines before and after

// The address of the message or turn that a URI names.
function linkTo(uri) {
  const [source, path] = uri.split("://");
  const parts = path.split("/").map(decodeURIComponent);
  const message_id = parts.pop();
  const id = parts.join("/");
  const [agent_id, session_id] = [parts[0], parts.slice(1).join("/")];
  return linkToDocument(source, id, source === "sessions" ? { agent_id, session_id, message_id } : { message_id });
}

const remark = (label, one) =>
  html`<p><b>${label}</b> ${one.by ?? ""} <a href=${linkTo(one.uri)}>${one.at ? timeElement(one.at) : t("Open")}</a><br>${plainText(one.text)}</p>`;

function originTemplate(origin, step) {
  if (!origin.is_known) return html`<p>${t("Unknown: no recorded edit surely wrote this line.")}</p>`;
  const place =
    origin.turn_id === step.id
      ? t("in this step")
      : html`<a href=${linkTo(origin.uri)}>${origin.at ? timeElement(origin.at) : t("Open")}</a>`;
  return html`<p><b>${t("Written by {program}", { program: origin.program })}</b> ${place}</p>
    ${origin.request ? remark(t("Asked for"), origin.request) : nothing}
    ${(origin.decisions ?? []).map((one) => remark(t("Decided"), one))}
    ${(origin.later ?? []).map((one) => remark(t("Said later"), one))}`;
}

// A change whose lines can be asked about, and the place of the answer below it.
export function diffWithOrigins(step, project) {
  const [pre, told] = [document.createElement("pre"), document.createElement("div")];
  const code = diffElement(step.diff);
  const rows = /** @type {HTMLElement[]} */ ([...code.children]).filter((row) => /added|same/.test(row.className));
  const textOf = (row) => row.textContent.slice(1).replace(/\n$/, "");
  told.className = "origin";
  told.setAttribute("role", "status");
  pre.tabIndex = 0;
  pre.title = t("Click a line, or press Enter on it, to see why it is there.");
  pre.append(code);
  for (const row of rows) row.tabIndex = -1;

  async function ask(row) {
    const at = rows.indexOf(row);
    if (at < 0 || !textOf(row).trim()) return;
    for (const one of rows) one.classList.toggle("chosen", one === row);
    const lines = rows.map(textOf);
    try {
      const origin = await post("/api/why", {
        path: step.path ?? "",
        line: lines[at],
        before: lines.slice(Math.max(0, at - AROUND), at),
        after: lines.slice(at + 1, at + 1 + AROUND),
        until: step.ts ?? null,
        project,
      });
      if (row.classList.contains("chosen")) render(originTemplate(origin, step), told);
    } catch (error) {
      notifyError(error);
    }
  }

  code.addEventListener("click", (event) => {
    const row = /** @type {Element} */ (event.target).closest("span");
    if (getSelection()?.isCollapsed) ask(row);
  });
  pre.addEventListener("keydown", (event) => {
    const at = rows.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (next === undefined && event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Enter") ask(rows[at]);
    else if (next !== undefined) rows[next]?.focus();
  });
  const whole = document.createElement("div");
  whole.append(pre, told);
  return whole;
}
