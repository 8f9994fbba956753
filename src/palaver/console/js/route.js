// Where we are: the part of the address behind the #. Every place has one, so that links and the back button work.

export function parse(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { name: parts[0] ?? "threads", parts: parts.slice(1), query: new URLSearchParams(query), hash };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(parts, query = {}) {
  const path = [parts].flat().map(encodeURIComponent).join("/");
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(kept).toString();
  return `#/${path}${search ? `?${search}` : ""}`;
}

export const toThread = (threadId, messageId, q) => link(["threads", threadId], { message: messageId, q });

export const toItem = (source, id, loc, q) =>
  link(["open", source, String(id)], { loc: loc ? JSON.stringify(loc) : undefined, q });

export function go(hash, { replace = false } = {}) {
  if (hash === location.hash) return;
  if (replace) {
    history.replaceState(history.state, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = hash;
  }
}
