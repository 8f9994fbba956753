// @ts-check
// Events from the server: on("msg.new", …). The event "state" says whether the connection is open.

import { assetUrl } from "../assets.js";
import { EventStream } from "./event_stream.js";

const listeners = new Map();
let isOpen = null;
let lastEventId = null;

// Call `listener` at every event of this type. Returns a function that stops that.
export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(listener);
  return () => listeners.get(type).delete(listener);
}

function notifyListeners(type, data) {
  for (const listener of [...(listeners.get(type) ?? [])]) listener(data);
}

// For data that is loaded and also changed by events. An event that arrives during a load may be newer than the response,
// so it is applied at once and again after the load.
export class EventReplay {
  #loads = 0;
  #changes = [];

  on = (type, listener) => on(type, (data) => this.apply(() => listener(data)));

  apply(change) {
    if (this.#loads) this.#changes.push(change);
    return change();
  }

  async during(load) {
    this.#loads += 1;
    try {
      return await load();
    } finally {
      this.#loads -= 1;
      for (const change of this.#changes) change();
      if (!this.#loads) this.#changes = [];
    }
  }
}

// Events that arrive within one frame are handled together: they cause one drawing. A hidden page has no frames.
/** @type {any[]} */
let received = [];
function receive(message) {
  received.push(message);
  if (received.length > 1) return;
  if (document.hidden) setTimeout(handleReceived);
  else requestAnimationFrame(handleReceived);
}

document.addEventListener("visibilitychange", () => document.hidden && handleReceived());

function handleReceived() {
  const messages = received;
  received = [];
  for (const message of messages) handle(message);
}

function handle(message) {
  if (message.kind === "state") {
    if (isOpen === message.isOpen) return;
    isOpen = message.isOpen;
    notifyListeners("state", isOpen);
  } else {
    lastEventId = message.id;
    notifyListeners(message.type, message.data);
  }
}

/** @type {any} */
let send = null;

// Listen from this event on; without one, from the last event received.
export function startListening(after = lastEventId) {
  send ??= connect();
  lastEventId = after;
  send({ kind: "start", after });
}

export const reconnect = () => send?.({ kind: "retry" });
export const stopListening = () => send?.({ kind: "stop" });

// Under trusted types no text can become a script address, except this one.
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("palaver", { createScriptURL: (url) => url });

// Browsers allow few connections to one server, so a shared worker holds one connection for all windows.
function connect() {
  if (!globalThis.SharedWorker) return connectAlone();
  const url = assetUrl("js/data/event_stream_worker.js");
  const worker = new SharedWorker(policy?.createScriptURL(url) ?? url, { type: "module" });
  worker.port.onmessage = ({ data }) => receive(data);
  worker.onerror = () => {
    // The worker could not be loaded: this window opens its own connection.
    send = connectAlone();
    send({ kind: "start", after: lastEventId });
  };
  addEventListener("pagehide", () => worker.port.postMessage({ kind: "leave" }));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  return (message) => worker.port.postMessage(message);
}

function connectAlone() {
  const stream = new EventStream(receive);
  return ({ kind, after }) => stream[kind](after);
}

addEventListener("online", reconnect);
document.addEventListener("visibilitychange", () => document.hidden || reconnect());
