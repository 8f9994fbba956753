// The box at the bottom: Enter sends, Shift+Enter begins a new line, what is not sent yet is kept.

import { at, post, upload } from "./api.js";
import { face, failed, icon, plain, tool } from "./parts.js";
import { agentNamed, people, shownName } from "./people.js";
import { drafts, may, me } from "./state.js";
import { drawn, html, liveValue, nothing, redraw } from "./view.js";

// A message before it is one; and the key under which it was sent, if nobody knows whether it arrived: under that key it
// is one message, however often it is sent.
const EMPTY = { text: "", replyTo: null, isForHumans: false, images: [], key: null };

export class Compose {
  problem = null;
  #leaving = [];
  #begun; // of a name, after the @
  #chosen = 0;
  #box = null;

  // Who comes back while something is on its way finds the same box.
  static #busy = new Map();
  static #open = null;

  static in(talk) {
    const found = Compose.#busy.get(talk.id) ?? new Compose(talk);
    return (Compose.#open = Object.assign(found, { talk }));
  }

  constructor(talk) {
    this.talk = talk;
    Object.assign(this, EMPTY, drafts.of(talk.id));
  }

  reply({ id, author_name, content }) {
    this.#change({ replyTo: { id, author_name, content: plain(content).slice(0, 120) } });
    this.focus();
  }

  focus() {
    document.querySelector(".compose textarea")?.focus();
  }

  // Changed, it is another message than the one that may have arrived.
  #change(what) {
    Object.assign(this, { key: null }, what);
    this.#keep();
    redraw();
  }

  // What is on its way is kept as well until it has arrived.
  #keep() {
    drafts.keep(this.talk.id, together([...this.#leaving, this]));
  }

  // The box is free for the next one at once; they arrive one after the other.
  async send() {
    if (!saysSomething(this)) return;
    const { text, replyTo, isForHumans, images } = this;
    const key = this.key ?? crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`; // sent twice by a bad line, it is one message
    this.#leaving.push({ text: text.trim(), replyTo, isForHumans, images, key });
    this.#begun = undefined;
    this.problem = null;
    this.#change(EMPTY);
    this.#fit();
    if (!Compose.#busy.has(this.talk.id)) await this.#sendAll();
  }

  async #sendAll() {
    Compose.#busy.set(this.talk.id, this);
    try {
      while (this.#leaving.length) {
        const message = await this.#post(this.#leaving[0]);
        this.#leaving.shift();
        this.#keep();
        if (this.talk.hasNewer) await this.talk.newest().catch(failed);
        else this.talk.take(message);
        this.talk.onSent?.();
      }
    } catch (problem) {
      this.#giveBack();
      this.problem = problem.isAway
        ? "Not sent: the server cannot be reached. Your text is kept; send it again when it is back."
        : `Not sent: ${problem.message}`;
    }
    Compose.#busy.delete(this.talk.id);
    redraw();
  }

  #post = ({ text, replyTo, isForHumans, images, key }) =>
    post(at`/api/threads/${this.talk.id}/messages`, {
      content: text || images.map((image) => image.name).join(", "),
      author: me.needsLogin ? undefined : me.name,
      reply_to_msg_id: replyTo?.id,
      mentions: mentioned(text),
      metadata: isForHumans ? { visibility: "human_only" } : undefined,
      images: images.length ? images : undefined,
      idempotency_key: key,
    });

  // Into the box, before what was written there since.
  #giveBack() {
    const all = together([...this.#leaving, this]);
    this.#leaving = [];
    this.#change(all);
    this.#fit();
  }

  #fit() {
    drawn().then(() => this.#box?.isConnected && fit(this.#box));
  }

  async attach(files) {
    const pictures = [...files].filter((file) => file.type.startsWith("image/"));
    for (const file of pictures) {
      try {
        const { url, name } = await upload("/api/upload/image", [file]);
        const box = Compose.#open?.talk.id === this.talk.id ? Compose.#open : this; // who has come back since has another
        box.#change({ images: [...box.images, { url, name }] });
      } catch (problem) {
        failed(problem);
      }
    }
    return pictures.length > 0;
  }

  #detach(image) {
    this.#change({ images: this.images.filter((one) => one !== image) });
  }

  // Names while one types @…

  #suggest(box) {
    const before = box.value.slice(0, box.selectionStart);
    this.#begun = before.match(/(?:^|\s)@([\p{L}\p{N}_.-]*)$/u)?.[1]?.toLowerCase();
    this.#chosen = 0;
  }

  get #suggested() {
    const begun = this.#begun;
    if (begun === undefined) return [];
    return people.agents
      .filter((agent) => [agent.slug, agent.name, agent.display_name].some((name) => name?.toLowerCase().includes(begun)))
      .sort((a, b) => b.slug.startsWith(begun) - a.slug.startsWith(begun) || b.is_online - a.is_online)
      .slice(0, 6);
  }

  #complete(agent) {
    const box = this.#box;
    const before = box.value.slice(0, box.selectionStart).replace(/@[\p{L}\p{N}_.-]*$/u, `@${agent.slug} `);
    this.#begun = undefined;
    this.#change({ text: before + box.value.slice(box.selectionStart) });
    box.value = this.text;
    box.focus();
    box.setSelectionRange(before.length, before.length);
  }

  #keys(event) {
    if (this.#suggested.length) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        this.#chosen = (this.#chosen + step + this.#suggested.length) % this.#suggested.length;
        return redraw();
      }
      if (event.key === "Enter" || event.key === "Tab")
        return (event.preventDefault(), this.#complete(this.#suggested[this.#chosen] ?? this.#suggested[0]));
      if (event.key === "Escape") return (event.stopPropagation(), (this.#begun = undefined), redraw());
    }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.send();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (this.replyTo) this.#change({ replyTo: null });
      else event.target.blur();
    }
  }

  template() {
    const { thread } = this.talk;
    if (!may("write")) return html`<p class="compose closed">${icon("lock")} You can read here, not write.</p>`;
    if (thread && ["closed", "archived"].includes(thread.status)) {
      return html`<p class="compose closed">${icon("lock")} This thread is ${thread.status} and takes no messages.</p>`;
    }
    return html`<form class="compose ${this.isForHumans ? "for-humans" : ""}" @submit=${(event) => (event.preventDefault(), this.send())}
      @dragover=${(event) => event.preventDefault()} @drop=${(event) => (event.preventDefault(), this.attach(event.dataTransfer.files))}>
      ${this.#suggested.length ? this.#names() : nothing}
      ${
        this.replyTo
          ? html`<p class="answering">${icon("reply")} <span>Answering <b>${this.replyTo.author_name}</b>: ${this.replyTo.content}</span>
        <button type="button" class="quiet" aria-label="Answer nobody" @click=${() => this.#change({ replyTo: null })}>${icon("close")}</button></p>`
          : nothing
      }
      ${this.problem ? html`<p class="problem" role="alert">${this.problem}</p>` : nothing}
      ${
        this.images.length
          ? html`<div class="images">${this.images.map(
              (image) => html`<span><img src=${image.url} alt=${image.name} />
        ${tool(`Remove ${image.name}`, "close", () => this.#detach(image))}</span>`,
            )}</div>`
          : nothing
      }
      <label class="hidden" for="say">Message</label>
      <textarea id="say" rows="1" placeholder="Message ${thread?.topic ?? ""}" .value=${liveValue(this.text)} enterkeyhint="send"
        aria-autocomplete="list" aria-controls=${this.#suggested.length ? "names" : nothing}
        aria-activedescendant=${this.#suggested.length ? `name-${this.#chosen}` : nothing} @keydown=${(event) => this.#keys(event)}
        @input=${(event) => ((this.#box = event.target), this.#suggest(event.target), this.#change({ text: event.target.value }), fit(event.target))}
        @paste=${(event) => event.clipboardData.files.length && (event.preventDefault(), this.attach(event.clipboardData.files))}></textarea>
      <footer>
        <label class="quiet" title="Attach an image"><span class="hidden">Attach an image</span>${icon("image")}
          <input class="hidden" type="file" accept="image/png,image/jpeg,image/gif,image/webp" multiple
            @change=${(event) => (this.attach(event.target.files), (event.target.value = ""))} /></label>
        <button type="button" class="quiet only-people" aria-pressed=${this.isForHumans} title="Hide what it says from agents"
          @click=${() => this.#change({ isForHumans: !this.isForHumans })}>${icon("lock")}<span>Only people</span></button>
        <span class="as">as <b>${me.name}</b></span>
        <button class="main send" aria-label="Send" title="Send (Enter)"
          ?disabled=${!saysSomething(this)}>${icon("send")}</button>
      </footer>
    </form>`;
  }

  #names() {
    return html`<ul class="names" id="names" role="listbox" aria-label="Agents">${this.#suggested.map(
      (agent, i) => html`
      <li role="option" id="name-${i}" aria-selected=${i === this.#chosen} @mousedown=${(event) => (event.preventDefault(), this.#complete(agent))}>
        ${face(shownName(agent), { isAgent: true, isOnline: agent.is_online })} <b>${shownName(agent)}</b> <small>@${agent.slug}</small></li>`,
    )}</ul>`;
  }
}

const saysSomething = ({ text, images }) => text.trim() || images.length;

// One message of some, or none. If one of them is for people only, so are all.
function together(some) {
  const all = some.filter(saysSomething);
  if (!all.length) return null;
  return {
    text: all.map((one) => one.text).filter(Boolean).join("\n\n"),
    replyTo: some.find((one) => one.replyTo)?.replyTo ?? null,
    isForHumans: some.some((one) => one.isForHumans),
    images: all.flatMap((one) => one.images),
    key: all.length === 1 ? all[0].key : null,
  };
}

// As high as what is written in it, within reason; the style sheet says what reason is.
export function fit(box) {
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}

const mentioned = (text) => {
  const names = [...text.matchAll(/(?:^|\s)@([\p{L}\p{N}_.-]+)/gu)].map(
    ([, name]) => agentNamed(name.replace(/[.-]+$/, ""))?.id,
  );
  const known = [...new Set(names.filter(Boolean))];
  return known.length ? known : undefined;
};
