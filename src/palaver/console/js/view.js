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
let isHeld = false;
let after = [];

export function drawWith(drawing) {
  draw = drawing;
}

export function redraw() {
  if (isDue) return;
  isDue = true;
  queueMicrotask(() => {
    isDue = false;
    if (isHeld) return;
    draw();
    const done = after;
    after = [];
    for (const work of done) work();
  });
}

// Draw nothing until that has come, or so many milliseconds are over: one picture costs less than two.
export function holdUntil(coming, most) {
  isHeld = true;
  const release = () => {
    isHeld = false;
    redraw();
  };
  Promise.race([coming, new Promise((done) => setTimeout(done, most))]).then(release, release);
}

// When the picture is up to date: for what must measure it.
export function drawn() {
  redraw();
  return new Promise((resolve) => after.push(resolve));
}
