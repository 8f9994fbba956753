// @ts-check
// One message of a thread: author, time, quote, text, images, reactions and actions.

import { agentsByName, findAgent } from "../../data/agents.js";
import { get, put, remove, url } from "../../data/api.js";
import { messageEdits } from "../../data/drafts.js";
import { findPerson, peopleCount } from "../../data/mentions.js";
import { receiptsOf } from "../../data/receipts.js";
import { can, me } from "../../data/session.js";
import { settings } from "../../data/settings.js";
import { isHumanOnly, isMine } from "../../data/threads.js";
import { link, linkToThread } from "../../route.js";
import { copyAndNotify } from "../../ui/clipboard.js";
import { confirmDialog, notifyError, openDialog } from "../../ui/dialog.js";
import { avatar, errorState, icon, iconButton, loading, menu } from "../../ui/elements.js";
import {
  bareClockTime,
  clockTime,
  dayKey,
  dayName,
  formatNumber,
  fullTime,
  momentOf,
  plainText,
  timeElement,
} from "../../ui/format.js";
import { renderMarkdown } from "../../ui/markdown.js";
import { guard, html, nothing, redraw, t } from "../../ui/templates.js";
import { attachedFiles, fileCards } from "./attachments.js";
import { reactionPicker, reactionPills } from "./reactions.js";
import { receiptMarks } from "./receipts.js";

const GROUP_TIME = 5 * 60 * 1000; // messages of one author within this time have one header
const FOLD_LENGTH = 6000; // characters
const FOLD_LINES = 80;

const unfolded = new Set(); // ids of long messages shown in full
let activeId = null; // the message under the pointer or with the focus

const canChange = (message) => can("write") && (!me.needsLogin || isMine(message) || can("admin"));
const isImportant = (message) => ["high", "urgent"].includes(message.priority);

// A key and a template for each message. A template is drawn again only if something it shows has changed.
export function messageTemplates(thread, { linkedId, unread, markUnread, reply }) {
  /** @type {import("../../data/types.js").Message | null} */
  let previous = null;
  return thread.messages.map((message) => {
    const isFirstUnread =
      unread !== null &&
      message.seq > unread.after &&
      (previous ? previous.seq <= unread.after : !thread.hasOlder) &&
      !isMine(message);
    const isNewDay = !previous || dayKey(previous.created_at) !== dayKey(message.created_at);
    const isGrouped =
      previous !== null &&
      !isNewDay &&
      previous.author_name === message.author_name &&
      !message.reply_to_msg_id &&
      isHumanOnly(previous.metadata) === isHumanOnly(message.metadata) &&
      new Date(message.created_at).getTime() - new Date(previous.created_at).getTime() < GROUP_TIME;
    previous = message;
    const agent = findAgent(message.author_id ?? message.author_name);
    const repliedTo = message.reply_to_msg_id ? thread.repliedTo(message.reply_to_msg_id) : null;
    const isLinked = linkedId === message.id;
    const isLate = thread.arrived.has(message.id);
    const dependencies = [
      message,
      message.content,
      message.reactions,
      message.edit_version,
      receiptsOf(message.id),
      repliedTo,
      repliedTo?.content,
      isFirstUnread && unread.count,
      isNewDay,
      isGrouped,
      isLinked,
      isLate,
      activeId === message.id,
      messageEdits.has(message.id),
      unfolded.has(message.id),
      agent,
      agent?.is_online,
      namesKnownFor(message),
      me.name,
      settings.version,
    ];
    return {
      key: message.id,
      template: guard(
        dependencies,
        () => html`
      ${isNewDay ? html`<h2 class="day"><span>${dayName(message.created_at)}</span></h2>` : nothing}
      ${isFirstUnread ? html`<p class="new"><span>${t("{n} new since {time}", { n: formatNumber(unread.count), time: momentOf(message.created_at) })}</span></p>` : nothing}
      ${messageTemplate(message, { agent, repliedTo, isGrouped: isGrouped && !isFirstUnread, isLinked, isLate, reply, markUnread })}`,
      ),
    };
  });
}

function messageTemplate(message, { agent, repliedTo, isGrouped, isLinked, isLate, reply, markUnread }) {
  const isHidden = isHumanOnly(message.metadata);
  const classes = [
    "message",
    isGrouped && "going-on",
    isHidden && "for-humans",
    isLinked && "found",
    isLate && "late",
    isMine(message) && "mine",
    message.role === "system" && "system",
    isImportant(message) && message.priority,
  ];
  const messageLink = linkToThread(message.thread_id, message.id);
  const images = (message.metadata?.images ?? []).filter((image) => /^\/uploads\/[\w.-]+$/.test(image?.url ?? ""));
  return html`<article class=${classes.filter(Boolean).join(" ")} id="m-${message.id}" data-seq=${message.seq} tabindex="-1"
    aria-label=${t("Message {n} by {name}", { n: message.seq, name: message.author_name })}>
    <div class="side">${
      isGrouped
        ? html`<a class="when" href=${messageLink} tabindex="-1" aria-hidden="true" title=${fullTime(message.created_at)}>${bareClockTime(message.created_at)}</a>`
        : avatar(message.author_name, {
            isAgent: Boolean(agent ?? message.author_id),
            isOnline: agent ? agent.is_online : null,
          })
    }</div>
    <div class="what">
      ${
        isGrouped
          ? nothing
          : html`<header>
        <b class="author">${message.author_name}</b>
        ${agent?.model ? html`<span class="model">${agent.model}</span>` : nothing}
        ${["user", "assistant"].includes(message.role) ? nothing : html`<span class="role">${message.role}</span>`}
        <a class="when" href=${messageLink}>${timeElement(message.created_at, clockTime(message.created_at))}</a>
        <span class="seq">#${message.seq}</span>
      </header>`
      }
      ${isHidden ? html`<p class="only">${icon("lock")} ${t("Only people can read this. Agents see that a message is hidden.")}</p>` : nothing}
      ${isImportant(message) ? html`<p class="priority">${t(message.priority)}</p>` : nothing}
      ${
        message.reply_to_msg_id
          ? html`<a class="quote" href=${linkToThread(message.thread_id, message.reply_to_msg_id)}>
        ${icon("reply")} <b>${repliedTo?.author_name ?? t("An earlier message")}</b> ${repliedTo ? plainText(repliedTo.content).slice(0, 160) : ""}</a>`
          : nothing
      }
      ${messageEdits.has(message.id) ? editor(message) : text(message, isLinked)}
      ${
        images.length
          ? html`<div class="images">${images.map(
              (image) => html`<a class="picture" href=${image.url} target="_blank" rel="noopener"
        ><img src=${image.url} alt=${String(image.name ?? "image")} title=${String(image.name ?? "")} loading="lazy" /></a>`,
            )}</div>`
          : nothing
      }
      ${message.metadata?.question ? html`<p><a href=${link("questions", { question: message.id })}>${t("See it under Questions")}</a></p>` : nothing}
      ${fileCards(attachedFiles(message.metadata))}
      ${
        message.edit_version
          ? html`<button type="button" class="edited" @click=${() => showHistory(message)}
        title=${t("Edited {time}. Show earlier versions", { time: message.edited_at ? fullTime(message.edited_at) : "" })}>${t("edited")}</button>`
          : nothing
      }
      ${reactionPills(message)}
      ${receiptMarks(message, receiptsOf(message.id), repliedTo)}
    </div>
    ${activeId === message.id ? toolbar(message, reply, markUnread) : nothing}
  </article>`;
}

// A message on its way to the server.
export const pendingMessage = ({ text, images, files, isForHumans }) =>
  html`<article class="message pending ${isForHumans ? "for-humans" : ""}" aria-label=${t("Message being sent")}>
    <div class="side">${avatar(me.name)}</div>
    <div class="what"><header><b class="author">${me.name}</b><span class="when" role="status">${icon("clock")} ${t("Sending …")}</span></header>
      <div class="prose pre">${text || [...images, ...(files ?? [])].map(({ name }) => name).join(", ")}</div></div>
  </article>`;

// Only the active message has a toolbar: toolbars on all of them would be most of the page. While somebody scrolls, messages
// pass under the pointer. The one where it stops becomes active.
const SCROLL_END = 120; // milliseconds
let scrolledAt = -SCROLL_END;
/** @type {number | undefined} */
let activating;
document.addEventListener("scroll", (event) => (scrolledAt = event.timeStamp), { capture: true, passive: true });

export function updateActiveMessage(event) {
  const { target, type, timeStamp } = event;
  clearTimeout(activating);
  if (type === "pointerover" && timeStamp - scrolledAt < SCROLL_END)
    activating = setTimeout(() => updateActiveMessage({ target, type, timeStamp: performance.now() }), SCROLL_END);
  else activate(target.closest?.(".message")?.id.slice(2) ?? null);
}

function activate(id) {
  if (id === activeId || document.querySelector(".tools details[open]")) return;
  activeId = id;
  redraw();
}

function toolbar(message, reply, markUnread) {
  const link = `${location.origin}/${linkToThread(message.thread_id, message.id)}`;
  return html`<div class="tools" role="toolbar" aria-label=${t("Message actions")}>
      ${can("write") ? html`${reactionPicker(message)}${iconButton(t("Reply"), "reply", () => reply(message), "Reply (r)")}` : nothing}
      ${menu(t("More"), [
        { text: t("Copy link"), icon: "link", run: () => copyAndNotify(link, t("Link copied.")) },
        { text: t("Copy text"), icon: "copy", run: () => copyAndNotify(message.content, t("Text copied.")) },
        { text: t("Mark as unread"), icon: "unread", run: () => markUnread(message) },
        canChange(message) && { text: t("Edit"), icon: "edit", run: () => startEditing(message) },
        message.edit_version > 0 && { text: t("History"), icon: "clock", run: () => showHistory(message) },
        canChange(message) && {
          text: t("Delete"),
          icon: "trash",
          isDangerous: true,
          run: () => confirmDelete(message),
        },
      ])}
    </div>`;
}

// The number of names that a mention in this message may have: when it changes, the message is rendered again.
const namesKnownFor = ({ content }) => (content.includes("@") ? agentsByName.size + peopleCount() : 0);

// Names that are highlighted after an @.
const knownNames = { size: 1, has: (name) => agentsByName.has(name) || Boolean(findPerson(name)) };

// The Markdown of a message is rendered once, and again when the text or the known names change.
const rendered = new WeakMap();

function text(message, isLinked) {
  const { content } = message;
  const names = namesKnownFor(message);
  let cached = rendered.get(message);
  if (cached?.content !== content || cached.names !== names) {
    cached = { content, names, element: renderMarkdown(content, { mentions: knownNames }) };
    rendered.set(message, cached);
  }
  const isLong = content.length > FOLD_LENGTH || content.split("\n", FOLD_LINES + 1).length > FOLD_LINES;
  if (isLinked || unfolded.has(message.id) || !isLong) return cached.element;
  return html`<div class="folded">${cached.element}</div>
    <button type="button" class="unfold" @click=${() => (unfolded.add(message.id), redraw())}>${t("Show all")}</button>`;
}

export function startEditing(message) {
  messageEdits.set(message.id, message.content);
  redraw();
  setTimeout(() => {
    const textarea = document.querySelector(`#m-${CSS.escape(message.id)} textarea`);
    /** @type {HTMLTextAreaElement | null} */ (textarea)?.focus();
  });
}

function editor(message) {
  const close = () => (messageEdits.delete(message.id), redraw());
  const save = async (event) => {
    event.preventDefault();
    try {
      const saved = await put(url`/api/messages/${message.id}`, { content: messageEdits.get(message.id) });
      const { content, edited_at, edit_version } = saved;
      if (!saved.no_change) Object.assign(message, { content, edited_at, edit_version });
      close();
    } catch (error) {
      notifyError(error);
    }
  };
  const onKey = (event) => {
    if (event.key === "Escape") event.stopPropagation(), close();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) save(event);
  };
  return html`<form class="editor" @submit=${save}>
    <textarea aria-label=${t("Edit the message")} .value=${messageEdits.get(message.id)} @keydown=${onKey}
      @input=${(event) => messageEdits.set(message.id, event.target.value)}></textarea>
    <footer><button type="button" @click=${close}>${t("Cancel")}</button><button class="main">${t("Save")}</button></footer>
  </form>`;
}

const confirmDelete = (message) =>
  confirmDialog(
    t("Delete message"),
    "The message, its history and its reactions will be deleted for good.",
    "Delete",
    () => remove(url`/api/messages/${message.id}`),
  );

function showHistory(message) {
  /** @type {any} */
  let history = null;
  let error = null;
  openDialog(t("Edit history"), () => {
    if (error) return errorState(error);
    if (!history) return loading();
    const versions = [
      ...history.edits.map((edit) => ({
        text: edit.old_content,
        note: t("Until {time}, then edited by {name}", { time: fullTime(edit.created_at), name: edit.edited_by }),
      })),
      { text: history.current_content, note: t("Current version") },
    ];
    return html`<ol class="versions">${versions.reverse().map((one) => html`<li><small>${one.note}</small><div class="pre">${one.text}</div></li>`)}</ol>`;
  });
  get(url`/api/messages/${message.id}/history`)
    .then(
      (answer) => (history = answer),
      (problem) => (error = problem),
    )
    .finally(redraw);
}
