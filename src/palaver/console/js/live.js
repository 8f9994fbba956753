// Hearing what happens: on("msg.new", …). Events of all kinds are also "event"; "state" says whether we are connected.

import { Stream } from "./stream.js";

const listeners = new Map();
export const live = { isOpen: null, last: null };

export function on(type, heard) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(heard);
  return () => listeners.get(type).delete(heard);
}

function tell(type, data) {
  for (const heard of [...(listeners.get(type) ?? [])]) heard(data, type);
}

// For whoever fetches what is also told of. What is told while it comes may be newer: it is told again when that is here.
export class Meanwhile {
  #coming = 0;
  #told = [];

  on = (type, heard) => on(type, (data) => this.tell(() => heard(data)));

  tell(news) {
    if (this.#coming) this.#told.push(news);
    return news();
  }

  async during(load) {
    this.#coming += 1;
    try {
      return await load();
    } finally {
      this.#coming -= 1;
      for (const news of this.#told) news();
      if (!this.#coming) this.#told = [];
    }
  }
}

function take(message) {
  if (message.kind === "state") {
    if (live.isOpen === message.isOpen) return;
    live.isOpen = message.isOpen;
    tell("state", message.isOpen);
  } else {
    live.last = message.id;
    tell(message.type, message.data);
    tell("event", message);
  }
}

let send = null;

// From that event on; without one, from the last that was heard.
export function listen(after = live.last) {
  send ??= connected();
  live.last = after;
  send({ kind: "start", after });
}

export const tryAgain = () => send?.({ kind: "retry" });
export const hangUp = () => send?.({ kind: "stop" });

// Where the browser knows trusted types, no text can become a script; this one address may.
const policy = globalThis.trustedTypes?.createPolicy("palaver", { createScriptURL: (address) => address });
const ours = (address) => policy?.createScriptURL(address) ?? address;

function connected() {
  if (!globalThis.SharedWorker) return alone();
  const worker = new SharedWorker(ours(new URL("./stream-worker.js", import.meta.url).href), { type: "module" });
  worker.port.onmessage = ({ data }) => take(data);
  worker.onerror = () => {
    // The server went away before the worker came: then this window listens for itself.
    send = alone();
    send({ kind: "start", after: live.last });
  };
  addEventListener("pagehide", () => worker.port.postMessage({ kind: "leave" }));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  return (message) => worker.port.postMessage(message);
}

function alone() {
  const stream = new Stream(take);
  return ({ kind, after }) => stream[kind](after);
}

addEventListener("online", tryAgain);
document.addEventListener("visibilitychange", () => document.hidden || tryAgain());
