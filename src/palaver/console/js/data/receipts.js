// @ts-check
// What became of messages at the agents that they name. It is loaded for messages in view, and again after an event that
// may change it.

import { redraw } from "../ui/templates.js";
import { get, url } from "./api.js";
import { on } from "./events.js";
import { soon } from "./soon.js";

const DELAY = 150; // milliseconds; nothing is loaded for messages that a reader scrolls past

const inView = new Set(); // ids of messages
const upToDate = new Set();
/** @type {Map<string, {thread_id: string, receipts: import("./types.js").Receipt[]}>} */
const loaded = new Map();

export const receiptsOf = (messageId) => loaded.get(messageId)?.receipts;

const loadSoon = soon(async () => {
  const wanted = [...inView].filter((id) => !upToDate.has(id));
  for (const id of wanted) upToDate.add(id); // before the answer: an event may outdate it
  const load = async (id) => loaded.set(id, await get(url`/api/messages/${id}/receipts`));
  await Promise.all(wanted.map((id) => load(id).catch(() => upToDate.delete(id))));
  if (wanted.length) redraw();
}, DELAY);

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const id = /** @type {HTMLElement} */ (target).dataset.message;
    if (isIntersecting) inView.add(id);
    else inView.delete(id);
  }
  loadSoon();
});

// Load the receipts of a message whenever this element of it comes into view.
export const observe = (element) => element && observer.observe(element);

function refresh(messageId) {
  upToDate.delete(messageId);
  if (inView.has(messageId)) loadSoon();
}

for (const type of ["msg.receipt", "msg.edit", "msg.react", "msg.unreact"])
  on(type, ({ message_id }) => refresh(message_id));

// A post of an agent may be its answer, and its sessions decide whether it can be reached.
for (const type of ["msg.new", "agent.online", "agent.offline", "agent.session"])
  on(type, ({ author_id, agent_id = author_id, thread_id }) => {
    const mayChange = (one) => one.agent_id === agent_id && one.state !== "answered";
    for (const [id, found] of loaded)
      if ((!thread_id || found.thread_id === thread_id) && found.receipts.some(mayChange)) refresh(id);
  });
on("reset", () => {
  upToDate.clear();
  loadSoon();
});
