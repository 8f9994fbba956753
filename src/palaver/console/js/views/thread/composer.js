// @ts-check
// The box to write a message in. Enter sends, Shift+Enter starts a new line. Text that is not sent yet is saved as a draft.

import { agents, displayName, findAgent } from "../../data/agents.js";
import { post, upload, url } from "../../data/api.js";
import { drafts } from "../../data/drafts.js";
import { findPerson, nameInText, people } from "../../data/mentions.js";
import { can, me } from "../../data/session.js";
import { avatar, icon, iconButton } from "../../ui/elements.js";
import { plainText } from "../../ui/format.js";
import { loadedEmoji, loadEmoji } from "../../ui/emoji.js";
import { notify, notifyError } from "../../ui/dialog.js";
import { html, liveValue, nextDraw, nothing, redraw, rich, t } from "../../ui/templates.js";
import { fileCards } from "./attachments.js";

// A draft. `key` is set when it was sent without an answer: the server accepts a key once, so sending it again is safe.
/**
 * @typedef {object} Draft
 * @property {string} text
 * @property {any} replyTo
 * @property {boolean} isForHumans
 * @property {any[]} images
 * @property {any[]} files
 * @property {string | null} key
 * @property {number} [afterSeq] The newest message of the thread when it was sent.
 */
/** @type {Draft} */
const EMPTY = { text: "", replyTo: null, isForHumans: false, images: [], files: [], key: null };

export class Composer {
  /** @type {string | null} */
  error = null;
  text = "";
  /** @type {{id: string, author_name: string, content: string} | null} */
  replyTo = null;
  isForHumans = false;
  /** @type {{url: string, name: string}[]} */
  images = [];
  /** @type {{url: string, name: string, type: string, size: number}[]} */
  files = [];
  /** @type {string | null} */
  key = null;
  #thread;
  #onSent;
  /** @type {Draft[]} */
  #queue = []; // drafts on their way to the server
  /** @type {string | undefined} */
  #typedName; // the part of a name after the @, in lower case
  /** @type {string | undefined} */
  #typedCode; // the part of a shortcode after the colon
  #selected = 0; // among the suggested names
  /** @type {HTMLTextAreaElement | null} */
  #textarea = null;

  // Composers that are sending, by thread. Coming back to a thread meanwhile shows the same composer.
  static #sending = new Map();
  /** @type {any} */
  static #current = null;

  // The composer of an open thread. `onSent` is called after each message that was sent.
  static of(thread, onSent) {
    const composer = Composer.#sending.get(thread.id) ?? new Composer(thread);
    composer.#thread = thread;
    composer.#onSent = onSent;
    Composer.#current = composer;
    return composer;
  }

  constructor(thread) {
    this.#thread = thread;
    Object.assign(this, EMPTY, drafts.get(thread.id));
  }

  reply({ id, author_name, content }) {
    this.#change({ replyTo: { id, author_name, content: plainText(content).slice(0, 120) } });
    this.focus();
  }

  focus() {
    /** @type {HTMLElement | null} */ (document.querySelector(".compose textarea"))?.focus();
  }

  // Write the name after what is written.
  mention(name) {
    const before = this.text && !/\s$/.test(this.text) ? `${this.text} ` : this.text;
    this.#change({ text: `${before}@${name} ` });
    this.#fitHeight();
    this.focus();
  }

  // A changed draft is a new message, so it loses its key.
  #change(values) {
    Object.assign(this, { key: null }, values);
    this.#save();
    redraw();
  }

  // Queued messages stay in the saved draft until the server has them.
  #save() {
    drafts.set(this.#thread.id, mergeDrafts([...this.#queue, this]));
  }

  // The box is empty again at once. Messages are sent one after the other.
  async send() {
    if (!hasContent(this)) return;
    const { text, replyTo, isForHumans, images, files } = this;
    const key = this.key ?? crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const afterSeq = this.#thread.latestSeq;
    this.#queue.push({ text: text.trim(), replyTo, isForHumans, images, files, key, afterSeq });
    this.#typedName = undefined;
    this.#typedCode = undefined;
    this.error = null;
    this.#change(EMPTY);
    this.#fitHeight();
    if (!Composer.#sending.has(this.#thread.id)) await this.#sendQueue();
  }

  async #sendQueue() {
    Composer.#sending.set(this.#thread.id, this);
    try {
      while (this.#queue.length) {
        const message = await this.#post(this.#queue[0]);
        this.#queue.shift();
        this.#save();
        if (this.#thread.hasNewer) await this.#thread.loadNewest().catch(notifyError);
        else this.#thread.add(message);
        if (message.unknown_names?.length)
          notify(t("No agent or person has this name: {names}", { names: message.unknown_names.join(", ") }));
        this.#onSent?.();
      }
    } catch (error) {
      // Unsent messages return to the box, before the text written since.
      const unsent = mergeDrafts([...this.#queue, this]);
      this.#queue = [];
      this.#change(unsent);
      this.#fitHeight();
      this.error = error.isOffline
        ? t("Not sent: the server cannot be reached. Your text is saved. Send it again when the server is back.")
        : t("Not sent: {reason}", { reason: t(error.message) });
    }
    Composer.#sending.delete(this.#thread.id);
    redraw();
  }

  // Drafts on their way to the server. The event of a message may come before the answer: then it is shown already.
  get pending() {
    const isShown = ({ text, afterSeq = 0 }) =>
      this.#thread.messages.some(
        (message) => message.seq > afterSeq && message.author_name === me.name && message.content === text,
      );
    return this.#queue.filter((draft) => !isShown(draft));
  }

  #post = ({ text, replyTo, isForHumans, images, files, key }) =>
    post(url`/api/threads/${this.#thread.id}/messages`, {
      content: text || [...images, ...(files ?? [])].map(({ name }) => name).join(", "),
      author: me.needsLogin ? undefined : me.name,
      reply_to_msg_id: replyTo?.id,
      mentions: mentionedIds(text),
      metadata: isForHumans ? { visibility: "human_only" } : undefined,
      images: images.length ? images : undefined,
      files: files?.length ? files : undefined,
      idempotency_key: key,
    });

  #fitHeight() {
    nextDraw().then(() => this.#textarea?.isConnected && fitHeight(this.#textarea));
  }

  // The server says whether a file is an image. Other files become cards.
  async #attach(files) {
    for (const file of [...files]) {
      try {
        const { url, name, type, size } = await upload("/api/upload/file", file);
        // The thread may have been left and opened again during the upload; then it has another composer.
        const current = Composer.#current;
        const composer = current.#thread.id === this.#thread.id ? current : this;
        if (/\.(png|jpg|gif|webp)$/.test(url)) composer.#change({ images: [...composer.images, { url, name }] });
        else composer.#change({ files: [...composer.files, { url, name, type, size }] });
      } catch (error) {
        notify(t("Not attached: {name}. {reason}", { name: file.name, reason: t(error.message) }), { isError: true });
      }
    }
  }

  // Agents, people, programs and groups whose name contains the text after the @, or emoji whose shortcode has the text
  // after the colon.
  get #suggestions() {
    if (this.#typedCode !== undefined)
      return (loadedEmoji()?.searchEmoji(this.#typedCode, 8) ?? []).map(({ emoji, codes }) => ({
        emoji,
        name: `:${codes[0]}:`,
      }));
    const typed = this.#typedName;
    if (typed === undefined) return [];
    const found = agents.list
      .filter((agent) =>
        [agent.slug, agent.name, agent.display_name].some((name) => name?.toLowerCase().includes(typed)),
      )
      .sort((a, b) => rank(b, typed) - rank(a, typed))
      .map((agent) => ({ name: displayName(agent), slug: agent.slug, isAgent: true, isOnline: agent.is_online }));
    const others = people()
      .filter((name) => name !== me.name && name.toLowerCase().includes(typed))
      .map((name) => ({ name, slug: nameInText(name), isAgent: false, isOnline: null }));
    const groups = ["all", "here", ...programs()]
      .filter((name) => name.startsWith(typed) && !found.some((agent) => agent.slug === name))
      .map((name) => ({ name, slug: name, isAgent: false, isOnline: null }));
    return [...found.slice(0, 6), ...others.slice(0, 4), ...groups.slice(0, 4)];
  }

  #insertName(suggestion) {
    const textarea = this.#textarea;
    if (!textarea) return;
    const end = textarea.selectionStart;
    const start = textarea.value.slice(0, end);
    const before = suggestion.emoji
      ? start.replace(/:[\w+-]*$/, suggestion.emoji)
      : start.replace(/@[\p{L}\p{N}_.-]*$/u, `@${suggestion.slug} `);
    this.#replaceText(textarea, before, textarea.value.slice(end));
  }

  // Set the text, with the caret after `before`.
  #replaceText(textarea, before, after) {
    this.#typedName = undefined;
    this.#typedCode = undefined;
    this.#change({ text: before + after });
    textarea.value = this.text;
    textarea.focus();
    textarea.setSelectionRange(before.length, before.length);
    fitHeight(textarea);
  }

  #insertEmoji(emoji) {
    const textarea = /** @type {HTMLTextAreaElement | null} */ (document.querySelector(".compose textarea"));
    if (!textarea) return;
    const { value, selectionStart, selectionEnd } = textarea;
    this.#textarea = textarea;
    this.#replaceText(textarea, value.slice(0, selectionStart) + emoji, value.slice(selectionEnd));
  }

  #openEmoji(event) {
    const details = event.target;
    if (!details.open) return;
    loadEmoji().then(({ mountEmojiPanel }) =>
      mountEmojiPanel(details.querySelector(":scope > div"), (emoji) => {
        details.open = false;
        this.#insertEmoji(emoji);
      }),
    );
  }

  // Drawing the console at each key is slow. Most keys change nothing but the text, which is in the box already.
  #shown = () => [Boolean(hasContent(this)), this.#typedName, this.#typedCode, this.#selected, this.error].join("\n");

  #onInput(event) {
    const textarea = event.target;
    const shownBefore = this.#shown();
    const before = textarea.value.slice(0, textarea.selectionStart);
    this.#textarea = textarea;
    this.#typedName = before.match(/(?:^|\s)@([\p{L}\p{N}_.-]*)$/u)?.[1]?.toLowerCase();
    this.#typedCode = before.match(/(?:^|[\s(])(?::)([a-z][\w+-]+)$/i)?.[1];
    this.#selected = 0;
    if (this.#typedCode) loadEmoji().then(redraw);
    const [whole, code] = before.match(/:([\w+-]{2,40}):$/) ?? [];
    const emoji = code && loadedEmoji()?.emojiOf(code);
    if (emoji)
      return this.#replaceText(textarea, before.slice(0, -whole.length) + emoji, textarea.value.slice(before.length));
    Object.assign(this, { key: null, text: textarea.value });
    this.#save();
    if (this.#shown() !== shownBefore) redraw();
    fitHeight(textarea);
  }

  #onKey(event) {
    const suggestions = this.#suggestions;
    if (suggestions.length) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        this.#selected = (this.#selected + step + suggestions.length) % suggestions.length;
        return redraw();
      }
      if (event.key === "Enter" || event.key === "Tab")
        return event.preventDefault(), this.#insertName(suggestions[this.#selected] ?? suggestions[0]);
      if (event.key === "Escape")
        return event.stopPropagation(), (this.#typedName = this.#typedCode = undefined), redraw();
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
    const { thread } = this.#thread;
    if (!can("write")) return html`<p class="compose closed">${icon("lock")} ${t("You have read-only access.")}</p>`;
    if (thread && ["closed", "archived"].includes(thread.status))
      return html`<p class="compose closed">${icon("lock")} ${t("This thread is {status}. It accepts no messages.", { status: t(thread.status) })}</p>`;
    const suggestions = this.#suggestions;
    const attach = (event, files) => (event.preventDefault(), this.#attach(files));
    return html`<form class="compose ${this.isForHumans ? "for-humans" : ""}" @submit=${(event) => (event.preventDefault(), this.send())}
      @dragover=${(event) => event.preventDefault()} @drop=${(event) => attach(event, event.dataTransfer.files)}>
      ${
        suggestions.length
          ? html`<ul class="names" id="names" role="listbox" aria-label=${suggestions[0].emoji ? t("Emoji") : t("Names")}>${suggestions.map(
              (one, i) => html`
        <li role="option" id="name-${i}" aria-selected=${i === this.#selected} @mousedown=${(event) => (event.preventDefault(), this.#insertName(one))}>
          ${one.emoji ? html`<span class="sign">${one.emoji}</span> <span>${one.name}</span>` : html`${avatar(one.name, one)} <b>${one.name}</b> <small>@${one.slug}</small>`}</li>`,
            )}</ul>`
          : nothing
      }
      ${
        this.replyTo
          ? html`<p class="answering">${icon("reply")} <span>${rich("Replying to {name}", { name: html`<b>${this.replyTo.author_name}</b>` })}: ${this.replyTo.content}</span>
        ${iconButton(t("Cancel reply"), "close", () => this.#change({ replyTo: null }))}</p>`
          : nothing
      }
      ${this.error ? html`<p class="problem" role="alert">${this.error}</p>` : nothing}
      ${
        this.images.length
          ? html`<div class="images">${this.images.map(
              (image) => html`<span><img src=${image.url} alt=${image.name} />
        ${iconButton(t("Remove {name}", { name: image.name }), "close", () => this.#change({ images: this.images.filter((one) => one !== image) }))}</span>`,
            )}</div>`
          : nothing
      }
      ${fileCards(this.files, (file) => iconButton(t("Remove {name}", { name: file.name }), "close", () => this.#change({ files: this.files.filter((one) => one !== file) })))}
      <label class="hidden" for="say">${t("Message")}</label>
      <textarea id="say" rows="1" placeholder=${t("Message {topic}", { topic: thread?.topic ?? "" })} .value=${liveValue(this.text)} enterkeyhint="send"
        aria-autocomplete="list" aria-controls=${suggestions.length ? "names" : nothing}
        aria-activedescendant=${suggestions.length ? `name-${this.#selected}` : nothing}
        @keydown=${(event) => this.#onKey(event)} @input=${(event) => this.#onInput(event)}
        @paste=${(event) => event.clipboardData.files.length && attach(event, event.clipboardData.files)}></textarea>
      <footer>
        <label class="quiet" title=${t("Attach files")}><span class="hidden">${t("Attach files")}</span>${icon("attach")}
          <input class="hidden" type="file" multiple
            @change=${(event) => (this.#attach(event.target.files), (event.target.value = ""))} /></label>
        <details class="menu picker emoji-picker" @toggle=${(event) => this.#openEmoji(event)}>
          <summary class="quiet" aria-label=${t("Add an emoji")} title=${t("Add an emoji")}>${icon("smile")}</summary><div></div></details>
        <button type="button" class="quiet only-people" aria-pressed=${this.isForHumans} title=${t("Hide the text from agents")}
          @click=${() => this.#change({ isForHumans: !this.isForHumans })}>${icon("lock")}<span>${t("People only")}</span></button>
        <span class="as">${rich("as {name}", { name: html`<b>${me.name}</b>` })}</span>
        <button class="main send" aria-label=${t("Send")} title=${t("Send (Enter)")}
          ?disabled=${!hasContent(this)}>${icon("send")}</button>
      </footer>
    </form>`;
  }
}

// Agents whose name starts with the typed text come first, then those online.
const rank = (agent, typed) => 2 * Number(agent.slug.startsWith(typed)) + Number(agent.is_online);

const hasContent = ({ text, images, files }) => text.trim() || images.length || files?.length;

// One draft of several, or null if all are empty. If one of them is for people only, so is the result.
function mergeDrafts(all) {
  const filled = all.filter(hasContent);
  if (!filled.length) return null;
  return {
    text: filled
      .map((one) => one.text)
      .filter(Boolean)
      .join("\n\n"),
    replyTo: all.find((one) => one.replyTo)?.replyTo ?? null,
    isForHumans: all.some((one) => one.isForHumans),
    images: filled.flatMap((one) => one.images),
    files: filled.flatMap((one) => one.files ?? []),
    key: filled.length === 1 ? filled[0].key : null,
  };
}

const FITS_BY_STYLE = CSS.supports("field-sizing", "content");

// Make a text box as high as its text. The style sheet sets the maximum, and in most browsers also the height.
export function fitHeight(textarea) {
  if (FITS_BY_STYLE) return;
  textarea.style.height = "auto";
  textarea.style.height = `${textarea.scrollHeight}px`;
}

const programs = () => [...new Set(agents.list.flatMap((agent) => agent.client || []))];

// The server decides which agent of a program is meant.
function mentionedIds(text) {
  const names = [...text.matchAll(/(?:^|\s)@([\p{L}\p{N}_.-]+)/gu)]
    .map(([, name]) => name.replace(/[.-]+$/, ""))
    .filter((name) => !programs().includes(name.toLowerCase()));
  const ids = [...new Set(names.map((name) => findAgent(name)?.id ?? findPerson(name)).filter(Boolean))];
  return ids.length ? ids : undefined;
}
