// @ts-check
// Requests to the server. A failed request throws a RequestError whose message can be shown to the user.

export class RequestError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status; // 0: no response
  }

  get isOffline() {
    return this.status === 0 || this.status === 502 || this.status === 504;
  }
}

// Proves that a changing request comes from the console's own page. The server sends it with the session.
export const csrf = { token: /** @type {string | null} */ (null) };

/** @type {(method: string, path: string, options?: {body?: unknown, form?: FormData, signal?: AbortSignal, keepalive?: boolean}) => Promise<any>} */
async function request(method, path, { body, form, signal, keepalive } = {}) {
  const headers = {};
  if (csrf.token && method !== "GET") headers["x-palaver-csrf"] = csrf.token;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await (takePreloaded(method, path) ??
      fetch(path, {
        method,
        signal,
        keepalive,
        headers,
        credentials: "same-origin",
        body: form ?? JSON.stringify(body),
      }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The server cannot be reached.");
  }
  if (response.ok) return response.json();
  if (response.status === 401) dispatchEvent(new CustomEvent("palaver:logged-out"));
  throw new RequestError(errorMessage(await response.json().catch(() => ({})), response.status), response.status);
}

// The message in the body of a failed response.
export function errorMessage(body, status) {
  const detail = body.detail ?? body.error;
  return (typeof detail === "string" ? detail : detail?.message) ?? `The server answered ${status}.`;
}

// A response that preload.js has requested. It can be taken once.
function takePreloaded(method, path) {
  const responses = /** @type {any} */ (globalThis).preloaded;
  if (method !== "GET" || !responses?.has(path)) return null;
  const response = responses.get(path);
  responses.delete(path);
  return response;
}

export const get = (path, options = {}) => request("GET", path, options);
export const post = (path, body = {}, options = {}) => request("POST", path, { body, ...options });
export const put = (path, body = {}, options = {}) => request("PUT", path, { body, ...options });
export const remove = (path) => request("DELETE", path);

export function upload(path, file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return request("POST", path, { form });
}

// A path with every value encoded: url`/api/threads/${id}`.
export function url(strings, ...values) {
  return strings.reduce((path, part, i) => path + part + (i < values.length ? encodeURIComponent(values[i]) : ""), "");
}

// A path with a query. Empty values are left out.
export function withQuery(path, query) {
  const values = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return values.length ? `${path}?${new URLSearchParams(values)}` : path;
}
