// @ts-check
// The reader: an open document of any source, at #/open/{source}/{id}. `loc` in the address names the place in it.

import { get, remove, RequestError, url, withQuery } from "../data/api.js";
import { can } from "../data/session.js";
import { findSource, SOURCES } from "../data/sources.js";
import { goBack, goTo, link, linkToDocument, parseRoute } from "../route.js";
import { copyAndNotify } from "../ui/clipboard.js";
import { confirmDialog, notify, notifyError } from "../ui/dialog.js";
import { errorState, icon, loading, menu } from "../ui/elements.js";
import { formatTimestamp, timeElement } from "../ui/format.js";
import { clearHighlight, highlightElement } from "../ui/highlight.js";
import { html, nextDraw, nothing, redraw, ref, rich, t } from "../ui/templates.js";
import { editor, resumeDraft, startEditing } from "./reader_editor.js";
import { READER_SOURCES } from "./reader_sources.js";

/** @type {import("./reader_sources.js").OpenDocument | null} */
let open = null;
/** @type {HTMLElement | null} */
let scrollBox = null;

const leaveReader = () => goBack(link(["library", open?.source]));

export const readerView = {
  title: () => open?.title || t(findSource(open?.source)?.singular ?? "Open"),
  isInner: () => true,
  async enter({ parts, query }) {
    const [source, ...rest] = parts;
    /** @type {import("./reader_sources.js").OpenDocument} */
    const entered = {
      source,
      id: rest.join("/"), // some tools decode the slashes of an id in a link
      q: query.get("q") ?? "",
      loc: parseJson(query.get("loc")),
      isEditing: query.has("edit"),
      isEditLinked: query.has("edit"),
      isNew: query.get("edit") === "new",
      item: null,
      error: null,
      title: "",
      draftAt: null,
    };
    open?.replay?.stop();
    open = entered;
    redraw();
    try {
      if (!findSource(source) || !entered.id) throw new RequestError("This link does not name a known source.", 404);
      await READER_SOURCES[source].open(entered);
      if (READER_SOURCES[source].fields && can("write")) resumeDraft(entered);
    } catch (error) {
      const isMissing = error.status === 404 && findSource(source);
      entered.error = isMissing ? new RequestError("It may have been deleted, or the link is incomplete.", 404) : error;
    }
    if (open !== entered) return;
    if (entered.isEditing && entered.item) return startEditing(entered);
    await nextDraw();
    showFoundPlace(entered);
  },
  retry: () => open?.error?.isOffline && readerView.enter(parseRoute()),
  leave() {
    clearHighlight();
    open?.replay?.stop();
    open = null;
  },
  template: () => html`<main class="pane reader">${open ? page(open) : nothing}</main>`,
  key(event) {
    if (!open) return false;
    if (event.key === "Escape") return leaveReader(), true;
    if (event.key === "e" && open.item && READER_SOURCES[open.source].fields && can("write"))
      return startEditing(open), true;
    if (open.replay) return open.replay.key(event);
    const step = { j: 1, k: -1 }[event.key];
    const turns = /** @type {HTMLElement[]} */ (step ? [...document.querySelectorAll(".turn")] : []);
    if (!step || !turns.length) return false;
    const current = turns.findIndex((turn) => turn.contains(document.activeElement));
    const next = turns[current + step] ?? turns[0];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    return true;
  },
};

function parseJson(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

// Highlight the words of the search, and scroll to the turn or the place that the link names.
/** @param {import("./reader_sources.js").OpenDocument} opened */
function showFoundPlace({ foundId, q, loc, item, replay }) {
  const turn = foundId && document.getElementById(`t-${foundId}`);
  const root = turn ?? document.querySelector(".page-body");
  if (!root) return;
  const matches = highlightElement(root, q);
  if (turn) {
    turn.scrollIntoView({ block: "center" });
    turn.focus({ preventScroll: true });
    if (replay?.found) replay.keepInView(replay.found);
  } else if (matches.length && scrollBox) {
    // `approx_offset` counts characters of the source text, which is longer than the shown text.
    const length = root.textContent?.length || 1;
    const wanted = ((loc?.approx_offset ?? 0) / Math.max(length, item?.content?.length ?? 1)) * length;
    const distance = (match) => Math.abs(match.offset - wanted);
    const nearest = matches.reduce((best, match) => (distance(match) < distance(best) ? match : best));
    const { top } = nearest.range.getBoundingClientRect();
    scrollBox.scrollTop += top - scrollBox.getBoundingClientRect().top - scrollBox.clientHeight / 3;
  }
}

function page(opened) {
  const { source, title, item, error } = opened;
  const reader = READER_SOURCES[source];
  const retry = () => readerView.enter(parseRoute());
  return html`<header class="head">
      <button type="button" class="quiet back always" aria-label=${t("Back")} @click=${leaveReader}>${icon("back")}</button>
      <div class="name"><h1 title=${title}>${title || (error ? t(findSource(source)?.singular ?? "Document") : "…")}</h1>
        <p>${t(findSource(source)?.singular ?? "")}${item && reader.subtitle ? html` · ${reader.subtitle(opened)}` : item?.last_modified ? html` · ${rich("changed {time}", { time: timeElement(item.last_modified) })}` : nothing}</p></div>
      ${item && !error ? actions(opened) : nothing}
    </header>
    <div class="scroll" ${ref((element) => (scrollBox = element))}>${
      error
        ? errorState(error, retry)
        : item
          ? html`<div class="page-body">${opened.isEditing && reader.fields ? editor(opened, reader.fields) : reader.body(opened)}</div>`
          : loading()
    }</div>`;
}

function actions(opened) {
  const { source, id, title, item } = opened;
  const canEdit = READER_SOURCES[source].fields && can("write") && !opened.isEditing;
  const transcript = item.transcript?.segments
    .map(({ start, text }) => `[${formatTimestamp(start)}] ${text}`)
    .join("\n");
  const exportAll = { run: () => exportConversation(opened).catch(notifyError) };
  const exported = {
    sessions: {
      href: url`/api/v1/agents/${item.agent}/sessions/${item.session}/export`,
      download: `${item.session}.md`,
    },
    notes: { run: () => saveFile(`${title}.md`, "text/markdown", item.content) },
    archive: exportAll,
    chats: exportAll,
  }[source];
  const erase = source === "sessions" ? confirmDeleteSession : SOURCES[source].path && deleteItem;
  if (opened.isNew) return nothing;
  return html`${canEdit ? html`<button type="button" @click=${() => startEditing(opened)}>${icon("edit")} ${t("Edit")}</button>` : nothing}
    ${menu(t("More"), [
      {
        text: t("Copy link"),
        icon: "link",
        run: () => copyAndNotify(`${location.origin}/${linkToDocument(source, id)}`, t("Link copied.")),
      },
      exported && { text: t("Export Markdown"), icon: "download", ...exported },
      item.transcript && {
        text: t("Copy transcript"),
        icon: "copy",
        run: () => copyAndNotify(transcript, t("Transcript copied.")),
      },
      item.transcript && { text: t("Download SRT"), icon: "download", run: () => exportSrt(opened).catch(notifyError) },
      erase && can("write") && { text: t("Delete"), icon: "trash", isDangerous: true, run: () => erase(opened) },
    ])}`;
}

function saveFile(name, type, text) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([text], { type }));
  anchor.download = name.replace(/^(.{60}).*(\.\w+)$/, "$1$2");
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

async function exportSrt({ id, title }) {
  const { content } = await get(withQuery(url`/api/media/${id}/transcript`, { format: "srt" }));
  saveFile(`${title}.srt`, "application/x-subrip", content);
}

// The whole conversation, also the turns that are not loaded yet.
async function exportConversation({ source, title, turns, item }) {
  const all = source === "archive" ? (await get(url`/api/archive/${item.id}`)).messages : await turns.loadAll();
  const sections = all.map((turn) => {
    const when = turn.created_at ?? turn.ts;
    return `## ${turn.sender ?? turn.role}${when ? `, ${when}` : ""}\n\n${turn.content ?? turn.text}\n`;
  });
  saveFile(`${title}.md`, "text/markdown", [`# ${title}\n`, ...sections].join("\n"));
}

// It can be restored, so nothing is asked.
async function deleteItem({ source, item, id }) {
  try {
    const { deleteDocument } = await import("./library/trash.js");
    await deleteDocument(source, item.id ?? id, () => goTo(linkToDocument(source, id)));
    goTo(link(["library", source]));
  } catch (error) {
    notifyError(error);
  }
}

const confirmDeleteSession = ({ title, item }) =>
  confirmDialog(
    t("Delete session"),
    t("“{title}” and its transcript will be deleted for good.", { title }),
    "Delete",
    async () => {
      await remove(url`/api/v1/agents/${item.agent}/sessions/${item.session}`);
      notify(t("Deleted."));
      goTo(link(["library", "sessions"]));
    },
  );
