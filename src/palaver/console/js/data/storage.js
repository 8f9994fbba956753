// @ts-check
// Values that this browser keeps (localStorage), and the theme.

// Storage may be forbidden or full. Then values last until the window closes.
const fallback = new Map();

export const storage = {
  /** @returns {any} */
  read(key, /** @type {any} */ otherwise = null) {
    try {
      const saved = localStorage.getItem(`palaver.${key}`);
      return saved === null ? (fallback.get(key) ?? otherwise) : JSON.parse(saved);
    } catch {
      return fallback.get(key) ?? otherwise;
    }
  },
  write(key, value) {
    fallback.set(key, value);
    try {
      if (value === null || value === "") localStorage.removeItem(`palaver.${key}`);
      else localStorage.setItem(`palaver.${key}`, JSON.stringify(value));
    } catch {
      // It is in `fallback`.
    }
  },
};

// "light", "dark" or "system". preload.js reads it too, so it is saved without JSON.
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
      // The theme follows the system.
    }
    dispatchEvent(new Event("palaver:theme"));
  },
};
