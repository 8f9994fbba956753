// @ts-check
// Drafts: messages that are not sent yet, one for each thread.

import { personalKey } from "./session.js";
import { storage } from "./storage.js";

export const drafts = {
  get(threadId) {
    const saved = storage.read(`${personalKey("draft")}/${threadId}`);
    return typeof saved === "string" ? { text: saved } : saved; // early versions saved only the text
  },
  set: (threadId, draft) => storage.write(`${personalKey("draft")}/${threadId}`, draft),
};
