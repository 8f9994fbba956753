// The threads: the list at the side, and what can be done with one.

import { at, get, post, put, remove, withQuery } from "./api.js";
import { Meanwhile, on } from "./live.js";
import {
  askFor,
  askWhether,
  choice,
  count,
  empty,
  face,
  failed,
  icon,
  notify,
  openDialog,
  plain,
  plural,
  shortTime,
  trouble,
  waiting,
} from "./parts.js";
import { agentNamed, people } from "./people.js";
import { go, toThread } from "./route.js";
import { keep, may, me, seen } from "./state.js";
import { guard, html, nothing, redraw, repeat } from "./view.js";

const FIRST = 60; // enough to fill a window; the others come while one looks
const PAGE = 300;
const MOST = 3000;

export const STATUSES = ["discuss", "implement", "review", "done", "closed", "archived"];

export const threads = {
  byId: new Map(),
  isLoaded: false,
  problem: null,
  filter: "",
  show: keep.read("threads.show", "open"), // open, unread, all
  hasMore: false,
};

const news = new Meanwhile();

export const loadThreads = () => news.during(readThreads);

async function readThreads() {
  try {
    const found = [];
    let page;
    do {
      const query = {
        limit: found.length ? PAGE : FIRST,
        offset: found.length,
        include_archived: threads.show === "all",
      };
      page = await get(withQuery("/api/threads/glance", query));
      found.push(...page.threads);
      if (found.length === page.threads.length) keepAll(found, false); // the first page is shown while the others come
    } while (page.has_more && found.length < MOST);
    keepAll(found, true);
    threads.hasMore = page.has_more;
    threads.problem = null;
  } catch (problem) {
    threads.problem = problem;
  }
  threads.isLoaded = true;
  redraw();
}

function keepAll(found, isAll) {
  seen.meet(
    found.map(({ thread }) => thread),
    isAll,
  );
  threads.byId = new Map(found.map((glance) => [glance.thread.id, item(glance)]));
  threads.isLoaded = true;
  redraw();
}

function item({ thread, last_message: last, participants }) {
  return { ...thread, last, participants };
}

export const latest = (thread) => thread.last?.created_at ?? thread.created_at;
export const unread = (thread) => Math.max(0, thread.current_seq - seen.of(thread.id));
export const unreadThreads = () =>
  [...threads.byId.values()].filter((thread) => unread(thread) && thread.status !== "archived").length;

export function shownThreads() {
  const wanted = threads.filter.trim().toLowerCase();
  return [...threads.byId.values()]
    .filter(
      (thread) =>
        threads.show === "all" ||
        (thread.status !== "archived" && (threads.show !== "unread" || unread(thread) || thread.id === current())),
    )
    .filter(
      (thread) =>
        !wanted ||
        thread.topic.toLowerCase().includes(wanted) ||
        thread.status === wanted ||
        thread.participants.some((name) => name.toLowerCase().includes(wanted)),
    )
    .sort((a, b) => Boolean(b.metadata?.pinned) - Boolean(a.metadata?.pinned) || (latest(a) < latest(b) ? 1 : -1));
}

const current = () => location.hash.match(/^#\/threads\/([^?]+)/)?.[1];

// News

news.on("msg.new", (message) => {
  const thread = threads.byId.get(message.thread_id);
  if (!thread) return refresh(message.thread_id);
  if (message.seq <= thread.current_seq) return;
  thread.current_seq = message.seq;
  thread.message_count += 1;
  thread.last = {
    seq: message.seq,
    author_name: message.author_name,
    text: message.content.slice(0, 200),
    is_human_only: isHumanOnly(message.metadata),
    created_at: message.created_at,
  };
  thread.participants = [message.author_name, ...thread.participants.filter((name) => name !== message.author_name)];
  redraw();
});

news.on("msg.edit", (edit) => {
  const thread = threads.byId.get(edit.thread_id);
  if (thread?.last?.seq !== edit.seq) return;
  thread.last.text = edit.content.slice(0, 200);
  redraw();
});

news.on("msg.delete", ({ thread_id }) => threads.byId.has(thread_id) && again());
news.on("thread.new", ({ thread_id }) => refresh(thread_id));
news.on("thread.state", ({ thread_id }) => refresh(thread_id));
news.on("thread.deleted", ({ thread_id }) => {
  threads.byId.delete(thread_id);
  redraw();
});
on("reset", () => loadThreads());

export const isHumanOnly = (metadata) =>
  metadata?.visibility === "human_only" || metadata?.audience === "human" || metadata?.human_only === true;

async function refresh(threadId) {
  try {
    const thread = await get(at`/api/threads/${threadId}`);
    const known = threads.byId.get(threadId);
    if (thread.status === "archived" && threads.show !== "all") threads.byId.delete(threadId);
    else if (known) Object.assign(known, thread, { current_seq: Math.max(thread.current_seq, known.current_seq) });
    else if (thread.message_count) again();
    else threads.byId.set(threadId, { ...thread, last: null, participants: [] });
    redraw();
  } catch (problem) {
    if (problem.status === 404) threads.byId.delete(threadId);
  }
}

let isDue = false;
function again() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    loadThreads();
  }, 200);
}

// What can be done

export function newThread() {
  askFor("New thread", { label: "What is it about?", action: "Open" }, async (topic) => {
    const thread = await post("/api/threads", { topic });
    if (!threads.byId.has(thread.id)) threads.byId.set(thread.id, { ...thread, last: null, participants: [] });
    go(toThread(thread.id));
  });
}

export function renameThread(thread) {
  askFor("Rename thread", { label: "Topic", value: thread.topic }, (topic) => change(thread, { topic }));
}

export async function change(thread, what) {
  const changed = await put(at`/api/threads/${thread.id}`, what);
  Object.assign(threads.byId.get(thread.id) ?? {}, changed);
  redraw();
  return changed;
}

export const pin = (thread) => change(thread, { metadata: { pinned: !thread.metadata?.pinned } }).catch(failed);

export async function archive(thread) {
  const isBack = thread.status === "archived";
  await post(at`/api/threads/${thread.id}/${isBack ? "unarchive" : "archive"}`).catch(failed);
  notify(isBack ? "Back in the list." : "Archived. It stays searchable.");
  await refresh(thread.id);
}

export function removeThread(thread) {
  askWhether(
    "Delete thread",
    `“${thread.topic}” and its ${plural(thread.message_count, "message")} will be gone for good. Archiving keeps them.`,
    "Delete",
    async () => {
      await remove(at`/api/threads/${thread.id}`);
      threads.byId.delete(thread.id);
      go("#/threads");
    },
  );
}

export function aboutThread(thread, participants) {
  openDialog(
    "About this thread",
    () => html`<dl class="facts">
    <dt>Topic</dt><dd>${thread.topic}</dd>
    <dt>Status</dt><dd>${thread.status}</dd>
    <dt>Messages</dt><dd>${count(thread.message_count)}</dd>
    <dt>Began</dt><dd>${shortTime(thread.created_at)}</dd>
    ${thread.summary ? html`<dt>Outcome</dt><dd>${thread.summary}</dd>` : nothing}
    ${thread.system_prompt ? html`<dt>Rules</dt><dd class="pre">${thread.system_prompt}</dd>` : nothing}
    ${thread.template_id ? html`<dt>Template</dt><dd>${thread.template_id}</dd>` : nothing}
    <dt>People</dt><dd>${participants.join(", ") || "Nobody yet"}</dd>
    <dt>Id</dt><dd><code>${thread.id}</code></dd>
  </dl>`,
  );
}

// The list

export function threadList(openId) {
  const shown = shownThreads();
  return html`<aside class="list" aria-label="Threads">
    <header>
      <h1>Threads</h1>
      ${may("write") ? html`<button type="button" class="quiet" aria-label="New thread" title="New thread (n)" @click=${newThread}>${icon("plus")}</button>` : nothing}
    </header>
    <div class="filters">
      <label class="find"><span class="hidden">Filter threads</span>
        <input type="search" placeholder="Filter" .value=${threads.filter} autocomplete="off"
          @input=${(event) => ((threads.filter = event.target.value), redraw())} /></label>
      ${choice("Which threads", SHOWN, threads.show, choose)}
    </div>
    ${body(shown, openId)}
  </aside>`;
}

const SHOWN = [
  ["open", "Open"],
  ["unread", "Unread"],
  ["all", "All"],
];

function choose(name) {
  threads.show = name;
  keep.write("threads.show", name);
  loadThreads();
}

function body(shown, openId) {
  if (threads.problem && !threads.byId.size) return trouble(threads.problem, loadThreads);
  if (!threads.isLoaded) return waiting();
  if (!shown.length) {
    if (threads.filter) return empty("search", "No such thread", "No topic, status or name here matches the filter.");
    if (threads.show === "unread") return empty("check", "All read", "Nothing new since you last looked.");
    return empty(
      "threads",
      "No threads yet",
      "Open one, or connect an agent and let it begin.",
      may("write") ? html`<button type="button" class="main" @click=${newThread}>New thread</button>` : nothing,
    );
  }
  return html`<ul class="threads">
    ${repeat(
      shown,
      (thread) => thread.id,
      (thread) => {
        const isOpen = thread.id === openId;
        const news = isOpen ? 0 : unread(thread);
        const about = [
          thread.topic,
          thread.status,
          thread.metadata,
          thread.last,
          thread.last?.text,
          thread.participants,
          isOpen,
          news,
          me.name,
          people.agents,
        ];
        return guard(about, () => row(thread, isOpen, news));
      },
    )}
    ${threads.hasMore ? html`<li class="end">The latest ${count(threads.byId.size)} threads. Search finds the others.</li>` : nothing}
  </ul>`;
}

function row(thread, isOpen, news) {
  return html`<li><a href=${toThread(thread.id)} class=${news ? "unread" : ""} aria-current=${isOpen ? "page" : nothing} data-thread=${thread.id}>
    <span class="line">
      <span class="topic">${thread.metadata?.pinned ? html`<span class="pinned" title="Pinned">${icon("pin")}</span>` : nothing}${thread.topic}</span>
      <time datetime=${latest(thread)}>${shortTime(latest(thread))}</time>
    </span>
    <span class="line">
      <span class="last">${thread.last ? said(thread.last) : "No messages yet"}</span>
      ${thread.status === "discuss" ? nothing : html`<i class="status" data-status=${thread.status}>${thread.status}</i>`}
      ${news ? html`<b class="news" aria-label="${news} unread">${news > 99 ? "99+" : news}</b>` : nothing}
      <span class="faces">${thread.participants.slice(0, 3).map((name) => face(name, { isAgent: Boolean(agentNamed(name)) }))}</span>
    </span>
  </a></li>`;
}

const said = (last) =>
  html`<b>${last.author_name === me.name ? "You" : last.author_name}:</b> ${last.is_human_only ? icon("lock") : nothing} ${plain(last.text)}`;
