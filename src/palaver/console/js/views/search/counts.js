// @ts-check
// Counts by source and by month, as filters.

import { search } from "../../data/search.js";
import { sourceNames, SOURCES } from "../../data/sources.js";
import { formatNumber, monthName } from "../../ui/format.js";
import { html, nothing, t } from "../../ui/templates.js";
import { goToSearch } from "../search_bar.js";

const MAX_MONTHS = 24;

const shownCount = (count, isCapped) => `${formatNumber(count)}${isCapped ? "+" : ""}`;

// Buttons for the sources, each with its number of results.
export function sourceChoice(wanted) {
  const { counts } = search;
  const total = counts && Object.values(counts.sources).reduce((sum, count) => sum + count, 0);
  const count = (name) => (name ? (counts.sources[name] ?? 0) : total);
  const button = (name, label) => {
    const isEmpty = counts && !count(name) && name !== wanted.source;
    return html`<button type="button" class=${isEmpty ? "none" : ""} aria-pressed=${name === wanted.source}
      @click=${() => goToSearch({ ...wanted, source: name })}>${t(label)}${
        counts ? html` <small aria-hidden="true">${shownCount(count(name), counts.isCapped)}</small>` : nothing
      }</button>`;
  };
  return html`<div class="choice" role="group" aria-label=${t("Source")}>${button("", "Everything")}${sourceNames.map(
    (name) => button(name, SOURCES[name].label),
  )}</div>`;
}

const firstDay = (month) => `${month}-01`;
const lastDay = (month) => {
  const [year, number] = month.split("-").map(Number);
  return `${month}-${new Date(Date.UTC(year, number, 0)).getUTCDate()}`;
};

// Buttons for the months that have results, newest first.
export function monthChoice(wanted) {
  const months = Object.entries(search.counts?.months ?? {});
  const chosen = wanted.since.slice(0, 7);
  const isMonth = chosen && wanted.since === firstDay(chosen) && wanted.until === lastDay(chosen);
  if (!isMonth && months.length < 2) return nothing;
  const choose = (month) => goToSearch({ ...wanted, since: month && firstDay(month), until: month && lastDay(month) });
  return html`<div class="months" role="group" aria-label=${t("Month")}>
    ${isMonth ? html`<button type="button" @click=${() => choose("")}>${t("All months")}</button>` : nothing}
    ${months.slice(0, MAX_MONTHS).map(([month, count]) => {
      const isChosen = Boolean(isMonth) && month === chosen;
      return html`<button type="button" aria-pressed=${isChosen} @click=${() => choose(isChosen ? "" : month)}>${monthName(month)}
      <small>${shownCount(count, search.counts.isCapped)}</small></button>`;
    })}
  </div>`;
}
