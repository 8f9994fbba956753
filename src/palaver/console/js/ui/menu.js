// @ts-check
// Menus. A menu is a <details class="menu">. It closes on Esc, on a click elsewhere and when the focus leaves it.

import { icon } from "./icons.js";
import { html, nothing } from "./render.js";
import { t } from "./texts.js";

export const menu = (label, items, iconName = "more") => html`<details class="menu">
  <summary class="quiet" aria-label=${t(label)} title=${t(label)}>${icon(iconName)}</summary>
  <div role="menu">
    ${items
      .filter(Boolean)
      .map((item) =>
        item.href
          ? html`<a role="menuitem" href=${item.href} download=${item.download ?? nothing}>${icon(item.icon)} ${t(item.text)}</a>`
          : html`<button type="button" role="menuitem" class=${item.isDangerous ? "bad" : ""} @click=${item.run}>${icon(item.icon)} ${t(item.text)}</button>`,
      )}
  </div>
</details>`;

const openMenu = (element) => element?.closest?.("details.menu[open]");

document.addEventListener("click", ({ target }) => {
  const clicked = /** @type {Element} */ (target);
  for (const open of document.querySelectorAll("details.menu[open]")) {
    if (!open.contains(clicked) || clicked.closest("[role=menuitem]")) open.removeAttribute("open");
  }
});

// Arrow keys, Home and End move between the items of an open menu.
document.addEventListener("keydown", (event) => {
  const items = [...(openMenu(event.target)?.querySelectorAll("[role=menuitem]") ?? [])];
  if (!items.length) return;
  const current = items.indexOf(event.target);
  const next = {
    ArrowDown: items[(current + 1) % items.length],
    ArrowUp: items.at(current <= 0 ? -1 : current - 1),
    Home: items[0],
    End: items.at(-1),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  next.focus();
});

document.addEventListener("focusout", ({ target, relatedTarget }) => {
  const open = openMenu(target);
  if (open && relatedTarget && !open.contains(relatedTarget)) open.open = false;
});

// A menu that does not fit below its button opens upwards.
document.addEventListener(
  "toggle",
  ({ target }) => {
    const open = openMenu(target);
    if (!open || open !== target) return;
    open.classList.remove("up");
    const panel = open.querySelector(":scope > div").getBoundingClientRect();
    const around = open.closest(".scroll")?.getBoundingClientRect() ?? { top: 0, bottom: innerHeight };
    const isTooLow = panel.bottom > around.bottom;
    open.classList.toggle("up", isTooLow && open.getBoundingClientRect().top - panel.height > around.top);
  },
  true,
);
