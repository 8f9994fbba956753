// @ts-check
// Formatting of dates, times, numbers, file sizes and plain text.

import { settings } from "../data/settings.js";
import { html, t } from "./templates.js";

// The locale of times and numbers: the browser's, or one of the chosen language.
function locale() {
  const chosen = settings.get("language");
  if (chosen === "system") return undefined;
  return navigator.languages.find((one) => one.startsWith(chosen)) ?? chosen;
}

const CLOCKS = { 12: { hour12: true }, 24: { hourCycle: "h23" } };

// A formatter is created at its first use: creating them all costs more than drawing a thread. It is created again when
// the settings have changed.
/** @type {(options: Intl.DateTimeFormatOptions, show?: (format: Intl.DateTimeFormat, date: Date) => string) => (date: Date) => string} */
function lazyFormat(options, show = (format, date) => format.format(date)) {
  /** @type {Intl.DateTimeFormat | undefined} */
  let format;
  let version = -1;
  return (date) => {
    if (!format || version !== settings.version) {
      const clock = options.hour || options.timeStyle ? CLOCKS[settings.get("clock")] : {};
      format = new Intl.DateTimeFormat(locale(), { ...options, ...clock });
      version = settings.version;
    }
    return show(format, date);
  };
}

const withoutDayPeriod = (format, date) =>
  format
    .formatToParts(date)
    .filter(({ type }) => type !== "dayPeriod")
    .map(({ value }) => value)
    .join("")
    .trim();

const formatClock = lazyFormat({ hour: "2-digit", minute: "2-digit" });
const formatBareClock = lazyFormat({ hour: "2-digit", minute: "2-digit" }, withoutDayPeriod);
const formatWeekday = lazyFormat({ weekday: "long", day: "numeric", month: "long" });
const formatDate = lazyFormat({ day: "numeric", month: "long", year: "numeric" });
const formatMonth = lazyFormat({ month: "short", year: "numeric" });
const formatShortDay = lazyFormat({ day: "numeric", month: "short" });
const formatMonthName = lazyFormat({ month: "short" });
const formatWeekdayName = lazyFormat({ weekday: "short" });
const formatShortDate = lazyFormat({ day: "numeric", month: "short", year: "numeric" });
const formatFull = lazyFormat({ dateStyle: "full", timeStyle: "medium" });

const DAY = 864e5; // milliseconds
const YEAR_SHOWN_AFTER = 300; // days

const daysAgo = (date) => Math.round((new Date().setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / DAY);

// "Today", "Yesterday", or a date.
export function dayName(iso) {
  const date = new Date(iso);
  const ago = daysAgo(date);
  if (ago === 0) return t("Today");
  if (ago === 1) return t("Yesterday");
  return ago < YEAR_SHOWN_AFTER && ago > 0 ? formatWeekday(date) : formatDate(date);
}

// Equal for two times on the same day. Lists ask for it at every drawing, so the answers are kept, one for ten minutes.
const dayKeys = new Map();
export function dayKey(iso) {
  const minutes = iso.slice(0, 15) + (iso.endsWith("Z") ? "" : iso.slice(-6));
  if (!dayKeys.has(minutes)) dayKeys.set(minutes, new Date(iso).toDateString());
  return dayKeys.get(minutes);
}
export const clockTime = (iso) => formatClock(new Date(iso));
export const bareClockTime = (iso) => formatBareClock(new Date(iso)); // without AM and PM, where there is little room
export const fullTime = (iso) => formatFull(new Date(iso));

// The clock time for today, otherwise the date.
export function shortTime(iso) {
  const date = new Date(iso);
  const ago = daysAgo(date);
  if (ago === 0) return formatClock(date);
  return (ago < YEAR_SHOWN_AFTER ? formatShortDay : formatShortDate)(date);
}

// The clock time, with the date unless it is today.
export const momentOf = (iso) =>
  daysAgo(new Date(iso)) === 0 ? clockTime(iso) : `${shortTime(iso)}, ${clockTime(iso)}`;

export function timeAgo(iso) {
  const seconds = Math.max(0, (Date.now() - new Date(iso).getTime()) / 1000);
  if (seconds < 45) return t("just now");
  if (seconds < 3600) return t("{n} min ago", { n: Math.round(seconds / 60) });
  if (seconds < 86400) return t("{n} h ago", { n: Math.round(seconds / 3600) });
  return shortTime(iso);
}

// How long something has lasted since a time: "12 min", "3 h", "2 days".
export function timeSince(iso) {
  const minutes = Math.max(0, Date.now() - new Date(iso).getTime()) / 60_000;
  if (minutes < 60) return t("{n} min", { n: Math.max(1, Math.round(minutes)) });
  if (minutes < 48 * 60) return t("{n} h", { n: Math.round(minutes / 60) });
  return t("{n} days", { n: Math.round(minutes / 1440) });
}

// A <time> element whose tooltip is the full date and time.
export const timeElement = (iso, shown = shortTime(iso)) =>
  html`<time datetime=${iso} title=${fullTime(iso)}>${shown}</time>`;

// "May 2026" for 2026-05.
export const monthName = (month) => formatMonth(new Date(`${month}-15T12:00`));

// Of a day such as 2026-05-31: "31 May", "May", "Sun".
const noonOf = (day) => new Date(`${day}T12:00`);
export const shortDay = (day) => formatShortDay(noonOf(day));
export const shortMonth = (day) => formatMonthName(noonOf(day));
export const shortWeekday = (day) => formatWeekdayName(noonOf(day));

// "1:02:03" or "02:03": a position in a recording.
export function formatTimestamp(seconds) {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return `${h ? `${h}:` : ""}${String(m).padStart(2, "0")}:${String(s).padStart(2, "0")}`;
}

export const formatNumber = (n) => n.toLocaleString(locale());
export const plural = (n, one, many = `${one}s`) => `${formatNumber(n)} ${t(n === 1 ? one : many)}`;

export function fileSize(bytes) {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

// The last component of a project's path, on Windows too.
export const projectName = (path) =>
  path
    .split(/^[a-z]:[/\\]|^\\\\/i.test(path) ? /[/\\]/ : "/")
    .filter(Boolean)
    .at(-1) ?? path;

// A title without the marks of Markdown: that of a session is its first question.
export const plainTitle = (title) => (title ?? "").replace(/\*\*|`+|^#+ /g, "");

// The beginning of a Markdown text as one line without markup, for previews.
export const plainText = (markdown) =>
  markdown
    .slice(0, 600)
    .replace(/^---\n[\s\S]*?\n---/, "")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[-:]{3,}/g, "")
    .replace(/```\w*|[*`>|~]+|^#+ |^[-*] (\[.\] )?/gm, "")
    .replace(/\s+/g, " ")
    .trim();
