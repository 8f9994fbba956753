// @ts-check
// The charts of the overview that show days: a heat map of a year, and lanes of agents and projects.

import { wholeQuery } from "../../data/operators.js";
import { link } from "../../route.js";
import { icon } from "../../ui/elements.js";
import { formatNumber, shortDay, shortMonth, shortWeekday } from "../../ui/format.js";
import { html, nothing, ref, svg, t } from "../../ui/templates.js";

const DAY = 864e5; // milliseconds
const LEVELS = [0, 1, 2, 3, 4];

// All days from `since` until today, such as 2026-05-31. `count` is their number, if it is known.
export function daysFrom(since, count = 366) {
  const start = new Date(`${since}T00:00:00Z`).getTime();
  return Array.from({ length: count }, (_, i) => new Date(start + i * DAY).toISOString().slice(0, 10));
}

// How strong a colour is: 0 for none, 4 for many. Each level is a multiple of the one before, so a busy day leaves the others visible.
function level(n, max) {
  if (!n) return 0;
  return max <= 1 ? 4 : 1 + Math.round((3 * Math.log(n)) / Math.log(max));
}

const NO_FILTERS = { q: "", thread: "", source: "", project: "", author: "", role: "" };

// A search for everything of a day, or only of an author, a source or a project.
export const linkToDay = (day, filters = {}) =>
  link("search", { q: wholeQuery({ ...NO_FILTERS, ...filters, since: day, until: day }) });

// The heat map of a year: one square for each day, one column for each week. A click on a day lists what was said.

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

// Lanes: one row for each agent or project, with one mark for each day on which it was active.

const LANE_WIDTH = 600; // the lane is stretched to the width of the page
const LANE_HEIGHT = 16;

/**
 * @typedef {object} Lane
 * @property {string} name
 * @property {string} icon
 * @property {Record<string, number>} days The number of messages by day.
 * @property {(day: string) => string} href
 */

export const sumOf = (counts) => Object.values(counts).reduce((sum, n) => sum + n, 0);

/** @type {(days: string[], lanes: Lane[]) => unknown} */
export function laneChart(days, lanes) {
  const max = Math.max(...lanes.flatMap((lane) => Object.values(lane.days)));
  const step = LANE_WIDTH / days.length;
  return html`<ul class="lanes">${lanes.map(
    (lane) => html`<li>${icon(lane.icon)} <span title=${lane.name}>${lane.name}</span>
      <svg viewBox="0 0 ${LANE_WIDTH} ${LANE_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
        <rect class="ground" width=${LANE_WIDTH} height=${LANE_HEIGHT} />
        ${days.map((day, i) => {
          const n = lane.days[day];
          if (!n) return nothing;
          return svg`<a href=${lane.href(day)} tabindex="-1"><rect class="l${level(n, max)}" x=${i * step} width=${Math.max(step - 1, step * 0.8)} height=${LANE_HEIGHT}><title>${lane.name}, ${shortDay(day)}: ${formatNumber(n)}</title></rect></a>`;
        })}
      </svg><b>${formatNumber(sumOf(lane.days))}</b></li>`,
  )}</ul>
  <p class="span" aria-hidden="true"><span>${shortDay(days[0])}</span><span>${shortDay(days.at(-1) ?? days[0])}</span></p>`;
}
