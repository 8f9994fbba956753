// @ts-check
// One connection to the server's event stream (SSE). It reconnects by itself after the last event received, so no event
// is lost or repeated.

const TYPES = [
  "msg.new",
  "msg.edit",
  "msg.delete",
  "msg.react",
  "msg.receipt",
  "msg.unreact",
  "thread.new",
  "thread.state",
  "thread.deleted",
  "question.new",
  "question.answered",
  "question.expired",
  "claim.new",
  "claim.ended",
  "agent.online",
  "agent.offline",
  "agent.session",
  "reset",
];
const FIRST_DELAY = 300; // milliseconds
const MAX_DELAY = 5000;

export class EventStream {
  isOpen = false;
  /** @type {EventSource | null} */
  #source = null;
  /** @type {string | null} */
  #lastId = null;
  #delay = FIRST_DELAY;
  /** @type {number | undefined} */
  #timer;
  #receive;

  // `receive` gets {kind: "event", id, type, data} and {kind: "state", isOpen}.
  constructor(receive) {
    this.#receive = receive;
  }

  start(after) {
    if (this.#source || this.#timer) return;
    this.#lastId ??= after ?? null;
    this.#open();
  }

  // Reconnect now instead of waiting for the delay.
  retry() {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = this.#lastId = null;
    this.#timer = undefined;
    this.#setOpen(false);
  }

  #open() {
    this.#timer = undefined;
    const source = new EventSource(this.#lastId === null ? "/events" : `/events?last_event_id=${this.#lastId}`);
    this.#source = source;
    source.onopen = () => this.#setOpen(true);
    source.onerror = () => {
      source.close();
      if (this.#source !== source) return;
      this.#source = null;
      this.#setOpen(false);
      this.#timer = setTimeout(() => this.#open(), this.#delay);
      this.#delay = Math.min(this.#delay * 1.6, MAX_DELAY);
    };
    for (const type of TYPES)
      source.addEventListener(type, (event) => {
        this.#lastId = event.lastEventId || this.#lastId;
        this.#receive({ kind: "event", id: Number(event.lastEventId), type, data: JSON.parse(event.data) });
      });
  }

  #setOpen(isOpen) {
    this.isOpen = isOpen;
    if (isOpen) this.#delay = FIRST_DELAY;
    this.#receive({ kind: "state", isOpen });
  }
}
