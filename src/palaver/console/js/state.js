// What this browser remembers, and who is looking.

import { get, useCsrf } from "./api.js";

export const me = {
  isKnown: false, // have we asked the server yet?
  isIn: false,
  needsLogin: false,
  name: "human",
  workspace: "default",
  scopes: [],
  version: "",
};

// The page itself says who is in; only who is not (or comes from a link elsewhere, without the cookie) has to ask.
export const told = JSON.parse(document.querySelector("meta[name=session]")?.content || "{}");

export const findOut = async () => know(await get("/api/session"));

export function know(session) {
  marks = null;
  useCsrf(session.csrf);
  Object.assign(me, {
    isKnown: true,
    isIn: session.is_in,
    needsLogin: session.needs_login,
    name: session.name ?? keep.read("name", "human"),
    workspace: session.workspace,
    scopes: session.scopes ?? [],
    isOwner: session.is_owner,
    version: session.version,
    baseUrl: session.base_url,
  });
  return session;
}

export const may = (scope) => me.scopes.includes(scope);

// Under which id our reactions stand. Where nobody logs in it is the name somebody chose.
export const myReactor = () => `human:${me.name}`;

export function rename(name) {
  me.name = name.trim().slice(0, 80) || "human";
  keep.write("name", me.name);
}

// Storage may be forbidden or full: then it is forgotten with the window.
const forgotten = new Map();

export const keep = {
  read(key, otherwise = null) {
    try {
      const kept = localStorage.getItem(`palaver.${key}`);
      return kept === null ? (forgotten.get(key) ?? otherwise) : JSON.parse(kept);
    } catch {
      return forgotten.get(key) ?? otherwise;
    }
  },
  write(key, value) {
    forgotten.set(key, value);
    try {
      if (value === null || value === "") localStorage.removeItem(`palaver.${key}`);
      else localStorage.setItem(`palaver.${key}`, JSON.stringify(value));
    } catch {
      // kept in `forgotten`
    }
  },
};

// Theme: light, dark, or as the system likes it. (early.js reads it before anything is painted, so it is kept bare.)
export const theme = {
  get choice() {
    try {
      return localStorage.getItem("palaver.theme") ?? "system";
    } catch {
      return "system";
    }
  },
  set choice(value) {
    try {
      if (value === "system") localStorage.removeItem("palaver.theme");
      else localStorage.setItem("palaver.theme", value);
    } catch {
      // then it follows the system
    }
    dispatchEvent(new Event("palaver:theme"));
  },
};

// Where people log in, each has their own marks and drafts, also in one browser.
const place = (name) => `${name}.${me.workspace}${me.needsLogin ? `/${me.name}` : ""}`;

// How far each thread has been read. What was there at the first visit counts as read.

let marks = null; // read once: the list asks for every thread at every drawing
addEventListener("storage", () => (marks = null)); // another window has read something

export const seen = {
  of: (threadId) => (marks ??= keep.read(place("seen"), {}))[threadId] ?? 0,
  meet(threads, isAll) {
    if (keep.read(place("met"), false)) return;
    this.write(Object.fromEntries(threads.map(({ id, current_seq }) => [id, Math.max(current_seq, this.of(id))])));
    if (isAll) keep.write(place("met"), true);
  },
  mark(threadId, seq) {
    if (seq > this.of(threadId)) this.write({ ...keep.read(place("seen"), {}), [threadId]: seq });
  },
  write(all) {
    marks = all;
    keep.write(place("seen"), all);
  },
};

// What is not sent yet.
export const drafts = {
  of(threadId) {
    const kept = keep.read(`${place("draft")}/${threadId}`, null);
    return typeof kept === "string" ? { text: kept } : kept; // text was all that was kept once
  },
  keep: (threadId, draft) => keep.write(`${place("draft")}/${threadId}`, draft),
};
