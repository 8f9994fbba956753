// One thread as it is read: a window of its messages. It holds the newest, or the surroundings of one message; older and
// newer ones come as one scrolls, and what is far away is let go, so a thread may be as long as it likes.

import { at, get, withQuery } from "./api.js";
import { Meanwhile, on } from "./live.js";
import { notify } from "./parts.js";
import { seen } from "./state.js";
import { redraw } from "./view.js";

const FIRST = 24; // fills a window; more comes as soon as that stands there (early.js asks for as many)
const PAGE = 60;
const MOST = 240;

export class Talk {
  messages = [];
  hasOlder = false;
  hasNewer = false;
  thread = null;
  problem = null;
  isLoaded = false;
  missed = new Set(); // what arrived while one was reading further up
  #ears = [];
  #news = new Meanwhile();
  #isBusy = false;
  #replied = new Map();

  constructor(threadId) {
    this.id = threadId;
    this.#ears = [
      on("thread.state", ({ thread_id }) => thread_id === this.id && this.#loadThread()),
      on("thread.deleted", ({ thread_id }) => thread_id === this.id && this.#gone()),
      on("reset", () => this.reload()),
      this.#news.on("msg.new", (message) => this.#hear(message)),
      this.#news.on("msg.edit", (edit) => this.#change(edit.message_id, (m) => Object.assign(m, pick(edit)))),
      this.#news.on("msg.delete", ({ message_id }) => this.#forget(message_id)),
      this.#news.on("msg.react", (reaction) => this.#change(reaction.message_id, (m) => addReaction(m, reaction))),
      this.#news.on("msg.unreact", (gone) => this.#change(gone.message_id, (m) => removeReaction(m, gone))),
    ];
  }

  leave() {
    for (const stop of this.#ears) stop();
  }

  get first() {
    return this.messages[0]?.seq ?? 0;
  }

  get last() {
    return this.messages.at(-1)?.seq ?? 0;
  }

  find(messageId) {
    return this.messages.find((message) => message.id === messageId);
  }

  async open(messageId) {
    this.problem = null;
    try {
      await Promise.all([this.#loadThread(), messageId ? this.around(messageId) : this.newest()]);
    } catch (problem) {
      this.problem ??= problem;
    }
    this.isLoaded = true;
    redraw();
  }

  async #loadThread() {
    try {
      this.thread = await get(at`/api/threads/${this.id}`);
    } catch (problem) {
      if (!this.thread) this.problem = problem.status === 404 ? notHere(LOST) : problem;
    }
    redraw();
  }

  #page = (query) => get(withQuery(at`/api/threads/${this.id}/messages`, query));

  newest = () =>
    this.#news.during(async () => {
      const found = await this.#page({ newest: true, limit: FIRST });
      this.messages = found;
      this.hasOlder = found.length === FIRST && found[0].seq > 1;
      this.hasNewer = false;
      this.missed.clear();
      redraw();
    });

  around = (messageId) => this.#news.during(() => this.#around(messageId));

  async #around(messageId) {
    const message = await get(at`/api/messages/${messageId}`).catch(gone);
    if (message?.thread_id !== this.id) {
      notify("The message this link means is not here any more.");
      return this.newest();
    }
    const half = PAGE / 2;
    const [before, after] = await Promise.all([
      this.#page({ before_seq: message.seq, limit: half }),
      this.#page({ after_seq: message.seq, limit: half }),
    ]);
    this.messages = [...before, message, ...after];
    this.hasOlder = before.length === half;
    this.hasNewer = after.length === half;
    redraw();
  }

  // Each returns whether there was something: whoever scrolls keeps what is in view where it is.
  older = () =>
    this.#more(async () => {
      if (!this.hasOlder) return false;
      const found = await this.#page({ before_seq: this.first, limit: PAGE });
      this.messages = [...found, ...this.messages];
      this.hasOlder = found.length === PAGE && found[0].seq > 1;
      if (this.messages.length > MOST) {
        this.messages = this.messages.slice(0, MOST);
        this.hasNewer = true;
      }
      return found.length > 0;
    });

  newer = () =>
    this.#more(async () => {
      if (!this.hasNewer) return false;
      const found = await this.#page({ after_seq: this.last, limit: PAGE });
      this.messages = [...this.messages, ...found];
      this.hasNewer = found.length === PAGE;
      if (!this.hasNewer) this.missed.clear();
      if (this.messages.length > MOST) {
        this.messages = this.messages.slice(-MOST);
        this.hasOlder = true;
      }
      return found.length > 0;
    });

  async #more(load) {
    if (this.#isBusy) return false;
    this.#isBusy = true;
    try {
      return await this.#news.during(load);
    } catch {
      return false; // the stream says when the server is away
    } finally {
      this.#isBusy = false;
    }
  }

  async reload() {
    const reading = this.hasNewer ? this.messages.at(-1) : null;
    await this.open(reading?.id);
  }

  // What was posted here, or arrives from elsewhere: it is the same message.
  take = (message) => this.#news.tell(() => this.#take(message));

  #take(message) {
    if (message.thread_id !== this.id) return false;
    if (this.messages.some((known) => known.id === message.id)) return false;
    if (this.hasNewer) {
      this.missed.add(message.id);
      redraw();
      return false;
    }
    const place = this.messages.findLastIndex((known) => known.seq < message.seq) + 1;
    this.messages = this.messages.toSpliced(place, 0, message);
    redraw();
    return true;
  }

  #hear(message) {
    if (message.seq > this.first || this.hasNewer) this.#take(message);
  }

  #change(messageId, change) {
    const message = this.find(messageId) ?? this.#replied.get(messageId);
    if (!message) return;
    change(message);
    redraw();
  }

  #forget(messageId) {
    if (!this.find(messageId)) return;
    this.messages = this.messages.filter((message) => message.id !== messageId);
    redraw();
  }

  #gone() {
    this.problem = notHere("The thread has been deleted.");
    redraw();
  }

  // The message another one answers, wherever in the thread it stands.
  answered(messageId) {
    const known = this.find(messageId) ?? this.#replied.get(messageId);
    if (known !== undefined) return known;
    this.#replied.set(messageId, null);
    get(at`/api/messages/${messageId}`)
      .then((message) => (this.#replied.set(messageId, message), redraw()))
      .catch(() => {});
    return null;
  }

  markRead() {
    if (!this.hasNewer && this.messages.length) seen.mark(this.id, this.last);
  }
}

const LOST = "There is no thread at this address. It may have been deleted, or the link is not whole.";
const notHere = (text) => Object.assign(new Error(text), { status: 404 });

function gone(problem) {
  if (problem.status !== 404) throw problem;
  return null;
}

const pick = ({ content, edited_at, edit_version, metadata }) => ({ content, edited_at, edit_version, metadata });

export function addReaction(message, { reaction_id: id, agent_id, agent_name, reaction }) {
  const isThere = message.reactions.some((one) => one.reaction === reaction && one.agent_id === agent_id);
  if (!isThere) message.reactions = [...message.reactions, { id, agent_id, agent_name, reaction }];
}

export function removeReaction(message, { agent_id, reaction }) {
  message.reactions = message.reactions.filter((one) => one.reaction !== reaction || one.agent_id !== agent_id);
}
