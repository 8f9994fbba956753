// @ts-check
// The settings of this browser: how times are written, how dense lists are, the language, notifications.

import { storage } from "./storage.js";

const DEFAULTS = { clock: "system", density: "comfortable", language: "system", notifications: false };

/** @type {typeof DEFAULTS} */
const saved = { ...DEFAULTS, ...storage.read("settings", {}) };

export const settings = {
  version: 0, // changes with the settings and the language: what shows times or texts is drawn again
  get: (name) => saved[name],
  set(name, value) {
    saved[name] = value;
    storage.write("settings", saved);
    this.announce();
  },
  announce() {
    this.version += 1;
    dispatchEvent(new Event("palaver:settings"));
  },
};

// Another window has changed them.
addEventListener("storage", () => {
  const before = JSON.stringify(saved);
  Object.assign(saved, DEFAULTS, storage.read("settings", {}));
  if (JSON.stringify(saved) !== before) settings.announce();
});
