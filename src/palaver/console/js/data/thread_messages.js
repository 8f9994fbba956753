// @ts-check
// The messages of one open thread: the newest ones, or those around one message. More are loaded while the reader scrolls,
// and distant ones are dropped, so a thread can have any length.

import { notify } from "../ui/dialog.js";
import { nextFrame, redraw, t } from "../ui/templates.js";
import { get, RequestError, url, withQuery } from "./api.js";
import { EventReplay, on } from "./events.js";
import { readMarks } from "./read_marks.js";

const FIRST_PAGE = 24; // fills a window; preload.js requests the same number
const PAGE = 60;
const MAX_MESSAGES = 120;
const SLICE = 6; // messages that are drawn in one frame while the reader scrolls

export class ThreadMessages {
  /** @type {import("./types.js").Message[]} */
  messages = [];
  hasOlder = false;
  hasNewer = false;
  /** @type {import("./types.js").Thread | null} */
  thread = null;
  /** @type {any} */
  error = null;
  isLoaded = false;
  latestSeq = 0; // of the newest message of the thread, loaded or not
  isKeptUnread = false; // the reader has marked messages unread: what is in view does not count as read
  arrived = new Set(); // ids of messages that have just arrived: until `settleSome`, they are laid out only in view
  #replay = new EventReplay();
  #subscriptions;
  #isLoadingMore = false;
  #place = 0; // counts the loads of another part of the thread: they end a load of more messages
  /** @type {Promise<void> | null} */
  #mark = null; // resolves when the read mark is known
  #repliedTo = new Map(); // messages that are quoted but not loaded

  constructor(threadId) {
    this.id = threadId;
    const ours = (handle) => (event) => event.thread_id === this.id && handle(event);
    this.#subscriptions = [
      on(
        "thread.state",
        ours(() => this.#loadThread()),
      ),
      on(
        "thread.deleted",
        ours(() => this.#fail("The thread has been deleted.")),
      ),
      on("reset", () => this.load(this.messages.at(-1)?.id, { isAtEnd: !this.hasNewer })),
      this.#replay.on("msg.new", (message) => {
        if (message.seq <= this.firstSeq && !this.hasNewer) return;
        if (this.#insert(message)) this.arrived.add(message.id);
      }),
      this.#replay.on("msg.edit", ({ message_id, content, edited_at, edit_version, metadata }) =>
        this.#change(message_id, (message) => Object.assign(message, { content, edited_at, edit_version, metadata })),
      ),
      this.#replay.on("msg.delete", ({ message_id }) => {
        this.messages = this.messages.filter((message) => message.id !== message_id);
        redraw();
      }),
      this.#replay.on("msg.react", (reaction) =>
        this.#change(reaction.message_id, (message) => addReaction(message, reaction)),
      ),
      this.#replay.on("msg.unreact", (reaction) =>
        this.#change(reaction.message_id, (message) => removeReaction(message, reaction)),
      ),
    ];
  }

  close() {
    for (const unsubscribe of this.#subscriptions) unsubscribe();
  }

  get firstSeq() {
    return this.messages[0]?.seq ?? 0;
  }

  get lastSeq() {
    return this.messages.at(-1)?.seq ?? 0;
  }

  find(messageId) {
    return this.messages.find((message) => message.id === messageId);
  }

  // Load the thread and the messages around one message, or those that are unread, or the newest ones.
  async load(/** @type {string | null | undefined} */ messageId = null, { isAtEnd = false } = {}) {
    this.error = null;
    this.#mark = null;
    this.isLoaded = this.messages.length > 0;
    try {
      const loadPlace = () => (messageId ? this.loadAround(messageId) : this.#loadUnread());
      const load = isAtEnd ? this.loadNewest() : loadPlace();
      await Promise.all([this.#loadThread(), this.#loadMark(), load]);
    } catch (error) {
      this.error ??= error;
    }
    this.isLoaded = true;
    redraw();
  }

  async #loadThread() {
    try {
      this.thread = await get(url`/api/threads/${this.id}`);
      this.latestSeq = Math.max(this.latestSeq, this.thread?.current_seq ?? 0);
      redraw();
    } catch (error) {
      if (this.thread) return;
      if (error.status === 404)
        this.#fail("This thread does not exist. It may have been deleted, or the link is incomplete.");
      else this.error = error;
    }
  }

  #loadMark() {
    this.#mark ??= readMarks.has(this.id)
      ? Promise.resolve()
      : get(url`/api/threads/${this.id}/read-mark`).then(({ seq }) => readMarks.load(this.id, seq));
    return this.#mark;
  }

  // The newest messages, or those around the first unread one if it is not among them.
  async #loadUnread() {
    await Promise.all([this.#loadMark(), this.loadNewest()]);
    const readSeq = readMarks.get(this.id);
    if (this.hasOlder && this.firstSeq > readSeq + 1) await this.loadAfter(readSeq);
  }

  #fail(message) {
    this.error = new RequestError(message, 404);
    redraw();
  }

  #getPage = (query) => get(withQuery(url`/api/threads/${this.id}/messages`, query));

  loadNewest = () =>
    this.#replay.during(async () => {
      this.messages = await this.#getPage({ newest: true, limit: FIRST_PAGE });
      this.#place += 1;
      this.hasOlder = this.messages.length === FIRST_PAGE && this.firstSeq > 1;
      this.hasNewer = false;
      this.latestSeq = Math.max(this.latestSeq, this.lastSeq);
      redraw();
    });

  // The messages after this one, and some before them.
  loadAfter = (seq) =>
    this.#replay.during(async () => {
      const [before, after] = await Promise.all([
        this.#getPage({ before_seq: seq + 1, limit: FIRST_PAGE }),
        this.#getPage({ after_seq: seq, limit: PAGE }),
      ]);
      this.#place += 1;
      this.messages = [...before, ...after];
      this.hasOlder = before.length === FIRST_PAGE && before[0].seq > 1;
      this.hasNewer = after.length === PAGE;
      redraw();
    });

  loadAround = (messageId) =>
    this.#replay.during(async () => {
      const message = await get(url`/api/messages/${messageId}`).catch((error) => {
        if (error.status !== 404) throw error;
      });
      if (message?.thread_id !== this.id) {
        notify(t("The message of this link does not exist any more."));
        return this.loadNewest();
      }
      const half = PAGE / 2;
      const [before, after] = await Promise.all([
        this.#getPage({ before_seq: message.seq, limit: half }),
        this.#getPage({ after_seq: message.seq, limit: half }),
      ]);
      this.#place += 1;
      this.messages = [...before, message, ...after];
      this.hasOlder = before.length === half;
      this.hasNewer = after.length === half;
      redraw();
    });

  // Returns whether there were older messages.
  loadOlder = () =>
    this.#loadMore(async () => {
      if (!this.hasOlder) return false;
      const place = this.#place;
      const found = await this.#getPage({ before_seq: this.firstSeq, limit: PAGE });
      for (let end = found.length; end > 0; end -= SLICE) {
        if (end < found.length) await nextFrame();
        if (place !== this.#place) return false;
        this.messages = [...found.slice(Math.max(0, end - SLICE), end), ...this.messages];
        if (this.messages.length > MAX_MESSAGES) {
          this.messages = this.messages.slice(0, MAX_MESSAGES);
          this.hasNewer = true;
        }
        redraw();
      }
      this.hasOlder = found.length === PAGE && found[0].seq > 1;
      return found.length > 0;
    });

  // Returns whether there were newer messages.
  loadNewer = () =>
    this.#loadMore(async () => {
      if (!this.hasNewer) return false;
      const place = this.#place;
      const found = await this.#getPage({ after_seq: this.lastSeq, limit: PAGE });
      for (let start = 0; start < found.length; start += SLICE) {
        if (start) await nextFrame();
        if (place !== this.#place) return false;
        this.messages = [...this.messages, ...found.slice(start, start + SLICE)];
        if (this.messages.length > MAX_MESSAGES) {
          this.messages = this.messages.slice(-MAX_MESSAGES);
          this.hasOlder = true;
        }
        redraw();
      }
      this.hasNewer = found.length === PAGE;
      return found.length > 0;
    });

  async #loadMore(load) {
    if (this.#isLoadingMore) return false;
    this.#isLoadingMore = true;
    try {
      return await this.#replay.during(load);
    } catch {
      return false; // the "state" event says that the server is offline
    } finally {
      this.#isLoadingMore = false;
    }
  }

  // Add a message that was sent from here. Its event may have arrived already.
  add = (message) => this.#replay.apply(() => this.#insert(message));

  // Lay out some of the messages that have just arrived, all of which may be too much for one frame. Returns whether there
  // were any.
  settleSome() {
    const some = [...this.arrived].slice(0, SLICE);
    for (const id of some) this.arrived.delete(id);
    return some.length > 0;
  }

  // Returns whether the message is new here.
  #insert(message) {
    if (message.thread_id !== this.id || this.find(message.id)) return false;
    this.latestSeq = Math.max(this.latestSeq, message.seq);
    if (!this.hasNewer) {
      const position = this.messages.findLastIndex((known) => known.seq < message.seq) + 1;
      this.messages = this.messages.toSpliced(position, 0, message);
    }
    redraw();
    return true;
  }

  #change(messageId, change) {
    const message = this.find(messageId) ?? this.#repliedTo.get(messageId);
    if (!message) return;
    change(message);
    redraw();
  }

  // The message to which another one replies, or null until it is loaded.
  repliedTo(messageId) {
    const known = this.find(messageId) ?? this.#repliedTo.get(messageId);
    if (known !== undefined) return known;
    this.#repliedTo.set(messageId, null);
    get(url`/api/messages/${messageId}`)
      .then((message) => (this.#repliedTo.set(messageId, message), redraw()))
      .catch(() => {});
    return null;
  }

  get unreadCount() {
    return Math.max(0, this.latestSeq - readMarks.get(this.id));
  }

  // Messages up to this one were in view.
  markRead(seq) {
    if (!this.isKeptUnread && readMarks.has(this.id)) readMarks.advance(this.id, seq);
  }

  // The message and those after it are unread until the thread is opened again.
  markUnread(message) {
    this.isKeptUnread = true;
    readMarks.moveBack(this.id, message.seq - 1);
  }
}

/** @type {(message: any, reaction: any) => void} */
export function addReaction(message, { reaction_id: id, agent_id, agent_name, reaction }) {
  const isKnown = message.reactions.some((one) => one.reaction === reaction && one.agent_id === agent_id);
  if (!isKnown) message.reactions = [...message.reactions, { id, agent_id, agent_name, reaction }];
}

export function removeReaction(message, { agent_id, reaction }) {
  message.reactions = message.reactions.filter((one) => one.reaction !== reaction || one.agent_id !== agent_id);
}
