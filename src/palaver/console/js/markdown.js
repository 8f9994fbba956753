// Markdown as elements. marked only cuts the text into tokens; every element is made here, one by one, so nothing that
// somebody wrote is ever read as HTML. Pictures from elsewhere become links: no request leaves the machine.

import { Lexer } from "../vendor/marked/marked.js";

const LONGEST = 200_000;

export function markdown(text, { mentions } = {}) {
  const whole = document.createElement("div");
  whole.className = "prose";
  let tokens;
  try {
    tokens = new Lexer({ gfm: true, breaks: true }).lex(text.slice(0, LONGEST));
  } catch {
    tokens = [{ type: "text", text: text.slice(0, LONGEST) }];
  }
  whole.append(...blocks(tokens, { mentions }));
  if (text.length > LONGEST) whole.append(element("p", {}, ["… (the rest is too long to be shown here)"]));
  return whole;
}

function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const blocks = (tokens, how) => tokens.flatMap((token) => block(token, how));

function block(token, how) {
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [element(`h${Math.min(token.depth + 2, 6)}`, {}, inline(token.tokens, how))];
    case "paragraph":
      return [element("p", {}, inline(token.tokens, how))];
    case "text":
      return [element("p", {}, token.tokens ? inline(token.tokens, how) : [token.text])];
    case "code":
      return [code(token)];
    case "blockquote":
      return [element("blockquote", {}, blocks(token.tokens, how))];
    case "hr":
      return [element("hr")];
    case "list":
      return [list(token, how)];
    case "table":
      return [table(token, how)];
    default:
      return [element("p", {}, [token.raw ?? token.text ?? ""])]; // HTML too: shown as it was typed
  }
}

function code(token) {
  const language = (token.lang ?? "").trim().split(/\s/)[0].slice(0, 30);
  const copy = element("button", { type: "button", class: "copy", "aria-label": "Copy the code" }, ["Copy"]);
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(token.text).catch(() => {});
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const head = element("figcaption", {}, [element("span", {}, [language || "text"]), copy]);
  return element("figure", { class: "code" }, [
    head,
    element("pre", { tabindex: "0" }, [element("code", {}, [token.text])]),
  ]);
}

function list(token, how) {
  const items = token.items.map((item) => {
    // A tight item is words, not a paragraph.
    const children = item.tokens.flatMap((child) => {
      if (child.type === "checkbox") return [];
      return child.type === "text" && !item.loose ? inline(child.tokens ?? [child], how) : block(child, how);
    });
    if (!item.task) return element("li", {}, children);
    const box = element("input", { type: "checkbox", disabled: "", "aria-label": item.checked ? "done" : "open" });
    box.checked = item.checked;
    return element("li", { class: "task" }, [box, ...children]);
  });
  const start = token.ordered && token.start > 1 ? { start: String(token.start) } : {};
  return element(token.ordered ? "ol" : "ul", start, items);
}

function table(token, how) {
  const cells = (row, name) =>
    row.map((cell, i) => {
      const align = token.align[i];
      return element(name, align ? { class: `to-${align}` } : {}, inline(cell.tokens, how));
    });
  const head = element("thead", {}, [element("tr", {}, cells(token.header, "th"))]);
  const body = element(
    "tbody",
    {},
    token.rows.map((row) => element("tr", {}, cells(row, "td"))),
  );
  return element("div", { class: "wide", tabindex: "0" }, [element("table", {}, [head, body])]);
}

const inline = (tokens, how) => (tokens ?? []).flatMap((token) => span(token, how));

function span(token, how) {
  switch (token.type) {
    case "strong":
      return [element("strong", {}, inline(token.tokens, how))];
    case "em":
      return [element("em", {}, inline(token.tokens, how))];
    case "del":
      return [element("del", {}, inline(token.tokens, how))];
    case "codespan":
      return [element("code", {}, [unescaped(token.text)])];
    case "br":
      return [element("br")];
    case "link":
      return [anchor(token.href, inline(token.tokens, how))];
    case "image":
      return [picture(token)];
    case "escape":
      return [token.text];
    case "text":
      return token.tokens ? inline(token.tokens, how) : named(unescaped(token.text), how);
    default:
      return [token.raw ?? token.text ?? ""];
  }
}

// marked leaves entities in some texts as they were typed; people who type &amp; mean &.
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', "#39": "'", nbsp: "\u00a0" };
const unescaped = (text) => text.replace(/&(lt|gt|amp|quot|#39|nbsp);/g, (_, name) => ENTITIES[name]);

function anchor(href, children) {
  const target = safe(href);
  if (!target) return element("span", { class: "no-link", title: href.slice(0, 300) }, children);
  const isOurs = target.startsWith("#") || target.startsWith("/");
  return element(
    "a",
    isOurs ? { href: target } : { href: target, target: "_blank", rel: "noopener noreferrer" },
    children,
  );
}

const safe = (href) => (/^(https?:|mailto:|#\/)/i.test(href) || /^\/(?!\/)/.test(href) ? href : null);

function picture(token) {
  const isOurs = /^\/uploads\/[\w.-]+$/.test(token.href);
  if (!isOurs) return anchor(token.href, [token.text || token.href]);
  return element("img", { src: token.href, alt: token.text || "", loading: "lazy" });
}

// @names of those who are meant.
function named(text, { mentions }) {
  if (!mentions?.size || !text.includes("@")) return [text];
  return text.split(/(@[\p{L}\p{N}_.-]+)/u).map((part, i) => {
    if (i % 2 === 0) return part;
    const name = part.slice(1).replace(/[.-]+$/, "");
    if (!mentions.has(name.toLowerCase())) return part;
    const rest = part.slice(1 + name.length);
    const who = element("span", { class: "mention" }, [`@${name}`]);
    if (!rest) return who;
    const both = element("span", {}, [who, rest]);
    return both;
  });
}
