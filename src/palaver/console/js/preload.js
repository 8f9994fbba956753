// @ts-check
// Runs before the first paint: sets the theme, so that a dark page does not flash, and starts the first requests while the
// modules are still loading. Not a module, because modules run later.

(() => {
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let theme = /** @type {string | null} */ (null);
    try {
      theme = localStorage.getItem("palaver.theme");
    } catch {
      // Storage is forbidden: follow the system.
    }
    if (theme !== "light" && theme !== "dark") theme = systemDark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
    if (document.body) document.body.dataset.theme = theme;
  };
  systemDark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  addEventListener("storage", apply);
  addEventListener("palaver:theme", apply);
  apply();
})();

// data/api.js takes each of these responses once, instead of sending the same request again.
(() => {
  const responses = new Map();
  Object.assign(globalThis, { preloaded: responses });
  const request = (path) => {
    const response = fetch(path, { credentials: "same-origin" });
    response.catch(() => {}); // data/api.js reports it
    responses.set(path, response);
  };
  const session = JSON.parse(document.querySelector("meta[name=session]")?.getAttribute("content") || "{}");
  if (!session.is_in) return;
  const [, id, query] = location.hash.match(/^#\/threads\/([^/?]+)(?:\?(.*))?$/) ?? [];
  if (!id) return;
  const message = new URLSearchParams(query).get("message");
  request(
    message ? `/api/messages/${encodeURIComponent(message)}` : `/api/threads/${id}/messages?newest=true&limit=24`,
  );
  request(`/api/threads/${id}`);
  if (!message) request(`/api/threads/${id}/read-mark`);
  request("/api/agents?include_inactive=true");
})();
