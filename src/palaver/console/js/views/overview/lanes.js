// @ts-check
// Lanes: one row for each agent or project, with one mark for each day on which it was active.

import { formatNumber, shortDay } from "../../ui/format.js";
import { icon } from "../../ui/elements.js";
import { html, nothing, svg } from "../../ui/templates.js";
import { level } from "./days.js";

const WIDTH = 600; // the lane is stretched to the width of the page
const HEIGHT = 16;

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
  const step = WIDTH / days.length;
  return html`<ul class="lanes">${lanes.map(
    (lane) => html`<li>${icon(lane.icon)} <span title=${lane.name}>${lane.name}</span>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
        <rect class="ground" width=${WIDTH} height=${HEIGHT} />
        ${days.map((day, i) => {
          const n = lane.days[day];
          if (!n) return nothing;
          return svg`<a href=${lane.href(day)} tabindex="-1"><rect class="l${level(n, max)}" x=${i * step} width=${Math.max(step - 1, step * 0.8)} height=${HEIGHT}><title>${lane.name}, ${shortDay(day)}: ${formatNumber(n)}</title></rect></a>`;
        })}
      </svg><b>${formatNumber(sumOf(lane.days))}</b></li>`,
  )}</ul>
  <p class="span" aria-hidden="true"><span>${shortDay(days[0])}</span><span>${shortDay(days.at(-1) ?? days[0])}</span></p>`;
}
