// @ts-check
// Emoji: a panel to choose one, and their shortcodes. This file and its data are loaded when they are first needed.

import { groups } from "../../../vendor/emojibase/emoji.js";
import { personalKey } from "../../data/session.js";
import { storage } from "../../data/storage.js";
import { html, nothing, render, t } from "../../ui/templates.js";

const GROUPS = ["Recent", "Smileys", "People", "Nature", "Food", "Travel", "Activities", "Objects", "Symbols", "Flags"];
const COLUMNS = 8;
const MOST_FOUND = 80;
const MOST_RECENT = 16;

/** @typedef {{emoji: string, codes: string[], words: string[]}} Emoji */

/** @type {Record<string, Emoji[]>} */
const byGroup = Object.fromEntries(
  Object.entries(groups).map(([name, lines]) => [
    name,
    lines.split("\n").map((line) => {
      const [emoji, codes, words = ""] = line.split(" ");
      return { emoji, codes: codes.split(","), words: words.split(",").filter(Boolean) };
    }),
  ]),
);
const all = Object.values(byGroup).flat();
const byCode = new Map(all.flatMap((one) => one.codes.map((code) => [code, one.emoji])));

// The emoji of a shortcode; undefined if there is none.
export const emojiOf = (code) => byCode.get(code.toLowerCase());

// A text that is one shortcode becomes its emoji; other texts stay.
export const withoutShortcode = (text) => emojiOf(text.match(/^:([\w+-]+):$/)?.[1] ?? "") ?? text;

// Emoji whose shortcode or words begin with the text, then those that contain it.
export function searchEmoji(text, limit = MOST_FOUND) {
  const wanted = text.toLowerCase().replace(/^:|:$/g, "").trim().replace(/\s+/g, "_");
  if (!wanted) return [];
  const rank = ({ codes, words }) => {
    if (codes.includes(wanted)) return 4;
    if (codes.some((code) => code.startsWith(wanted))) return 3;
    if (words.some((word) => word.startsWith(wanted))) return 2;
    return codes.some((code) => code.includes(wanted)) ? 1 : 0;
  };
  const ranked = all.map((one) => ({ one, score: rank(one) })).filter(({ score }) => score);
  return ranked
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ one }) => one);
}

const recent = () => /** @type {string[]} */ (storage.read(personalKey("emoji"), []) ?? []);
const remember = (emoji) =>
  storage.write(personalKey("emoji"), [emoji, ...recent().filter((one) => one !== emoji)].slice(0, MOST_RECENT));

// Draw a panel into an element. `choose` gets the chosen emoji.
export function mountEmojiPanel(container, choose) {
  let query = "";
  let group = recent().length ? "Recent" : "Smileys";
  const shown = () => {
    if (query.trim()) return searchEmoji(query);
    if (group !== "Recent") return byGroup[group];
    return recent().map((emoji) => all.find((one) => one.emoji === emoji) ?? { emoji, codes: [emoji], words: [] });
  };
  const pick = (emoji) => {
    remember(emoji);
    choose(emoji);
  };
  const onKey = (event) => {
    const buttons = /** @type {HTMLElement[]} */ ([...container.querySelectorAll(".emoji button")]);
    const current = buttons.indexOf(event.target);
    if (event.key === "Enter" && current < 0) {
      event.preventDefault(); // the box is in the form of the message
      buttons[0]?.click();
      return;
    }
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: COLUMNS, ArrowUp: -COLUMNS }[event.key];
    if (!step || (current < 0 && event.key !== "ArrowDown")) return;
    event.preventDefault();
    event.stopPropagation();
    const next = current < 0 ? buttons[0] : buttons[current + step];
    if (next) next.focus();
    else if (current + step < 0) container.querySelector("input").focus();
  };
  const draw = () => {
    const found = shown();
    render(
      html`<div class="emoji-panel" @keydown=${onKey}>
        <input type="search" .value=${query} placeholder=${t("Search emoji")} aria-label=${t("Search emoji")} autocomplete="off"
          @input=${(event) => ((query = event.target.value), draw())} />
        <div class="groups" role="group" aria-label=${t("Groups of emoji")}>${GROUPS.map(
          (name) =>
            html`<button type="button" aria-pressed=${name === group && !query.trim()} aria-label=${t(name)} title=${t(name)}
            @click=${() => ((group = name), (query = ""), draw())}>${name === "Recent" ? "🕘" : byGroup[name][0].emoji}</button>`,
        )}</div>
        <div class="emoji" role="group" aria-label=${query.trim() ? t("Results") : t(group)}>${found.map(
          ({ emoji, codes }) =>
            html`<button type="button" aria-label=":${codes[0]}:" title=":${codes[0]}:" @click=${() => pick(emoji)}>${emoji}</button>`,
        )}${found.length ? nothing : html`<p>${t("Nothing found")}</p>`}</div>
      </div>`,
      container,
    );
  };
  draw();
  container.querySelector("input").focus();
}
