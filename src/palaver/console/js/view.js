// Drawing. There is one picture of the whole console, drawn again when something has changed; lit-html touches only what
// differs.

import { html, nothing, render, svg } from "../vendor/lit-html/lit-html.js";
import { guard } from "../vendor/lit-html/directives/guard.js";
import { live as liveValue } from "../vendor/lit-html/directives/live.js";
import { ref } from "../vendor/lit-html/directives/ref.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";

export { guard, html, liveValue, nothing, ref, render, repeat, svg };

let draw = () => {};
let isDue = false;
let after = [];

export function drawWith(drawing) {
  draw = drawing;
}

export function redraw() {
  if (isDue) return;
  isDue = true;
  queueMicrotask(() => {
    isDue = false;
    draw();
    const done = after;
    after = [];
    for (const work of done) work();
  });
}

// When the picture is up to date: for what must measure it.
export function drawn() {
  redraw();
  return new Promise((resolve) => after.push(resolve));
}
