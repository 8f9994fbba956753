// @ts-check
// Routes: the part of the address after the #. Every view has one, so links and the back button work.

export function parseRoute(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decode);
  return { name: parts[0] ?? "threads", parts: parts.slice(1), query: new URLSearchParams(query) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// A link to a view. Empty query values are left out.
export function link(parts, query = {}) {
  const path = [parts].flat().map(encodeURIComponent).join("/");
  const values = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return `#/${path}${values.length ? `?${new URLSearchParams(values)}` : ""}`;
}

/** @type {(threadId: string, messageId?: string, q?: string) => string} */
export const linkToThread = (threadId, messageId, q) => link(["threads", threadId], { message: messageId, q });

/** @type {(source: string, id: string | number, loc?: object, q?: string) => string} */
export const linkToDocument = (source, id, loc, q) =>
  link(["open", source, String(id)], { loc: loc ? JSON.stringify(loc) : undefined, q });

export function goTo(hash, { replace = false } = {}) {
  if (hash === location.hash) return;
  if (replace) {
    history.replaceState(history.state, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = hash;
  }
}

// Back to the previous page of the console, or to `fallback` if there is none: the one before may be of another site.
export const goBack = (fallback) => (history.state?.depth ? history.back() : goTo(fallback));
