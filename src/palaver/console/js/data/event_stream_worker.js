// @ts-check
// A shared worker that holds one event stream for all windows of this browser.

import { EventStream } from "./event_stream.js";

const MAX_RECENT = 1000; // events kept for windows that open later

const ports = new Set();
const recent = [];

const stream = new EventStream((message) => {
  if (message.kind === "event") {
    recent.push(message);
    if (recent.length > 2 * MAX_RECENT) recent.splice(0, MAX_RECENT);
  }
  for (const port of ports) port.postMessage(message);
});

// A new window has loaded its data at the event `after`. It gets every later event.
function join(port, after) {
  stream.start(after);
  const missed = recent.filter((message) => message.id > after);
  if (missed.length && missed[0].id > after + 1)
    port.postMessage({ kind: "event", id: after, type: "reset", data: {} });
  for (const message of missed) port.postMessage(message);
  if (stream.isOpen) port.postMessage({ kind: "state", isOpen: true });
  ports.add(port);
}

addEventListener("connect", (event) => {
  const [port] = /** @type {MessageEvent} */ (event).ports;
  port.onmessage = ({ data }) => {
    if (data.kind === "start") join(port, data.after);
    if (data.kind === "retry") stream.retry();
    if (data.kind === "leave") ports.delete(port);
    if (data.kind === "stop") {
      recent.length = 0;
      stream.stop();
    }
  };
});
