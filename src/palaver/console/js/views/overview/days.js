// @ts-check
// Days in charts: their order, how strong the colour of a number is, and the search for the messages of a day.

import { wholeQuery } from "../../data/operators.js";
import { link } from "../../route.js";

export const DAY = 864e5; // milliseconds
export const LEVELS = [0, 1, 2, 3, 4];

// All days from `since` until today, such as 2026-05-31. `count` is their number, if it is known.
export function daysFrom(since, count = 366) {
  const start = new Date(`${since}T00:00:00Z`).getTime();
  return Array.from({ length: count }, (_, i) => new Date(start + i * DAY).toISOString().slice(0, 10));
}

// How strong a colour is: 0 for none, 4 for many. Each level is a multiple of the one before, so a busy day leaves the others visible.
export function level(n, max) {
  if (!n) return 0;
  return max <= 1 ? 4 : 1 + Math.round((3 * Math.log(n)) / Math.log(max));
}

const NO_FILTERS = { q: "", thread: "", source: "", project: "", author: "", role: "" };

// A search for everything of a day, or only of an author, a source or a project.
export const linkToDay = (day, filters = {}) =>
  link("search", { q: wholeQuery({ ...NO_FILTERS, ...filters, since: day, until: day }) });
