// Bring your history: drop files or a folder, see what they are, how far it is, and what came of it.

import { get, useCsrf } from "../api.js";
import { count, face, icon, plural, trouble } from "../parts.js";
import { SOURCES } from "../search.js";
import { may } from "../state.js";
import { html, nothing, redraw } from "../view.js";

const KNOWN = [
  ["ChatGPT", "the zip from Settings → Data controls → Export, or conversations.json"],
  ["Claude", "the zip from Settings → Privacy → Export data"],
  ["Claude Code", "the folder ~/.claude/projects, or any .jsonl in it"],
  ["Codex", "the folder ~/.codex/sessions"],
  ["Gemini CLI", "the folder ~/.gemini/tmp"],
  ["Cursor", "its state.vscdb"],
  ["Notes", "a folder of Markdown files, or an Obsidian vault"],
  ["Documents", "text, HTML, PDF, EPUB, DOCX, PPTX"],
  ["Transcripts", "SRT, VTT, JSON"],
  ["Characters", "character cards, as PNG or JSON"],
];

const SHELF = {
  conversations: "archive",
  notes: "notes",
  media: "media",
  characters: "characters",
  prompts: "prompts",
};

let csrf = null;
let job = null; // { files, bytes, sent, state, answer, problem }
let isOver = false;

export const bringView = {
  title: () => "Bring your history",
  isInner: () => true,
  enter() {
    csrf = useCsrf();
  },
  template: () => html`<main class="pane bring">
    <header class="head"><div class="name"><h1>Bring your history</h1><p>What you talked about elsewhere becomes part of the same memory.</p></div></header>
    <div class="scroll"><div class="page-body">
      ${may("write") ? dropZone() : html`<p class="hint">You can read here, not write: ask for a token with the write scope.</p>`}
      ${job ? progress() : nothing}
      <section class="known"><h2>What is recognised</h2>
        <dl>${KNOWN.map(([name, where]) => html`<dt>${face(name)} ${name}</dt><dd>${where}</dd>`)}</dl>
        <p class="hint">Importing again is fine: what is new is added, what has changed is updated, the rest stays. Nothing leaves this machine.
          From a terminal: <code>palaver import PATH…</code></p></section>
    </div></div>
  </main>`,
};

function dropZone() {
  const isBusy = job && (job.state === "sending" || job.state === "running");
  const over = (value) => (event) => {
    event.preventDefault();
    if (isOver !== value) ((isOver = value), redraw());
  };
  return html`<div class="drop ${isOver ? "over" : ""}" @dragover=${over(true)} @dragleave=${over(false)} @drop=${dropped}>
    ${icon("import")}
    <p><b>Drop files or a folder here</b><br /><small>exports of your chats, notes, documents</small></p>
    <div class="ways">
      <label class="button">Choose files<input class="hidden" type="file" multiple ?disabled=${isBusy} @change=${chosen} /></label>
      <label class="button">Choose a folder<input class="hidden" type="file" webkitdirectory ?disabled=${isBusy} @change=${chosen} /></label>
    </div>
  </div>`;
}

function chosen(event) {
  const files = [...event.target.files];
  event.target.value = "";
  begin(files);
}

async function dropped(event) {
  event.preventDefault();
  isOver = false;
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = entries.length ? (await Promise.all(entries.map(filesOf))).flat() : [...event.dataTransfer.files];
  begin(files);
}

async function filesOf(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map(filesOf))).flat();
}

function begin(files) {
  if (!files.length) return;
  job = {
    files,
    bytes: files.reduce((sum, file) => sum + file.size, 0),
    sent: 0,
    state: "sending",
    answer: null,
    problem: null,
  };
  redraw();
  send(job);
}

// fetch does not say how far it is; this does.
function send(one) {
  const form = new FormData();
  for (const file of one.files.slice(0, 1000)) form.append("file", file, file.name);
  const request = new XMLHttpRequest();
  request.open("POST", "/api/import");
  if (csrf) request.setRequestHeader("x-palaver-csrf", csrf);
  request.upload.onprogress = (event) => ((one.sent = event.loaded), redraw());
  request.onerror = () => failed(one, "The server cannot be reached. Nothing was lost: drop the files again.");
  request.onload = () => {
    let said = {};
    try {
      said = JSON.parse(request.responseText);
    } catch {
      // the status says enough
    }
    if (request.status !== 202)
      return failed(one, said.detail?.message ?? said.detail ?? `The server answered ${request.status}.`);
    one.answer = said;
    one.state = "running";
    follow(one);
    redraw();
  };
  request.send(form);
}

function failed(one, message) {
  Object.assign(one, { state: "failed", problem: new Error(message) });
  redraw();
}

function follow(one) {
  const events = new EventSource(`/api/import/${encodeURIComponent(one.answer.id)}/events`);
  const take = (event) => {
    one.answer = JSON.parse(event.data);
    one.state = one.answer.status;
    if (one.state !== "running") events.close();
    redraw();
  };
  for (const type of ["import.progress", "import.done", "import.failed"]) events.addEventListener(type, take);
  events.onerror = () => {
    // The job goes on without us: ask until it is done.
    events.close();
    if (one.state === "running")
      setTimeout(
        () =>
          get(`/api/import/${one.answer.id}`).then(
            (answer) => (
              (one.answer = answer),
              (one.state = answer.status),
              redraw(),
              one.state === "running" && follow(one)
            ),
            () => follow(one),
          ),
        1000,
      );
  };
}

const size = (bytes) => (bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

function progress() {
  const { files, bytes, sent, state, answer, problem } = job;
  const named =
    files
      .slice(0, 6)
      .map((file) => file.name)
      .join(", ") + (files.length > 6 ? ` and ${count(files.length - 6)} more` : "");
  return html`<section class="job" aria-live="polite">
    <h2>${{ sending: "Sending …", running: "Reading …", done: "Done", failed: "That did not work" }[state]}</h2>
    <p class="files">${named} <small>${size(bytes)}</small></p>
    ${files.length > 1000 ? html`<p class="hint">Only the first 1,000 files are taken at once; import a folder this large with <code>palaver import</code>.</p>` : nothing}
    ${state === "sending" ? html`<progress max=${bytes || 1} value=${Math.min(sent, bytes)} aria-label="Sent"></progress>` : nothing}
    ${state === "running" ? html`<progress max=${answer?.bytes_total || nothing} value=${answer?.bytes_total ? answer.bytes_read : nothing} aria-label="Reading"></progress>` : nothing}
    ${problem ? trouble(problem) : nothing}
    ${answer ? summary(answer) : nothing}
  </section>`;
}

function summary(answer) {
  const formats = Object.entries(answer.formats ?? {});
  return html`<ul class="numbers">
      <li><b>${count(answer.new)}</b> new</li><li><b>${count(answer.changed)}</b> changed</li><li><b>${count(answer.unchanged)}</b> known already</li><li><b>${count(answer.messages)}</b> messages</li></ul>
    ${formats.length ? html`<p class="formats">${formats.map(([name, n]) => html`<i class="tag">${name} ${typeof n === "number" ? `× ${count(n)}` : ""}</i>`)}</p>` : nothing}
    ${answer.message ? html`<p class="problem">${answer.message}</p>` : nothing}
    ${answer.skipped_count ? html`<details class="skipped"><summary>${plural(answer.skipped_count, "thing")} skipped</summary><ul>${answer.skipped.map((one) => html`<li><b>${one.name}</b>: ${one.why}</li>`)}</ul></details>` : nothing}
    ${answer.status === "done" && answer.new + answer.changed + answer.unchanged === 0 ? html`<p class="hint">Nothing in there was recognised. See below what is.</p>` : nothing}
    ${
      answer.status === "done"
        ? html`<p class="shelves-of">${Object.entries(answer.kinds ?? {})
            .filter(([kind, n]) => SHELF[kind] && n.new + n.changed + n.unchanged)
            .map(
              ([kind, n]) => html`
      <a class="button" href="#/library/${SHELF[kind]}">${icon(SHELF[kind])} ${count(n.new + n.changed + n.unchanged)} in ${SOURCES[SHELF[kind]][0]}</a>`,
            )}</p>`
        : nothing
    }`;
}
