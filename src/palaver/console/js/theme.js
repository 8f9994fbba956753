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
