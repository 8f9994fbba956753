// The stream of what happens, for all windows of this browser: a browser gives one server few connections, so only a
// shared worker holds one. Where there are no shared workers each window listens for itself.

const TYPES = [
  "msg.new",
  "msg.edit",
  "msg.delete",
  "msg.react",
  "msg.unreact",
  "thread.new",
  "thread.state",
  "thread.deleted",
  "agent.online",
  "agent.offline",
  "reset",
];
const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;

// One connection that comes back by itself, from where it was: nothing is lost, nothing comes twice.
export class Stream {
  #source = null;
  #last = null;
  #wait = FIRST_WAIT;
  #timer = null;
  #tell;
  isOpen = false;

  constructor(tell) {
    this.#tell = tell;
  }

  start(after) {
    if (this.#source || this.#timer) return;
    this.#last ??= after ?? null;
    this.#open();
  }

  // Try at once: somebody is looking, or has just come in.
  retry() {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = this.#timer = this.#last = null;
    this.#state(false);
  }

  #open() {
    this.#timer = null;
    const source = new EventSource(this.#last === null ? "/events" : `/events?last_event_id=${this.#last}`);
    this.#source = source;
    source.onopen = () => this.#state(true);
    source.onerror = () => {
      source.close();
      if (this.#source !== source) return;
      this.#source = null;
      this.#state(false);
      this.#timer = setTimeout(() => this.#open(), this.#wait);
      this.#wait = Math.min(this.#wait * 1.6, LONGEST_WAIT);
    };
    for (const type of TYPES) source.addEventListener(type, (event) => this.#hear(type, event));
  }

  #state(isOpen) {
    this.isOpen = isOpen;
    if (isOpen) this.#wait = FIRST_WAIT;
    this.#tell({ kind: "state", isOpen });
  }

  #hear(type, event) {
    this.#last = event.lastEventId || this.#last;
    this.#tell({ kind: "event", id: Number(event.lastEventId), type, data: JSON.parse(event.data) });
  }
}
