// Asking the server. What goes wrong is a Problem, whose message can be shown as it is.

export class Problem extends Error {
  constructor(message, status = 0, detail = null) {
    super(message);
    this.status = status;
    this.detail = detail;
  }

  get isAway() {
    return this.status === 0 || this.status === 502 || this.status === 504;
  }
}

const AWAY = "The server cannot be reached.";
let csrf = null;

// The word that proves a request comes from our page; without an argument it is only read.
export function useCsrf(value = csrf) {
  csrf = value;
  return csrf;
}

async function ask(method, path, { body, form, signal, headers } = {}) {
  const options = { method, signal, headers: { ...headers }, credentials: "same-origin" };
  if (csrf && method !== "GET") options.headers["x-palaver-csrf"] = csrf;
  if (form) options.body = form;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await (early(method, path) ?? fetch(path, options));
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Problem(AWAY);
  }
  if (response.ok) return response;
  if (response.status === 401) dispatchEvent(new CustomEvent("palaver:stranger"));
  throw await problemOf(response);
}

// What early.js has asked for before there was anything else.
function early(method, path) {
  const answer = method === "GET" && globalThis.askedEarly?.get(path);
  if (!answer) return null;
  globalThis.askedEarly.delete(path);
  return answer;
}

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  const detail = said.detail ?? said.error;
  const message = typeof detail === "string" ? detail : detail?.message;
  return new Problem(message ?? `The server answered ${response.status}.`, response.status, detail);
}

const json = async (response) => (await response).json();

export const get = (path, options) => json(ask("GET", path, options));
export const post = (path, body = {}, options = {}) => json(ask("POST", path, { body, ...options }));
export const put = (path, body = {}, options = {}) => json(ask("PUT", path, { body, ...options }));
export const remove = (path, options) => json(ask("DELETE", path, options));
export const text = async (path) => (await ask("GET", path)).text();

export function upload(path, files) {
  const form = new FormData();
  for (const file of files) form.append("file", file, file.name);
  return json(ask("POST", path, { form }));
}

// Path and query, with every piece encoded: at`/api/threads/${id}`.
export function at(strings, ...values) {
  return strings.reduce((path, part, i) => path + part + (i < values.length ? encodeURIComponent(values[i]) : ""), "");
}

export function withQuery(path, query) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}
