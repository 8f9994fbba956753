// Runs before the first paint, so that a dark room stays dark. Not a module: modules wait for the page.

(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("palaver.theme");
    } catch {
      return null;
    }
  };
  const apply = () => {
    const theme = kept() === "light" || kept() === "dark" ? kept() : system.matches ? "dark" : "light";
    document.documentElement.dataset.theme = theme;
    if (document.body) document.body.dataset.theme = theme;
  };
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  addEventListener("storage", apply);
  addEventListener("palaver:theme", apply);
  apply();
})();

// What the first picture needs is asked for while its code still comes. api.js takes an answer from here, once.
(() => {
  const asked = (globalThis.askedEarly = new Map());
  const ask = (path) => {
    const answer = fetch(path, { credentials: "same-origin" });
    answer.catch(() => {}); // whoever takes it is told
    asked.set(path, answer);
  };
  const session = JSON.parse(document.querySelector("meta[name=session]").content || "{}");
  if (!session.is_in) return;
  const [, id, query] = location.hash.match(/^#\/threads\/([^/?]+)(?:\?(.*))?$/) ?? [];
  if (!id) return;
  const message = new URLSearchParams(query).get("message");
  ask(message ? `/api/messages/${encodeURIComponent(message)}` : `/api/threads/${id}/messages?newest=true&limit=24`);
  ask(`/api/threads/${id}`);
  ask("/api/agents");
})();
