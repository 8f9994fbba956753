// @ts-check
// Operators in a query: from:ada after:2026-05, and -from:ada to exclude. The server reads them; the console completes
// them.

// Each operator with what it says.
export const OPERATORS = [
  ["from", "who said it"],
  ["in", "a thread, conversation or document"],
  ["source", "notes, threads, sessions …"],
  ["project", "a project"],
  ["before", "older than a date"],
  ["after", "since a date"],
  ["has", "code, link, image, reaction, table"],
];

// Those that a - can be before.
const EXCLUDING = OPERATORS.filter(([name]) => !["before", "after"].includes(name));

const NAMES = [...OPERATORS.map(([name]) => name), ...EXCLUDING.map(([name]) => `-${name}`)].join("|");
const OPERATOR = new RegExp(`(^|\\s)(?:${NAMES}):(?:"[^"]*(?:"|$)|[^\\s"]+)`, "gi");
const UNFINISHED = new RegExp(`(?:^|\\s)((${NAMES}):("?)([^"]*|[^\\s"]*))$`, "i");

export const hasOperators = (query) => query.search(OPERATOR) >= 0;

// The same search, if its last word may be the beginning of a word.
export function asPrefix(query) {
  const words = withoutOperators(query);
  return /[\p{L}\p{N}]{2}$/u.test(words) ? [...(query.match(OPERATOR) ?? []), `${words}*`].join(" ").trim() : query;
}

// The words of a query, for highlighting.
export const withoutOperators = (query) => query.replace(OPERATOR, "$1").replace(/\s+/g, " ").trim();

// The operator at the end of a text that is being typed: its value has no blank after it, or its quote is open.
export function unfinishedOperator(text) {
  const found = UNFINISHED.exec(text);
  if (!found || (!found[3] && /\s/.test(found[4]))) return null;
  const operator = { name: found[2].toLowerCase(), value: found[4] };
  return { ...operator, start: text.length - found[1].length, isHalfDate: isHalfDate(operator) };
}

// A date that is still being typed: before:2026-1 is one digit short.
const isHalfDate = ({ name, value }) =>
  /^(before|after)$/.test(name) && /^\d/.test(value) && !/^\d{4}(-\d{2}){0,2}$/.test(value);

// A word at the end of a text that may be the beginning of a name, if the text has no operator at its end.
export const begunName = (text) => /(?:^|\s)(\p{L}[\p{L}\p{M}\p{N}'_-]+)$/u.exec(text)?.[1];

// The name of an operator that a text may end with: three letters of it.
export function begunOperators(text) {
  const typed = /(?:^|\s)(-?[a-z]{3,7})$/i.exec(text)?.[1].toLowerCase();
  if (!typed) return null;
  const known = typed.startsWith("-") ? EXCLUDING.map(([name, label]) => [`-${name}`, label]) : OPERATORS;
  return { start: text.length - typed.length, names: known.filter(([name]) => name.startsWith(typed)) };
}

export const writeOperator = (name, value) => `${name}:${/\s/.test(value) ? `"${value.replaceAll('"', "")}"` : value}`;

const dayAfter = (date) => {
  const day = new Date(`${date}T00:00Z`);
  day.setUTCDate(day.getUTCDate() + 1);
  return day.toISOString().slice(0, 10);
};

// A search with its filters as one query, to save it or to ask for evidence.
export function wholeQuery({ q, thread, source, project, author, role, since, until }) {
  const who = author || role;
  const parts = [
    ["in", thread],
    ["source", source],
    ["project", project.trim()],
    ["from", who],
    ["after", since],
    ["before", until && dayAfter(until)],
  ];
  const operators = parts.filter(([, value]) => value).map(([name, value]) => writeOperator(name, value));
  return [q.trim(), ...operators].filter(Boolean).join(" ");
}
