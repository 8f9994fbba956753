import { Stream } from "./stream.js";

const KEPT = 1000;
const ports = new Set();
const lately = [];

const stream = new Stream((message) => {
  if (message.kind === "event") {
    lately.push(message);
    if (lately.length > 2 * KEPT) lately.splice(0, KEPT);
  }
  ports.forEach((port) => port.postMessage(message));
});

// A window that comes later has read its lists at `after`: it is told what has happened since.
function join(port, after) {
  stream.start(after);
  const missed = lately.filter((message) => message.id > after);
  if (missed.length && missed[0].id > after + 1)
    port.postMessage({ kind: "event", id: after, type: "reset", data: {} });
  missed.forEach((message) => port.postMessage(message));
  if (stream.isOpen) port.postMessage({ kind: "state", isOpen: true });
  ports.add(port);
}

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.kind === "start") join(port, data.after);
    if (data.kind === "retry") stream.retry();
    if (data.kind === "leave") ports.delete(port);
    if (data.kind === "stop") {
      lately.length = 0;
      stream.stop();
    }
  };
};
