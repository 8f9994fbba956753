// @ts-check
// The session: who is logged in, in which workspace, with which permissions.

import { csrf, get } from "./api.js";
import { storage } from "./storage.js";

export const me = {
  isKnown: false, // has the server answered yet?
  isIn: false,
  needsLogin: false,
  name: "human",
  workspace: "default",
  scopes: /** @type {string[]} */ ([]),
  version: "",
  baseUrl: "",
};

// The session as the page itself contains it. It is empty when the page was requested without the cookie.
export const pageSession = JSON.parse(document.querySelector("meta[name=session]")?.getAttribute("content") || "{}");

export const loadSession = async () => setSession(await get("/api/session"));

export function setSession(session) {
  csrf.token = session.csrf;
  Object.assign(me, {
    isKnown: true,
    isIn: session.is_in,
    needsLogin: session.needs_login,
    name: session.name ?? storage.read("name", "human"),
    workspace: session.workspace,
    scopes: session.scopes ?? [],
    version: session.version,
    baseUrl: session.base_url,
  });
  dispatchEvent(new Event("palaver:session"));
  return session;
}

export const can = (scope) => me.scopes.includes(scope);

// The id under which our reactions are saved.
export const myReactorId = () => `human:${me.name}`;

// Without login everyone chooses a name, which this browser remembers.
export function setName(name) {
  me.name = name.trim().slice(0, 80) || "human";
  storage.write("name", me.name);
}

// The storage key of a value of which everyone who logs in with this browser has their own.
export const personalKey = (name) => `${name}.${me.workspace}${me.needsLogin ? `/${me.name}` : ""}`;
