// @ts-check
// The heat map of a year: one square for each day, one column for each week. A click on a day lists what was said.

import { formatNumber, shortDay, shortMonth, shortWeekday } from "../../ui/format.js";
import { html, nothing, ref, svg, t } from "../../ui/templates.js";
import { daysFrom, level, LEVELS, linkToDay } from "./days.js";

const STEP = 15; // of a square and the gap after it
const SIZE = 12;
const LEFT = 34; // room for the names of the weekdays
const TOP = 18; // room for the names of the months
const WEEKDAYS = [
  [0, "2024-01-01"],
  [2, "2024-01-03"],
  [4, "2024-01-05"],
]; // the rows that have a name, with a day of that name

// `counts` has the number of messages of each day.
export function heatMap(since, counts) {
  const days = daysFrom(since);
  const max = Math.max(...Object.values(counts));
  const weekday = (day) => (new Date(day).getUTCDay() + 6) % 7; // Monday is the first
  const first = weekday(days[0]);
  const columns = Math.ceil((first + days.length) / 7);
  const column = (i) => Math.floor((first + i) / 7);
  const months = days.map((day, i) => ({ day, i })).filter(({ day }) => day.endsWith("-01"));
  return html`<div class="year" tabindex="0" role="group" aria-label=${t("Messages in the last year")} ${ref(showNewest)}>
    <svg class="heat" width=${LEFT + columns * STEP} height=${TOP + 7 * STEP} aria-hidden="true">
      ${WEEKDAYS.map(([row, day]) => svg`<text x=${LEFT - 8} y=${TOP + Number(row) * STEP + SIZE - 2} class="y">${shortWeekday(day)}</text>`)}
      ${months.map(({ day, i }) =>
        column(i) < columns - 2
          ? svg`<text x=${LEFT + column(i) * STEP} y=${TOP - 6}>${shortMonth(day)}</text>`
          : nothing,
      )}
      ${days.map((day, i) => {
        const n = counts[day] ?? 0;
        const square = svg`<rect class="l${level(n, max)}" x=${LEFT + column(i) * STEP} y=${TOP + weekday(day) * STEP} width=${SIZE} height=${SIZE} rx="3"><title>${shortDay(day)}: ${formatNumber(n)}</title></rect>`;
        return n ? svg`<a href=${linkToDay(day)} tabindex="-1">${square}</a>` : square;
      })}
    </svg></div>
    <p class="legend scale" aria-hidden="true">${t("fewer")} ${LEVELS.map((n) => html`<i class="l${n}"></i>`)} ${t("more")}</p>`;
}

// A narrow window shows the last months first.
const shown = new WeakSet();
function showNewest(element) {
  if (!element || shown.has(element)) return;
  shown.add(element);
  queueMicrotask(() => (element.scrollLeft = element.scrollWidth));
}
