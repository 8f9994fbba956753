// @ts-check
// Markdown to DOM elements. marked only splits the text into tokens. Every element is created here, so user text is never
// parsed as HTML. Images from other servers become links: the console sends no request to another server.

import { Lexer } from "../../vendor/marked/marked.js";
import { codeFigure } from "./code.js";
import { formatNumber } from "./format.js";
import { PICTURE } from "./pictures.js";
import { t } from "./templates.js";

const MAX_LENGTH = 200_000; // characters

/** @type {{size: number, has: (name: string) => boolean}} */
const NO_NAMES = new Map();

// `mentions` has the lower-case names that are highlighted after an @. `level` is that of the first headings.
export function renderMarkdown(text, { mentions = NO_NAMES, level = 3 } = {}) {
  const prose = element("div", { class: "prose" });
  let tokens;
  try {
    tokens = new Lexer({ gfm: true, breaks: true }).lex(text.slice(0, MAX_LENGTH));
  } catch {
    tokens = [{ type: "text", text: text.slice(0, MAX_LENGTH) }];
  }
  setLevels(tokens, level);
  prose.append(...renderBlocks(tokens, mentions));
  if (text.length > MAX_LENGTH) prose.append(restButton(text.slice(MAX_LENGTH)));
  return prose;
}

// Headings go down by one level at a time, whatever was written.
function setLevels(tokens, level) {
  let last = level - 1;
  const walk = (token) => {
    if (token.type === "heading") last = token.level = Math.min(token.depth - 1 + level, last + 1, 6);
    for (const child of token.items ?? token.tokens ?? []) walk(child);
  };
  for (const token of tokens) walk(token);
}

// The rest of a very long text is shown as it was written: as Markdown it would keep the browser busy for seconds.
function restButton(rest) {
  const button = element("button", { type: "button", class: "unfold" }, [
    t("Show the rest as plain text ({n} characters)", { n: formatNumber(rest.length) }),
  ]);
  button.addEventListener("click", () => button.replaceWith(element("pre", { class: "rest", tabindex: "0" }, [rest])));
  return button;
}

// A checked link: null if it must not be a link, otherwise its address and whether it leaves this server. The resolved
// URL decides: browsers read "/\host" and "//host" as another server.
export function checkLink(href) {
  if (!/^(https?:|mailto:|#\/|\/)/i.test(href)) return null;
  const isForeign = new URL(href, location.href).origin !== location.origin;
  return { href, isForeign };
}

/** @returns {any} */
function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const renderBlocks = (tokens, mentions) => tokens.flatMap((token) => renderBlock(token, mentions));

function renderBlock(token, mentions) {
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [element(`h${token.level}`, {}, renderInline(token.tokens, mentions))];
    case "paragraph":
      return [element("p", {}, renderInline(token.tokens, mentions))];
    case "text":
      return [element("p", {}, token.tokens ? renderInline(token.tokens, mentions) : [token.text])];
    case "code":
      return [renderCode(token)];
    case "blockquote":
      return [element("blockquote", {}, renderBlocks(token.tokens, mentions))];
    case "hr":
      return [element("hr")];
    case "list":
      return [renderList(token, mentions)];
    case "table":
      return [renderTable(token, mentions)];
    default:
      return [element("p", {}, [token.raw ?? token.text ?? ""])]; // HTML is shown as typed
  }
}

function renderCode(token) {
  const language = (token.lang ?? "").trim().split(/\s/)[0].slice(0, 30);
  return codeFigure(token.text, language);
}

function renderList(token, mentions) {
  const items = token.items.map((item) => {
    // The text of a tight item is not wrapped in a paragraph.
    const children = item.tokens.flatMap((child) => {
      if (child.type === "checkbox") return [];
      const isTight = child.type === "text" && !item.loose;
      return isTight ? renderInline(child.tokens ?? [child], mentions) : renderBlock(child, mentions);
    });
    if (!item.task) return element("li", {}, children);
    const box = element("input", { type: "checkbox", disabled: "", "aria-label": t(item.checked ? "done" : "open") });
    box.checked = item.checked;
    return element("li", { class: "task" }, [box, ...children]);
  });
  const start = token.ordered && token.start > 1 ? { start: String(token.start) } : {};
  return element(token.ordered ? "ol" : "ul", start, items);
}

function renderTable(token, mentions) {
  const row = (cells, name) => {
    const made = cells.map((cell, i) => {
      const align = token.align[i];
      return element(name, align ? { class: `to-${align}` } : {}, renderInline(cell.tokens, mentions));
    });
    return element("tr", {}, made);
  };
  const head = element("thead", {}, [row(token.header, "th")]);
  const rows = token.rows.map((cells) => row(cells, "td"));
  const table = element("table", {}, [head, element("tbody", {}, rows)]);
  return element("div", { class: "wide", tabindex: "0" }, [table]);
}

const renderInline = (tokens, mentions) => (tokens ?? []).flatMap((token) => renderSpan(token, mentions));

function renderSpan(token, mentions) {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return [element(token.type, {}, renderInline(token.tokens, mentions))];
    case "codespan":
      return [element("code", {}, [unescapeEntities(token.text)])];
    case "br":
      return [element("br")];
    case "link":
      return [renderLink(token.href, renderInline(token.tokens, mentions))];
    case "image":
      return /^\/uploads\/[\w.-]+$/.test(token.href)
        ? [
            element("a", { href: token.href, ...PICTURE }, [
              element("img", { src: token.href, alt: token.text || "", loading: "lazy" }),
            ]),
          ]
        : [renderLink(token.href, [token.text || token.href])];
    case "checkbox":
      return []; // renderList draws it
    case "escape":
      return [token.text];
    case "text":
      return token.tokens
        ? renderInline(token.tokens, mentions)
        : renderMentions(unescapeEntities(token.text), mentions);
    default:
      return [token.raw ?? token.text ?? ""];
  }
}

// marked leaves entities in some texts as they were typed.
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', "#39": "'", nbsp: "\u00a0" };
const unescapeEntities = (text) => text.replace(/&(lt|gt|amp|quot|#39|nbsp);/g, (_, name) => ENTITIES[name]);

function renderLink(href, children) {
  const link = checkLink(href);
  if (!link) return element("span", { class: "no-link", title: href.slice(0, 300) }, children);
  const newTab = link.isForeign ? { target: "_blank", rel: "noopener noreferrer" } : {};
  return element("a", { href, ...newTab }, children);
}

function renderMentions(text, mentions) {
  if (!mentions.size || !text.includes("@")) return [text];
  return text.split(/(@[\p{L}\p{N}_.-]+)/u).flatMap((part, i) => {
    const name = part.slice(1).replace(/[.-]+$/, ""); // "@rook." ends a sentence
    if (i % 2 === 0 || !mentions.has(name.toLowerCase())) return [part];
    return [element("span", { class: "mention" }, [`@${name}`]), part.slice(1 + name.length)];
  });
}
