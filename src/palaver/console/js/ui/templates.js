// @ts-check
// What templates are made of: lit-html, and texts in the language of the viewer. One template covers the whole console.
// redraw() renders it again; lit-html updates only the parts that differ.

import { html, nothing, render, svg } from "../../vendor/lit-html/lit-html.js";
import { guard } from "../../vendor/lit-html/directives/guard.js";
import { live as liveValue } from "../../vendor/lit-html/directives/live.js";
import { ref } from "../../vendor/lit-html/directives/ref.js";
import { repeat } from "../../vendor/lit-html/directives/repeat.js";

export { guard, html, liveValue, nothing, ref, render, repeat, svg };

let draw = () => {};
let isScheduled = false;
let isPaused = false;
let waiting = [];

// Set the function that renders the console.
export function setDraw(drawing) {
  draw = drawing;
}

// Render soon. Several calls in one task cause one rendering.
export function redraw() {
  if (isScheduled) return;
  isScheduled = true;
  queueMicrotask(() => {
    isScheduled = false;
    if (isPaused) return;
    draw();
    const resolvers = waiting;
    waiting = [];
    for (const resolve of resolvers) resolve();
  });
}

// Render and resolve when the page is up to date, for code that measures it.
export function nextDraw() {
  redraw();
  return new Promise((resolve) => waiting.push(resolve));
}

// Resolve when the browser has painted what was drawn. A hidden page paints nothing.
export const nextFrame = () =>
  /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      if (document.hidden) resolve();
      else requestAnimationFrame(() => resolve());
    })
  );

// Render nothing until `promise` settles or `timeout` milliseconds pass: one rendering costs less than two.
export function pauseDrawing(promise, timeout) {
  isPaused = true;
  const resume = () => {
    isPaused = false;
    redraw();
  };
  Promise.race([promise, new Promise((resolve) => setTimeout(resolve, timeout))]).then(resume, resume);
}

// Texts in the language of the viewer. The English text is the key: t("Save"). js/texts/ has one file for each other
// language, with all texts of the console.

/** @type {{code: string, texts: Record<string, string>}} */
export const language = { code: "en", texts: {} };

// A text, with {name} replaced by values.name.
/** @type {(text: string, values?: Record<string, unknown>) => string} */
export function t(text, values = {}) {
  const found = language.texts[text] ?? text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// The same, with values that may be templates. Returns the parts for a template.
/** @type {(text: string, values: Record<string, unknown>) => unknown[]} */
export const rich = (text, values) =>
  (language.texts[text] ?? text).split(/\{(\w+)\}/).map((part, i) => (i % 2 ? values[part] : part));

export const LANGUAGES = { en: "English", de: "Deutsch" };

// The language that is chosen, or else the first one of the browser that the console knows.
export function preferredLanguage(chosen) {
  if (chosen in LANGUAGES) return chosen;
  const known = navigator.languages.map((one) => one.split("-")[0]).find((one) => one in LANGUAGES);
  return known ?? "en";
}
