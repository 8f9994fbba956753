// @ts-check
// The overview: a year at a glance, messages per day, authors and projects over time, documents by source, and the state of
// the index. Each chart can be read as a table.

import { get, withQuery } from "../data/api.js";
import { on } from "../data/events.js";
import { SOURCES, sourcesWith } from "../data/sources.js";
import { link } from "../route.js";
import { choice, emptyState, errorState, icon, loading } from "../ui/elements.js";
import { fileSize, formatNumber, plural, projectName, shortDay, timeAgo, timeElement } from "../ui/format.js";
import { notifyError } from "../ui/dialog.js";
import { html, nothing, redraw, svg, t } from "../ui/templates.js";
import { daysFrom, heatMap, laneChart, linkToDay, sumOf } from "./overview/charts.js";

const CHART_SOURCES = sourcesWith("hasMessages");
const YEAR = 366; // days
const LETTER_WIDTH = 7; // of a digit in the chart
const SOONEST = 1000; // milliseconds from an event to the request that it causes
const BREAK = 10; // the break between two requests, in times of what the last one took
let lastTook = 0; // milliseconds

let days = 30;
/** @type {any} */
let overview = null;
/** @type {any} */
let year = null; // the counts of the heat map
const shownAsTable = new Set();
/** @type {Error | null} */
let error = null;

export const overviewView = {
  title: () => t("Overview"),
  isInner: () => true,
  enter: () => {
    isShown = true;
    load();
    loadYear();
  },
  leave: () => (isShown = false),
  retry: () => (load(), loadYear()),
  template: () => html`<main class="pane overview">
    <header class="head"><div class="name"><h1>${t("Overview")}</h1><p>${t("Messages and documents in this workspace")}</p></div>
      ${choice(
        t("Period"),
        [7, 30, 90].map((n) => [n, t("{n} days", { n })]),
        days,
        (n) => ((days = n), load()),
      )}</header>
    <div class="scroll" tabindex="0" role="region" aria-label=${t("Overview")}><div class="page-body wide">${error ? errorState(error, load) : overview ? content() : loading()}</div></div>
  </main>`,
};

// The figures follow what happens: many events in a row cause one request, and a hidden window waits until it is shown.
const LIVE_EVENTS = ["msg.new", "msg.delete", "thread.new", "thread.deleted", "agent.online", "agent.offline", "reset"];
let isShown = false;
let isOutdated = false;
/** @type {number | undefined} */
let timer;

function update() {
  isOutdated = true;
  if (!isShown || document.hidden || timer) return;
  const wait = Math.max(SOONEST, BREAK * lastTook); // a large workspace is asked less often
  timer = setTimeout(async () => {
    timer = undefined;
    if (!isShown || document.hidden) return;
    isOutdated = false;
    const started = performance.now();
    await load();
    if (year) await loadYear();
    lastTook = performance.now() - started;
  }, wait);
}

for (const type of LIVE_EVENTS) on(type, update);
document.addEventListener("visibilitychange", () => isOutdated && update());

// Days begin and end where the viewer is. A server without time zones counts in UTC.
async function loadDays(count) {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return get(withQuery("/api/overview", { days: count, timezone: timeZone })).catch((error) => {
    if (error.status !== 422) throw error;
    return get(withQuery("/api/overview", { days: count }));
  });
}

async function load() {
  try {
    overview = await loadDays(days);
    error = null;
  } catch (problem) {
    if (overview) notifyError(problem);
    else error = problem;
  }
  redraw();
}

// The counts of a year take longer in a large workspace, so the rest of the page does not wait for them.
async function loadYear() {
  try {
    year = await loadDays(YEAR);
  } catch {
    // load() shows the error.
  }
  redraw();
}

function content() {
  const { status, storage_bytes } = overview;
  const { model } = status;
  const total = overview.days.reduce((sum, day) => sum + day.messages, 0);
  return html`
    <ul class="tiles">
      ${tile(t("Messages"), formatNumber(total), t("in {n} days", { n: days }))}
      ${tile(t("Threads"), formatNumber(status.threads), t("{n} messages in total", { n: formatNumber(status.messages) }))}
      ${tile(t("Agents"), formatNumber(status.agents_online), t("of {n} online", { n: formatNumber(status.agents) }))}
      ${storage_bytes === null ? nothing : tile(t("Storage"), fileSize(storage_bytes), status.engine === "sqlite" ? "SQLite" : "PostgreSQL")}
      ${
        overview.is_index_complete
          ? tile(t("Index"), "Complete", "search covers everything", "good")
          : tile(t("Index"), "Updating", "search may miss the newest items", "warn")
      }
      ${
        !model
          ? nothing
          : model.done >= model.passages
            ? tile(t("Model"), "Ready", model.name, "good")
            : tile(
                t("Model"),
                `${Math.floor((100 * model.done) / model.passages)} %`,
                t("of vectors computed by {name}", { name: model.name }),
                "warn",
              )
      }
      ${status.check ? checkTile(status.check) : nothing}
    </ul>
    ${status.check?.findings.length ? damage(status.check.findings) : nothing}
    ${charts(total)}`;
}

function charts(total) {
  const sources = Object.entries(overview.documents).filter(([, n]) => n);
  const isEmpty = !total && year && !year.days.length;
  return html`
    ${
      isEmpty
        ? html`<section class="chart">${
            sources.length
              ? emptyState("overview", "No messages", "There are no messages of the last year.")
              : emptyState(
                  "overview",
                  "No messages yet",
                  "Charts are shown here as soon as agents or people write.",
                  html`<p class="buttons"><a class="button" href="#/agents">${icon("agents")} ${t("Connect an agent")}</a>
                    <a class="button" href="#/import">${icon("import")} ${t("Import files")}</a></p>`,
                )
          }</section>`
        : html`
      ${yearSection()}
      ${total ? daySection() : html`<section class="chart"><h2>${t("Messages per day")}</h2>${emptyState("overview", "No messages", "There are no messages in this period.")}</section>`}
      ${laneSection(
        "Authors over time",
        overview.authors.map((one) => ({
          name: one.name,
          icon: one.agent_id ? "agents" : "person",
          days: one.days,
          href: (day) => linkToDay(day, { author: one.name }),
        })),
      )}
      ${laneSection(
        "Projects over time",
        overview.projects.map(({ project, days }) => ({
          name: projectName(project),
          icon: "sessions",
          days,
          href: (day) => linkToDay(day, { project }),
        })),
      )}`
    }
    ${
      sources.length
        ? html`<section class="chart"><h2>${t("Documents by source")}</h2>${barChart(
            sources.map(([name, n]) => [
              t(SOURCES[name].label),
              n,
              SOURCES[name].icon,
              SOURCES[name].library ? link(["library", name]) : "#/threads",
            ]),
          )}</section>`
        : nothing
    }`;
}

// A chart that can also be read as a table. `columns` have a name, the numbers by day, and links to the days.
function chartSection(title, chart, columns) {
  const isTable = shownAsTable.has(title);
  const toggle = () => {
    if (isTable) shownAsTable.delete(title);
    else shownAsTable.add(title);
    redraw();
  };
  const action = t(isTable ? "Show as chart" : "Show as table");
  return html`<section class="chart" aria-label=${t(title)}>
    <header><h2>${t(title)}</h2><button type="button" class="link" aria-label="${action}: ${t(title)}" @click=${toggle}>${action}</button></header>
    ${isTable ? dayTable(title, columns) : chart()}</section>`;
}

function dayTable(title, columns) {
  const rows = [...new Set(columns.flatMap((column) => Object.keys(column.days)))].sort().reverse();
  return html`<div class="day-table" tabindex="0" role="group" aria-label=${t(title)}><table>
    <thead><tr><th scope="col">${t("Day")}</th>${columns.map((column) => html`<th scope="col">${column.name}</th>`)}</tr></thead>
    <tbody>${rows.map(
      (day) => html`<tr><th scope="row"><a href=${linkToDay(day)}>${shortDay(day)}</a></th>
      ${columns.map((column) => html`<td>${column.days[day] ? html`<a href=${column.href(day)}>${formatNumber(column.days[day])}</a>` : nothing}</td>`)}</tr>`,
    )}</tbody></table></div>`;
}

function yearSection() {
  if (!year) return html`<section class="chart"><h2>${t("Messages in the last year")}</h2>${loading()}</section>`;
  const counts = {};
  for (const { day, messages } of year.days) counts[day] = (counts[day] ?? 0) + messages;
  const summary = t("{messages} on {days}. Click a day to read it.", {
    messages: plural(sumOf(counts), "message"),
    days: plural(Object.keys(counts).length, "day"),
  });
  const chart = () => html`<p class="note">${summary}</p>${heatMap(year.since, counts)}`;
  return chartSection("Messages in the last year", chart, [{ name: t("Messages"), days: counts, href: linkToDay }]);
}

function daySection() {
  const columns = CHART_SOURCES.map((source) => ({
    name: t(SOURCES[source].label),
    days: Object.fromEntries(
      overview.days.filter((one) => one.source === source).map(({ day, messages }) => [day, messages]),
    ),
    href: (day) => linkToDay(day, { source }),
  }));
  return chartSection(
    "Messages per day",
    dayChart,
    columns.filter((column) => sumOf(column.days)),
  );
}

function laneSection(title, lanes) {
  if (!lanes.length) return nothing;
  return chartSection(title, () => laneChart(daysFrom(overview.since, days), lanes), lanes);
}

const tile = (name, value, note, mood = "") =>
  html`<li class=${mood}><small>${t(name)}</small><b>${t(value)}</b><span>${t(note)}</span></li>`;

// The background check of the server: `check` has its state, the time of the last round and its findings.
function checkTile({ state, last_round_at, findings }) {
  const when = last_round_at ? t("checked {time}", { time: timeAgo(last_round_at) }) : "not checked yet";
  if (findings.length) return tile(t("Data"), "Damaged", when, "bad");
  if (last_round_at) return tile(t("Data"), "Intact", when, "good");
  return state === "off" ? nothing : tile(t("Data"), "Checking", when);
}

const damage = (findings) =>
  html`<section class="chart damage"><h2>${t("Damage that the server found")}</h2>
    <ul>${findings.map((one) => html`<li><b>${one.says}.</b> <span>${one.advice}.</span> <small>${timeElement(one.found_at)}</small></li>`)}</ul>
  </section>`;

function dayChart() {
  const width = Math.max(280, Math.min(900, innerWidth - 110)); // a narrow window gets fewer units, so text keeps its size
  const height = width < 500 ? 150 : 180;
  const columns = daysFrom(overview.since, days).map((day) => {
    const counts = CHART_SOURCES.map(
      (source) => overview.days.find((one) => one.day === day && one.source === source)?.messages ?? 0,
    );
    return { day, counts, sum: counts.reduce((a, b) => a + b, 0) };
  });
  const max = roundUp(Math.max(...columns.map(({ sum }) => sum)));
  const marks = [0, 0.5, 1].map((part) => ({ part, text: formatNumber(Math.round(max * part)) }));
  const left = 16 + LETTER_WIDTH * Math.max(...marks.map(({ text }) => text.length)); // room for the numbers
  const step = width / days;
  const used = CHART_SOURCES.filter((_, i) => columns.some(({ counts }) => counts[i]));
  const labelEvery = Math.ceil(days / (width / 110));
  return html`<p class="hidden">${t("Messages per day, at most {n}", { n: formatNumber(max) })}</p><svg class="days" viewBox="0 0 ${width + left} ${height + 30}" aria-hidden="true">
      ${marks.map(
        ({ part, text }) =>
          svg`<line x1=${left} x2=${width + left} y1=${10 + height * (1 - part)} y2=${10 + height * (1 - part)} />
        <text class="y" x=${left - 6} y=${14 + height * (1 - part)}>${text}</text>`,
      )}
      ${columns.map(({ day, counts, sum }, i) => {
        const x = left + i * step;
        let y = height + 10;
        const bar = svg`<g><title>${shortDay(day)}: ${formatNumber(sum)}</title><rect class="ground" x=${x} y="10" width=${step} height=${height} />
          ${counts.map((n, source) => {
            if (!n) return nothing;
            const barHeight = Math.max(2, (n / max) * height);
            y -= barHeight;
            return svg`<rect class="s${source}" x=${x + step * 0.14} y=${y} width=${step * 0.72} height=${barHeight} rx=${Math.min(3, step / 6)} />`;
          })}</g>`;
        return sum ? svg`<a href=${linkToDay(day)} tabindex="-1">${bar}</a>` : bar;
      })}
      ${columns.map(({ day }, i) => (i % labelEvery ? nothing : svg`<text class="x" x=${left + i * step + step / 2} y=${height + 27}>${shortDay(day)}</text>`))}
    </svg>
    <p class="legend">${used.map((source) => html`<span><i class="s${CHART_SOURCES.indexOf(source)}"></i> ${t(SOURCES[source].label)}</span>`)}</p>`;
}

// The next round number, for the top of an axis.
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return Math.max(2, [1, 2, 4, 5, 10].map((factor) => factor * power).find((round) => round >= n) ?? n);
}

// `rows` have a name, a number, an icon and a link.
function barChart(rows) {
  const max = Math.max(...rows.map(([, n]) => n));
  return html`<ul class="bars">${rows.map(
    ([name, n, iconName, href]) => html`<li>
    ${icon(iconName)} <a href=${href}>${name}</a>
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max(1, (n / max) * 100)} height="8" rx="1" /></svg><b>${formatNumber(n)}</b></li>`,
  )}</ul>`;
}
