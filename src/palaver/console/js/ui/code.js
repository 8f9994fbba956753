// @ts-check
// Code: blocks with a copy button and colours, and diffs. The highlighter is loaded when a block with a known language
// is in view and the browser is idle.

import { assetUrl } from "../assets.js";
import { copyText } from "./clipboard.js";
import { t } from "./templates.js";

const MAX_COLOURED = 50_000; // characters

// Names and file endings of the languages that can be coloured.
const LANGUAGES = {
  bash: "bash sh shell zsh console shell-session",
  c: "c h",
  cpp: "cpp c++ cc cxx hpp",
  csharp: "csharp cs c#",
  css: "css scss less",
  diff: "diff patch",
  dockerfile: "dockerfile docker",
  go: "go golang",
  ini: "ini toml cfg conf",
  java: "java",
  javascript: "javascript js jsx mjs cjs",
  json: "json jsonc json5 jsonl",
  kotlin: "kotlin kt kts",
  markdown: "markdown md",
  php: "php",
  python: "python py python3 pyi",
  ruby: "ruby rb",
  rust: "rust rs",
  sql: "sql sqlite postgresql pgsql",
  swift: "swift",
  typescript: "typescript ts tsx mts",
  xml: "xml html svg xhtml vue",
  yaml: "yaml yml",
};
const BY_NAME = new Map(Object.entries(LANGUAGES).flatMap(([name, all]) => all.split(" ").map((one) => [one, name])));

// The language of a fence or a file ending; undefined if it is unknown.
export const languageOf = (name) => BY_NAME.get(name.toLowerCase().replace(/^(language-|\.)/, ""));

// The language of a file, by its name.
export function languageOfPath(path) {
  const name = path.split(/[/\\]/).at(-1) ?? "";
  return languageOf(/^dockerfile/i.test(name) ? "dockerfile" : (name.match(/\.(\w+)$/)?.[1] ?? ""));
}

const NEAR = 300; // pixels outside the window
const LOOK_DELAY = 150; // milliseconds; while somebody scrolls, nothing is coloured

const texts = new WeakMap(); // of elements that are not coloured yet
const whenIdle = (run) =>
  "requestIdleCallback" in globalThis ? requestIdleCallback(run, { timeout: 1000 }) : setTimeout(run, 50);

/** @type {number | undefined} */
let looking;
function colourSoon() {
  clearTimeout(looking);
  looking = setTimeout(() => whenIdle(colourInView), LOOK_DELAY);
}
document.addEventListener("scroll", colourSoon, { capture: true, passive: true });
addEventListener("resize", colourSoon, { passive: true });

function colourInView() {
  const elements = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("code[data-language]"));
  for (const element of elements) {
    const { top, bottom, height } = element.getBoundingClientRect();
    if (height && bottom > -NEAR && top < innerHeight + NEAR) colour(element);
  }
}

async function colour(element) {
  const { language } = element.dataset;
  const text = texts.get(element);
  delete element.dataset.language;
  try {
    const { highlight } = await import(assetUrl("js/syntax/highlighter.js"));
    element.replaceChildren(await highlight(text, language));
  } catch {
    // The text stays as it is.
  }
}

// A <code> element. It is coloured when it is in view and the browser is idle.
export function codeElement(text, language) {
  const element = document.createElement("code");
  element.append(text);
  if (language && text.length <= MAX_COLOURED) {
    texts.set(element, text);
    element.dataset.language = language;
    colourSoon();
  }
  return element;
}

// A button that copies a text and says so.
export function copyButton(text, label = t("Copy the code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.setAttribute("aria-label", label);
  button.append(t("Copy"));
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text)) ? t("Copied") : t("Not copied");
    setTimeout(() => (button.textContent = t("Copy")), 1500);
  });
  return button;
}

// A block of code with its language and a copy button.
export function codeFigure(text, caption, language = languageOf(caption)) {
  const figure = document.createElement("figure");
  figure.className = "code";
  const head = document.createElement("figcaption");
  const name = document.createElement("span");
  name.append(caption || "text");
  head.append(name, copyButton(text));
  const pre = document.createElement("pre");
  pre.tabIndex = 0;
  pre.append(language === "diff" ? diffElement(text) : codeElement(text, language));
  figure.append(head, pre);
  return figure;
}

const LINE_KINDS = [
  [/^(\+\+\+|---|\*\*\*|diff |index )/, "header"],
  [/^@@/, "place"],
  [/^\+/, "added"],
  [/^-/, "removed"],
];

// The lines of a diff, each in an element of its own. Signs and words tell the kinds apart, not only colours.
export function diffElement(text) {
  const element = document.createElement("code");
  element.className = "diff";
  for (const line of text.slice(0, MAX_COLOURED * 4).split("\n")) {
    const row = document.createElement("span");
    row.className =
      LINE_KINDS.find(([pattern]) => /** @type {RegExp} */ (pattern).test(line))?.[1]?.toString() ?? "same";
    row.append(`${line}\n`);
    element.append(row);
  }
  return element;
}
