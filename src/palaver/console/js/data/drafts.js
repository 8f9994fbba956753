// @ts-check
// Drafts: texts that are not sent or saved yet. This browser keeps them until they are sent, saved or discarded.

import { personalKey } from "./session.js";
import { storage } from "./storage.js";

// Messages that are not sent yet, one for each thread.
export const drafts = {
  get(threadId) {
    const saved = storage.read(`${personalKey("draft")}/${threadId}`);
    return typeof saved === "string" ? { text: saved } : saved; // early versions saved only the text
  },
  set: (threadId, draft) => storage.write(`${personalKey("draft")}/${threadId}`, draft),
};

// Drafts of one kind in one stored value, by id. Lists ask for them at every drawing, so they are cached.
class DraftMap {
  #kind;
  /** @type {Record<string, any> | null} */
  #all = null;

  constructor(kind) {
    this.#kind = kind;
    addEventListener("storage", () => (this.#all = null)); // another window has changed them
    addEventListener("palaver:session", () => (this.#all = null));
  }

  get = (id) => (this.#all ??= storage.read(personalKey(this.#kind), {}))?.[id];
  has = (id) => this.get(id) !== undefined;
  set = (id, draft) => this.#write({ ...storage.read(personalKey(this.#kind), {}), [id]: draft });
  delete(id) {
    const { [id]: _, ...others } = storage.read(personalKey(this.#kind), {});
    this.#write(others);
  }

  #write(all) {
    this.#all = all;
    storage.write(personalKey(this.#kind), Object.keys(all).length ? all : null);
  }
}

// Changed texts of messages, by the id of the message.
export const messageEdits = new DraftMap("edits");

// Changed notes and prompts, by source and id: {values, version, at}. `version` is the version that was changed.
export const documentDrafts = new DraftMap("documents");
export const documentKey = (source, id) => `${source}/${id}`;

// The import that was started last: {id, files, bytes}. It is followed again after a reload.
export const startedImport = {
  get: () => storage.read(personalKey("import")),
  set: (job) => storage.write(personalKey("import"), job),
};

// The topic of a thread that is not created yet.
export const newTopic = {
  get: () => storage.read(personalKey("topic"), ""),
  set: (topic) => storage.write(personalKey("topic"), topic),
};
