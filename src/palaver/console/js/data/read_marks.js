// @ts-check
// Read marks: the number of the last message read in each thread.

import { personalKey } from "./session.js";
import { storage } from "./storage.js";

let marks = null; // cached, because the list asks for every thread at every drawing
addEventListener("storage", () => (marks = null)); // another window has changed them
addEventListener("palaver:session", () => (marks = null));

export const readMarks = {
  get: (threadId) => (marks ??= storage.read(personalKey("seen"), {}))[threadId] ?? 0,
  // At the first visit every existing message counts as read.
  initialize(threads, isComplete) {
    if (storage.read(personalKey("met"), false)) return;
    this.write(Object.fromEntries(threads.map(({ id, current_seq }) => [id, Math.max(current_seq, this.get(id))])));
    if (isComplete) storage.write(personalKey("met"), true);
  },
  set(threadId, seq) {
    if (seq > this.get(threadId)) this.write({ ...storage.read(personalKey("seen"), {}), [threadId]: seq });
  },
  write(all) {
    marks = all;
    storage.write(personalKey("seen"), all);
  },
};
