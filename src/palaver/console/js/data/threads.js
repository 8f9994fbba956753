// @ts-check
// The threads of this workspace: a list that is loaded once and then kept up to date by events.

import { redraw } from "../ui/templates.js";
import { get, post, put, remove, url, withQuery } from "./api.js";
import { EventReplay, on } from "./events.js";
import { readMarks } from "./read_marks.js";
import { me } from "./session.js";
import { soon } from "./soon.js";
import { storage } from "./storage.js";

const FIRST_PAGE = 60; // fills a window
const PAGE = 300;
const MAX_THREADS = 3000;
const FEW = 3; // so many threads are loaded one by one; for more, the list is loaded again
const REFRESH_INTERVAL = 3000; // milliseconds
const PREVIEW_LENGTH = 200; // characters of the last message

export const STATUSES = ["discuss", "implement", "review", "done", "closed", "archived"];

export const threads = {
  /** @type {Map<string, import("./types.js").ListedThread>} */
  byId: new Map(),
  isLoaded: false,
  error: /** @type {any} */ (null),
  filter: "",
  show: storage.read("threads.show", "open"), // open, unread or all
  hasMore: false,
};

const replay = new EventReplay();
let loadedAt = 0;

export const loadThreads = () =>
  replay.during(async () => {
    try {
      const found = [];
      let page;
      do {
        const query = {
          limit: found.length ? PAGE : FIRST_PAGE,
          offset: found.length,
          include_archived: threads.show === "all",
        };
        page = await get(withQuery("/api/threads/glance", query));
        found.push(...page.threads);
        const isLast = !page.has_more || found.length >= MAX_THREADS;
        if (isLast || found.length === page.threads.length) setThreads(found); // the first page is shown at once
      } while (page.has_more && found.length < MAX_THREADS);
      if (page.is_first_visit) await markAllRead();
      loadedAt = Date.now();
      threads.hasMore = page.has_more;
      threads.error = null;
    } catch (error) {
      threads.error = error;
    }
    threads.isLoaded = true;
    redraw();
  });

// Marks that were set on another device are loaded when this one is used again.
export function refreshMarks() {
  if (threads.isLoaded && Date.now() - loadedAt > REFRESH_INTERVAL) loadThreads();
}

export const markAllRead = () => readMarks.markAll([...threads.byId.values()]);

function setThreads(found) {
  threads.byId = new Map();
  addThreads(found);
  threads.isLoaded = true;
  redraw();
}

function addThreads(found) {
  for (const { thread, last_message: last, participants, read_seq } of found) {
    readMarks.load(thread.id, read_seq);
    threads.byId.set(thread.id, { ...thread, last, participants });
  }
}

export const lastActivity = (thread) => thread.last?.created_at ?? thread.created_at;
export const unreadCount = (thread) => Math.max(0, thread.current_seq - readMarks.get(thread.id));
export const unreadThreadCount = () =>
  [...threads.byId.values()].filter((thread) => unreadCount(thread) && thread.status !== "archived").length;

// The threads that match the filter, pinned ones first, then by last activity. The open thread is never hidden by "unread".
export function filteredThreads(openId) {
  const text = threads.filter.trim().toLowerCase();
  return [...threads.byId.values()]
    .filter((thread) => {
      if (threads.show !== "all" && thread.status === "archived") return false;
      if (threads.show === "open" && ["done", "closed"].includes(thread.status) && thread.id !== openId) return false;
      if (threads.show === "unread" && !unreadCount(thread) && thread.id !== openId) return false;
      const names = [thread.topic, ...thread.participants];
      return !text || thread.status === text || names.some((name) => name.toLowerCase().includes(text));
    })
    .sort(
      (a, b) =>
        Number(Boolean(b.metadata?.pinned)) - Number(Boolean(a.metadata?.pinned)) ||
        (lastActivity(a) < lastActivity(b) ? 1 : -1),
    );
}

export const isHumanOnly = (metadata) =>
  metadata?.visibility === "human_only" || metadata?.audience === "human" || metadata?.human_only === true;

export const isMine = (message) => message.author_name === me.name && !message.author_id;

// Events

replay.on("msg.new", (message) => {
  const thread = threads.byId.get(message.thread_id);
  if (!thread) return loadNewestSoon();
  if (message.seq <= thread.current_seq) return;
  thread.current_seq = message.seq;
  thread.message_count += 1;
  thread.last = {
    seq: message.seq,
    author_name: message.author_name,
    text: message.content.slice(0, PREVIEW_LENGTH),
    is_human_only: isHumanOnly(message.metadata),
    created_at: message.created_at,
  };
  thread.participants = [message.author_name, ...thread.participants.filter((name) => name !== message.author_name)];
  if (isMine(message)) readMarks.load(thread.id, message.seq); // written on another device, where the thread was read
  redraw();
});

replay.on("msg.edit", (edit) => {
  const thread = threads.byId.get(edit.thread_id);
  if (!thread?.last || thread.last.seq !== edit.seq) return;
  thread.last.text = edit.content.slice(0, PREVIEW_LENGTH);
  redraw();
});

replay.on("msg.delete", ({ thread_id }) => threads.byId.has(thread_id) && reloadSoon());
replay.on("thread.new", ({ thread_id }) => threads.byId.has(thread_id) || loadNewestSoon());
replay.on("thread.state", ({ thread_id }) => {
  changed.add(thread_id);
  loadChangedSoon();
});
replay.on("thread.deleted", ({ thread_id }) => {
  threads.byId.delete(thread_id);
  redraw();
});
on("reset", loadThreads);

const reloadSoon = soon(loadThreads, 200);

// Threads that are not in the list yet: they are in the first page, because they have the newest messages.
const loadNewestSoon = soon(
  () =>
    replay.during(async () => {
      const query = { limit: FIRST_PAGE, include_archived: threads.show === "all" };
      const page = await get(withQuery("/api/threads/glance", query)).catch(() => null);
      if (!page) return; // the list is loaded again when the connection is back
      const isMore = page.has_more && page.threads.every(({ thread }) => !threads.byId.has(thread.id));
      addThreads(page.threads);
      if (isMore) reloadSoon();
      redraw();
    }),
  30,
);

/** @type {Set<string>} The ids of threads whose topic, status or summary changed. */
const changed = new Set();

const loadChangedSoon = soon(async () => {
  const ids = [...changed];
  changed.clear();
  if (ids.length > FEW) reloadSoon();
  else await Promise.all(ids.map(refreshThread));
}, 30);

async function refreshThread(threadId) {
  try {
    const thread = await get(url`/api/threads/${threadId}`);
    const known = threads.byId.get(threadId);
    if (thread.status === "archived" && threads.show !== "all") threads.byId.delete(threadId);
    else if (known) Object.assign(known, thread, { current_seq: Math.max(thread.current_seq, known.current_seq) });
    else if (thread.message_count) reloadSoon();
    else threads.byId.set(threadId, { ...thread, last: null, participants: [] });
    redraw();
  } catch (error) {
    if (error.status === 404) threads.byId.delete(threadId);
  }
}

// Changes

export async function createThread(topic, { template, rules } = { template: "", rules: "" }) {
  const thread = await post("/api/threads", { topic, template: template || null, system_prompt: rules || null });
  if (!threads.byId.has(thread.id)) threads.byId.set(thread.id, { ...thread, last: null, participants: [] });
  return thread;
}

export async function updateThread(thread, changes) {
  const updated = await put(url`/api/threads/${thread.id}`, changes);
  Object.assign(threads.byId.get(thread.id) ?? {}, updated);
  redraw();
  return updated;
}

export async function setArchived(thread, isArchived) {
  await post(url`/api/threads/${thread.id}/${isArchived ? "archive" : "unarchive"}`);
  await refreshThread(thread.id);
}

export async function deleteThread(thread) {
  await remove(url`/api/threads/${thread.id}`);
  threads.byId.delete(thread.id);
}
