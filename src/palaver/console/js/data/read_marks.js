// @ts-check
// Read marks: the number of the last message read in each thread. The server keeps them, so all devices of a person agree.

import { redraw } from "../ui/templates.js";
import { put, url } from "./api.js";
import { on } from "./events.js";
import { personalKey } from "./session.js";

const SEND_DELAY = 400; // milliseconds; a reader who scrolls moves the mark often

/** @type {Map<string, number>} */
const marks = new Map();
/** @type {Map<string, {seq: number, only_forward: boolean}>} */
const unsent = new Map(); // marks that the server does not have yet, by thread
/** @type {number | undefined} */
let timer;

// Other windows of this browser hear of a mark at once. Other devices ask the server when they get the focus.
/** @type {BroadcastChannel | null} */
let channel = null;
function connectWindows() {
  channel?.close();
  channel = new BroadcastChannel(`palaver.${personalKey("read")}`);
  channel.onmessage = ({ data: [threadId, seq] }) => {
    marks.set(threadId, seq);
    redraw();
  };
}
addEventListener("palaver:session", connectWindows);

function setMark(threadId, mark) {
  marks.set(threadId, mark.seq);
  unsent.set(threadId, mark);
  if (!channel) connectWindows();
  channel?.postMessage([threadId, mark.seq]);
  clearTimeout(timer);
  timer = setTimeout(sendMarks, SEND_DELAY);
  redraw();
}

async function sendMarks(options = {}) {
  clearTimeout(timer);
  for (const [threadId, mark] of [...unsent]) {
    try {
      await put(url`/api/threads/${threadId}/read-mark`, mark, options);
    } catch (error) {
      if (error.isOffline) return; // they are sent when the server is back
    }
    if (unsent.get(threadId) === mark) unsent.delete(threadId);
  }
}

on("state", (isOpen) => isOpen && sendMarks());
addEventListener("pagehide", () => sendMarks({ keepalive: true }));

export const readMarks = {
  has: (threadId) => marks.has(threadId),
  get: (threadId) => marks.get(threadId) ?? 0,
  // A mark from the server. One that is on its way there is newer.
  load(threadId, seq) {
    if (!unsent.has(threadId)) marks.set(threadId, seq);
  },
  // Messages up to this one were in view.
  advance(threadId, seq) {
    if (seq > this.get(threadId)) setMark(threadId, { seq, only_forward: !isMovedBack(threadId) });
  },
  // Messages after this one are unread again.
  moveBack: (threadId, seq) => setMark(threadId, { seq, only_forward: false }),
  // Every thread is read. `threads` are those in the list.
  async markAll(threads) {
    await put("/api/read-marks");
    unsent.clear();
    for (const { id, current_seq } of threads) {
      marks.set(id, current_seq);
      channel?.postMessage([id, current_seq]);
    }
    redraw();
  },
};

const isMovedBack = (threadId) => unsent.get(threadId)?.only_forward === false;
