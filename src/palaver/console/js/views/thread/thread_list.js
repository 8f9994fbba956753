// @ts-check
// The list of threads beside an open thread.

import { agents, findAgent } from "../../data/agents.js";
import { unreadMentions } from "../../data/mentions.js";
import { can, me } from "../../data/session.js";
import { settings } from "../../data/settings.js";
import { storage } from "../../data/storage.js";
import {
  filteredThreads,
  lastActivity,
  loadThreads,
  markAllRead,
  threads,
  unreadCount,
  unreadThreadCount,
} from "../../data/threads.js";
import { linkToThread } from "../../route.js";
import { avatar, choice, emptyState, errorState, icon, iconButton, loading } from "../../ui/elements.js";
import { formatNumber, plainText, shortTime } from "../../ui/format.js";
import { notifyError } from "../../ui/dialog.js";
import { guard, html, nothing, redraw, repeat, t } from "../../ui/templates.js";
import { isWelcomeShown, welcome } from "../welcome.js";
import { newThread } from "./thread_dialogs.js";

const narrow = matchMedia("(max-width: 700px)");
narrow.addEventListener("change", redraw);

// Rows are drawn as the reader scrolls: hundreds of rows would make every frame slower.
const ROWS = 60;
const MORE_DISTANCE = 800; // pixels from the end of the list
let rowCount = ROWS;

function onScroll({ target }) {
  const rest = target.scrollHeight - target.scrollTop - target.clientHeight;
  if (rest > MORE_DISTANCE || rowCount >= threads.byId.size) return;
  rowCount += ROWS;
  redraw();
}

const SHOW = [
  ["open", "Open"],
  ["unread", "Unread"],
  ["all", "All"],
];

export function threadList(openId) {
  const show = (value) => {
    threads.show = value;
    rowCount = ROWS;
    storage.write("threads.show", value);
    loadThreads();
  };
  const filter = (event) => {
    threads.filter = event.target.value;
    rowCount = ROWS;
    redraw();
  };
  // A page has one main part. On a phone that is the list until a thread is opened.
  const isMain = !openId && narrow.matches;
  return html`<div class="list" role=${isMain ? "main" : "complementary"} aria-label=${t("Threads")} @scroll=${onScroll}>
    <div class="list-head">
      <h1>${t("Threads")}</h1>
      <span>
        <a class="quiet bell" href="#/mentions" aria-label=${mentionsLabel()} title=${mentionsLabel()}>${icon("at")}${
          unreadMentions().length ? html`<b class="news">${unreadMentions().length}</b>` : nothing
        }</a>
        ${unreadThreadCount() ? iconButton(t("Mark all as read"), "check", () => markAllRead().catch(notifyError)) : nothing}
        ${can("write") ? iconButton(t("New thread"), "plus", newThread, "New thread (n)") : nothing}</span>
    </div>
    <div class="filters">
      <label class="find"><span class="hidden">${t("Filter threads")}</span>
        <input type="search" placeholder=${t("Filter")} .value=${threads.filter} autocomplete="off"
          @input=${filter} /></label>
      ${choice(t("Show"), SHOW, threads.show, show)}
    </div>
    ${isMain && !threads.byId.size && isWelcomeShown() ? nothing : listBody(openId)}
    ${isMain && isWelcomeShown() ? welcome() : nothing}
  </div>`;
}

const mentionsLabel = () => {
  const count = unreadMentions().length;
  return count ? t("Mentions, {n} unread", { n: count }) : t("Mentions");
};

function listBody(openId) {
  if (threads.error && !threads.byId.size) return errorState(threads.error, loadThreads);
  if (!threads.isLoaded) return loading();
  const shown = filteredThreads(openId);
  if (!shown.length && threads.filter)
    return emptyState("search", "No matching threads", "No topic, status or participant matches the filter.");
  if (!shown.length && threads.show === "unread") return emptyState("check", "All read", "There are no new messages.");
  if (!shown.length)
    return emptyState(
      "threads",
      "No threads yet",
      "Create one, or connect an agent and let it start.",
      can("write") ? html`<button type="button" class="main" @click=${newThread}>${t("New thread")}</button>` : nothing,
    );
  // The open thread and some after it are always there, for the keys J and K.
  const openIndex = shown.findIndex((thread) => thread.id === openId);
  return html`<ul class="threads">
    ${repeat(
      shown.slice(0, Math.max(rowCount, openIndex + ROWS / 2)),
      (thread) => thread.id,
      (thread) => {
        const isOpen = thread.id === openId;
        const unread = unreadCount(thread);
        // A row is drawn again only when one of these changes.
        const dependencies = [
          thread.topic,
          thread.status,
          thread.metadata,
          thread.last,
          thread.last?.text,
          thread.participants,
          isOpen,
          unread,
          me.name,
          agents.list,
          settings.version,
        ];
        return guard(dependencies, () => row(thread, isOpen, unread));
      },
    )}
    ${threads.hasMore ? html`<li class="end">${t("These are the latest {n} threads. Use search to find older ones.", { n: formatNumber(threads.byId.size) })}</li>` : nothing}
  </ul>`;
}

function row(thread, isOpen, unread) {
  const { last } = thread;
  return html`<li><a href=${linkToThread(thread.id)} class=${unread ? "unread" : ""} aria-current=${isOpen ? "page" : nothing} data-thread=${thread.id}>
    <span class="line">
      <span class="topic">${thread.metadata?.pinned ? html`<span class="pinned" title=${t("Pinned")}>${icon("pin")}</span>` : nothing}${thread.topic}</span>
      <time datetime=${lastActivity(thread)}>${shortTime(lastActivity(thread))}</time>
    </span>
    <span class="line">
      <span class="last">${
        last
          ? html`<b>${last.author_name === me.name ? t("You") : last.author_name}:</b> ${last.is_human_only ? icon("lock") : nothing} ${plainText(last.text)}`
          : t("No messages yet")
      }</span>
      ${thread.status === "discuss" ? nothing : html`<i class="status" data-status=${thread.status}>${t(thread.status)}</i>`}
      ${unread ? html`<b class="news" aria-label=${t("{n} unread", { n: unread })}>${unread > 99 ? "99+" : unread}</b>` : nothing}
      <span class="faces">${thread.participants.slice(0, 3).map((name) => avatar(name, { isAgent: Boolean(findAgent(name)) }))}</span>
    </span>
  </a></li>`;
}
