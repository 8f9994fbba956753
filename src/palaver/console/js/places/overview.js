// The overview: how much is said, by whom, and whether the house is in order.

import { get } from "../api.js";
import { choice, count, empty, failed, icon, trouble, waiting } from "../parts.js";
import { link } from "../route.js";
import { SOURCES } from "../search.js";
import { html, nothing, redraw, svg } from "../view.js";

const SAID = ["bus", "sessions", "archive", "chats"];
let days = 30;
let found = null;
let problem = null;

export const overviewView = {
  title: () => "Overview",
  isInner: () => true,
  enter: () => load(),
  template: () => html`<main class="pane overview">
    <header class="head"><div class="name"><h1>Overview</h1><p>What was said and kept</p></div>
      ${choice(
        "How far back",
        [7, 30, 90].map((n) => [n, `${n} days`]),
        days,
        (n) => ((days = n), load()),
      )}</header>
    <div class="scroll"><div class="page-body wide">${problem ? trouble(problem, load) : found ? picture() : waiting()}</div></div>
  </main>`,
};

async function load() {
  try {
    found = await get(`/api/overview?days=${days}`);
    problem = null;
  } catch (wrong) {
    if (found) failed(wrong);
    else problem = wrong;
  }
  redraw();
}

const size = (bytes) =>
  bytes < 1e6
    ? `${Math.max(1, Math.round(bytes / 1e3))} kB`
    : bytes < 1e9
      ? `${(bytes / 1e6).toFixed(1)} MB`
      : `${(bytes / 1e9).toFixed(2)} GB`;

function picture() {
  const { status } = found;
  const lately = found.days.reduce((sum, day) => sum + day.messages, 0);
  return html`
    <ul class="tiles">
      ${tile("Messages", count(lately), `in ${days} days`)}
      ${tile("Threads", count(status.threads), `${count(status.messages)} messages in all`)}
      ${tile("Agents", count(status.agents_online), `online of ${count(status.agents)}`)}
      ${found.storage_bytes === null ? "" : tile("Storage", size(found.storage_bytes), status.engine === "sqlite" ? "SQLite" : "PostgreSQL")}
      ${
        found.is_index_complete
          ? tile("Index", "Complete", "everything can be found", "good")
          : tile("Index", "Catching up", "the newest may not be found yet", "warn")
      }
      ${status.model ? vectors(status.model) : nothing}
    </ul>
    <section class="chart"><h2>Messages a day</h2>${lately ? perDay() : empty("overview", "Quiet", "Nothing was said in this time.")}</section>
    <div class="two">
      <section class="chart"><h2>Who spoke</h2>${bars(found.speakers.map((one) => [one.name, one.messages, one.agent_id ? "agents" : "person"]))}</section>
      <section class="chart"><h2>What is kept</h2>${bars(Object.entries(found.documents).map(kept))}</section>
    </div>`;
}

function vectors({ name, passages, done }) {
  if (done >= passages) return tile("Model", "Ready", name, "good");
  return tile("Model", `${Math.floor((100 * done) / passages)} %`, `of vectors made by ${name}`, "warn");
}

const kept = ([source, n]) => [
  SOURCES[source][0],
  n,
  source,
  source === "bus" ? "#/threads" : link(["library", source]),
];

const tile = (name, value, note, mood = "") =>
  html`<li class=${mood}><small>${name}</small><b>${value}</b><span>${note}</span></li>`;

function perDay() {
  const width = Math.max(280, Math.min(900, innerWidth - 110)); // letters keep their size on a phone
  const height = width < 500 ? 150 : 180;
  const start = new Date(`${found.since}T00:00:00Z`);
  const all = Array.from({ length: days }, (_, i) => {
    const day = new Date(start.getTime() + i * 864e5).toISOString().slice(0, 10);
    const parts = SAID.map(
      (source) => found.days.find((one) => one.day === day && one.source === source)?.messages ?? 0,
    );
    return { day, parts, sum: parts.reduce((a, b) => a + b, 0) };
  });
  const most = nice(Math.max(...all.map((one) => one.sum)));
  const step = width / days;
  const used = SAID.filter((source, i) => all.some((one) => one.parts[i]));
  const label = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
  return html`<svg class="days" viewBox="0 0 ${width + 40} ${height + 30}" role="img" aria-label="Messages a day, at most ${most}">
      ${[0, 0.5, 1].map(
        (part) => svg`<line x1="40" x2=${width + 40} y1=${10 + height * (1 - part)} y2=${10 + height * (1 - part)} />
        <text class="y" x="34" y=${14 + height * (1 - part)}>${count(Math.round(most * part))}</text>`,
      )}
      ${all.map((one, i) => {
        let top = height + 10;
        return svg`<g><title>${label.format(new Date(one.day))}: ${count(one.sum)}</title><rect class="ground" x=${40 + i * step} y="10" width=${step} height=${height} />
          ${one.parts.map((n, part) => {
            if (!n) return nothing;
            const high = Math.max(2, (n / most) * height);
            top -= high;
            return svg`<rect class="s${part}" x=${40 + i * step + step * 0.14} y=${top} width=${step * 0.72} height=${high} rx=${Math.min(3, step / 6)} />`;
          })}</g>`;
      })}
      ${all.map((one, i) => (i % Math.ceil(days / (width / 110)) === 0 ? svg`<text class="x" x=${40 + i * step + step / 2} y=${height + 27}>${label.format(new Date(one.day))}</text>` : nothing))}
    </svg>
    <p class="legend">${used.map((source) => html`<span><i class="s${SAID.indexOf(source)}"></i> ${SOURCES[source][0]}</span>`)}</p>`;
}

function nice(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return Math.max(
    2,
    [1, 2, 4, 5, 10].map((n) => n * power).find((n) => n >= most),
  );
}

function bars(rows) {
  const shown = rows.filter(([, n]) => n);
  if (!shown.length) return html`<p class="hint">Nothing yet.</p>`;
  const most = Math.max(...shown.map(([, n]) => n));
  return html`<ul class="bars">${shown.map(
    ([name, n, sign, href]) => html`<li>
    ${icon(sign)} ${href ? html`<a href=${href}>${name}</a>` : html`<span>${name}</span>`}
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max(1, (n / most) * 100)} height="8" rx="1" /></svg><b>${count(n)}</b></li>`,
  )}</ul>`;
}
