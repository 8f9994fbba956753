// @ts-check
// The evidence for a question: the text that an agent gets for it from the tool knowledge_answer_context.

import { get, withQuery } from "../../data/api.js";
import { asPrefix, wholeQuery, withoutOperators } from "../../data/operators.js";
import { timeZone } from "../../data/search.js";
import { copyAndNotify } from "../../ui/clipboard.js";
import { notify, openDialog } from "../../ui/dialog.js";
import { errorState, icon, loading } from "../../ui/elements.js";
import { formatNumber, plural } from "../../ui/format.js";
import { html, nothing, redraw, t } from "../../ui/templates.js";

const BUDGETS = [500, 2000, 8000]; // tokens
const CHARACTERS_PER_TOKEN = 4; // as the server counts

/** @type {{query: string, begun: string, budget: number, answer: any, error: any}} */
let evidence = { query: "", begun: "", budget: 2000, answer: null, error: null };

export function showEvidence(wanted) {
  if (!withoutOperators(wanted.q)) return notify(t("Type a question first."));
  // If nothing has the last word, it may be the beginning of one.
  const begun = wholeQuery({ ...wanted, q: asPrefix(wanted.q) });
  evidence = { ...evidence, query: wholeQuery(wanted), begun, answer: null, error: null };
  openDialog(t("Evidence for an agent"), template);
  load();
}

async function load() {
  const { query, budget } = evidence;
  const ask = (q) => get(withQuery("/api/knowledge/context", { q, max_tokens: budget, time_zone: timeZone }));
  try {
    let answer = await ask(query);
    if (!answer.hits && evidence.begun !== query) answer = await ask(evidence.begun);
    if (query === evidence.query && budget === evidence.budget) Object.assign(evidence, { answer, error: null });
  } catch (error) {
    Object.assign(evidence, { answer: null, error });
  }
  redraw();
}

function template() {
  const { query, budget, answer, error } = evidence;
  const choose = (value) => {
    Object.assign(evidence, { budget: value, answer: null });
    redraw();
    load();
  };
  const tokens = answer ? Math.ceil(answer.text.length / CHARACTERS_PER_TOKEN) : 0;
  return html`<div class="evidence">
    <p>${t("This is what an agent gets for")} <q>${query}</q>. ${t("Room for it:")}
      <span class="choice" role="group" aria-label=${t("Room in tokens")}>${BUDGETS.map(
        (value) =>
          html`<button type="button" aria-pressed=${value === budget} @click=${() => choose(value)}>${formatNumber(value)}</button>`,
      )}</span> ${t("tokens")}</p>
    ${error ? errorState(error, load) : nothing}
    ${!answer && !error ? loading() : nothing}
    ${
      answer
        ? html`<p role="status">${plural(answer.hits, "passage")} · ${t("about {n} tokens", { n: formatNumber(tokens) })}${answer.more ? ` · ${t("more did not fit")}` : ""}</p>
      ${answer.text ? html`<pre tabindex="0">${answer.text}</pre>` : html`<p class="hint">${answer.hint ?? t("Nothing found")}</p>`}
      <footer><button type="button" class="main" ?disabled=${!answer.text} @click=${() => copyAndNotify(answer.text)}>${icon("copy")} ${t("Copy")}</button></footer>`
        : nothing
    }</div>`;
}
