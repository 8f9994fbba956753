// @ts-check
// The import view: drop files or a folder, watch the progress, see the result.

import { csrf, errorMessage, get, url } from "../data/api.js";
import { startedImport } from "../data/drafts.js";
import { can } from "../data/session.js";
import { SOURCES, sourcesWith } from "../data/sources.js";
import { link } from "../route.js";
import { avatar, errorState, icon } from "../ui/elements.js";
import { fileSize, formatNumber, plural } from "../ui/format.js";
import { html, nothing, redraw, rich, t } from "../ui/templates.js";

const MAX_FILES = 1000;
const SHOWN_NAMES = 6;

const FORMATS = [
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

const HEADINGS = { sending: "Uploading …", running: "Importing …", done: "Done", failed: "Import failed" };

/** @type {any} */
let job = null; // { names, bytes, sent, state, answer, error }
let isDragging = false;

export const importView = {
  title: () => t("Import"),
  isInner: () => true,
  enter: () => resume(),
  retry: () => resume(),
  template: () => html`<main class="pane bring">
    <header class="head"><div class="name"><h1>${t("Import")}</h1><p>${t("Add your chats, notes and documents from other tools.")}</p></div></header>
    <div class="scroll"><div class="page-body">
      ${can("write") ? dropZone() : html`<p class="hint">${t("You have read-only access. Ask for a token with the write scope.")}</p>`}
      ${job ? progress() : nothing}
      <section class="known"><h2>${t("Supported formats")}</h2>
        <dl>${FORMATS.map(([name, description]) => html`<dt>${avatar(name)} ${t(name)}</dt><dd>${t(description)}</dd>`)}</dl>
        <p class="hint">${t("You can import the same files again: new items are added and changed items are updated. Your data stays on this server.")}
          ${t("From a terminal:")} <code>palaver import PATH…</code></p></section>
    </div></div>
  </main>`,
};

function dropZone() {
  const isBusy = job?.state === "sending" || job?.state === "running";
  const setDragging = (value) => (event) => {
    event.preventDefault();
    if (isDragging !== value) (isDragging = value), redraw();
  };
  const onDrop = async (event) => {
    event.preventDefault();
    isDragging = false;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...event.dataTransfer.files];
    start(entries.length ? (await Promise.all(entries.map(readEntry))).flat() : files);
  };
  const onChoose = (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    start(files);
  };
  return html`<div class="drop ${isDragging ? "over" : ""}" @dragover=${setDragging(true)} @dragleave=${setDragging(false)} @drop=${onDrop}>
    ${icon("import")}
    <p><b>${t("Drop files or a folder here")}</b><br /><small>${t("exported chats, notes, documents")}</small></p>
    <div class="ways">
      <label class="button">${t("Choose files")}<input class="hidden" type="file" multiple ?disabled=${isBusy} @change=${onChoose} /></label>
      <label class="button">${t("Choose a folder")}<input class="hidden" type="file" webkitdirectory ?disabled=${isBusy} @change=${onChoose} /></label>
    </div>
  </div>`;
}

// The files of a dropped file or folder.
async function readEntry(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const entries = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) break;
    entries.push(...some);
  }
  return (await Promise.all(entries.map(readEntry))).flat();
}

// Upload the files, with XMLHttpRequest: fetch does not report the progress of an upload.
function start(files) {
  if (!files.length) return;
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const started = {
    names: files.map(({ name }) => name),
    bytes,
    sent: 0,
    state: "sending",
    answer: null,
    error: null,
  };
  job = started;
  redraw();
  const fail = (message) => {
    Object.assign(started, { state: "failed", error: new Error(message) });
    redraw();
  };
  const form = new FormData();
  for (const file of files.slice(0, MAX_FILES)) form.append("file", file, file.name);
  const request = new XMLHttpRequest();
  request.open("POST", "/api/import");
  if (csrf.token) request.setRequestHeader("x-palaver-csrf", csrf.token);
  request.upload.onprogress = (event) => ((started.sent = event.loaded), redraw());
  request.onerror = () => fail(t("The server cannot be reached. Nothing was imported: drop the files again."));
  request.onload = () => {
    let answer = {};
    try {
      answer = JSON.parse(request.responseText);
    } catch {
      // The status is enough.
    }
    if (request.status !== 202) return fail(errorMessage(answer, request.status));
    update(started, answer, "running");
    startedImport.set({ id: answer.id, names: started.names.slice(0, SHOWN_NAMES), count: files.length, bytes });
    followJob(started);
  };
  request.send(form);
}

// Follow the import that was started before this page was loaded. The server forgets old ones.
async function resume() {
  const saved = startedImport.get();
  if (job || !saved) return;
  try {
    const answer = await get(url`/api/import/${saved.id}`);
    if (job) return;
    const names = Array.from({ length: saved.count }, (_, i) => saved.names[i] ?? "");
    job = { names, bytes: saved.bytes, sent: saved.bytes, state: answer.status, answer, error: null };
    if (job.state === "running") followJob(job);
  } catch (error) {
    if (error.status === 404) startedImport.set(null);
  }
  redraw();
}

function update(followed, answer, state = answer.status) {
  Object.assign(followed, { answer, state });
  redraw();
}

// Follow the progress by events. If the stream breaks, the job goes on: ask for its state and follow it again.
function followJob(followed) {
  const path = url`/api/import/${followed.answer.id}`;
  const events = new EventSource(`${path}/events`);
  for (const type of ["import.progress", "import.done", "import.failed"])
    events.addEventListener(type, (event) => {
      update(followed, JSON.parse(event.data));
      if (followed.state !== "running") events.close();
    });
  events.onerror = () => {
    events.close();
    if (followed.state !== "running") return;
    setTimeout(async () => {
      await get(path).then(
        (answer) => update(followed, answer),
        () => {},
      );
      if (followed.state === "running") followJob(followed);
    }, 1000);
  };
}

function progress() {
  const { names, bytes, sent, state, answer, error } = job;
  const more =
    names.length > SHOWN_NAMES ? ` ${t("and {n} more", { n: formatNumber(names.length - SHOWN_NAMES) })}` : "";
  return html`<section class="job" aria-live="polite">
    <h2>${t(state === "done" && answer && !readCount(answer) ? "Nothing was imported" : HEADINGS[state])}</h2>
    <p class="files">${names.slice(0, SHOWN_NAMES).join(", ")}${more} <small>${fileSize(bytes)}</small></p>
    ${names.length > MAX_FILES ? html`<p class="hint">${rich("Only the first {n} files are imported here. For larger folders use {command}.", { n: formatNumber(MAX_FILES), command: html`<code>palaver import</code>` })}</p>` : nothing}
    ${state === "sending" ? html`<progress max=${bytes || 1} value=${Math.min(sent, bytes)} aria-label=${t("Upload")}></progress>` : nothing}
    ${state === "running" ? html`<progress max=${answer?.bytes_total || nothing} value=${answer?.bytes_total ? answer.bytes_read : nothing} aria-label=${t("Import")}></progress>` : nothing}
    ${error ? errorState(error) : nothing}
    ${answer ? result(answer) : nothing}
  </section>`;
}

const readCount = (counts) => counts.new + counts.changed + counts.unchanged;

function result(answer) {
  const isDone = answer.status === "done";
  const links = sourcesWith("kindInImports").flatMap((name) => {
    const counts = answer.kinds?.[SOURCES[name].kindInImports ?? ""];
    return counts && readCount(counts) ? [{ name, n: readCount(counts) }] : [];
  });
  const formats = Object.entries(answer.formats ?? {});
  return html`<ul class="numbers">
      <li><b>${formatNumber(answer.new)}</b> ${t("new")}</li><li><b>${formatNumber(answer.changed)}</b> ${t("changed")}</li><li><b>${formatNumber(answer.unchanged)}</b> ${t("unchanged")}</li><li><b>${formatNumber(answer.messages)}</b> ${t(answer.messages === 1 ? "message" : "messages")}</li></ul>
    ${formats.length ? html`<p class="formats">${formats.map(([name, n]) => html`<i class="tag">${name} ${typeof n === "number" ? `× ${formatNumber(n)}` : ""}</i>`)}</p>` : nothing}
    ${answer.message ? html`<p class="problem">${answer.message}</p>` : nothing}
    ${answer.skipped_count ? html`<details class="skipped"><summary>${plural(answer.skipped_count, "item skipped", "items skipped")}</summary><ul>${answer.skipped.map((one) => html`<li><b>${one.name}</b>: ${one.why}</li>`)}</ul></details>` : nothing}
    ${isDone && !readCount(answer) ? html`<p class="hint">${t("No supported format was recognised. The supported formats are below.")}</p>` : nothing}
    ${
      isDone
        ? html`<p class="shelves-of">${links.map(
            ({ name, n }) =>
              html`<a class="button" href=${link(["library", name])}>${icon(SOURCES[name].icon)} ${t("{n} in {place}", { n: formatNumber(n), place: t(SOURCES[name].label) })}</a>`,
          )}</p>`
        : nothing
    }`;
}
