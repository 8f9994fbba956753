// @ts-check
// Replay: a session as a timeline, one line a step. Only the slices in view are drawn; the others are empty boxes of the
// same height. So a session of 10,000 steps scrolls as smoothly as a short one.

import { SLICE, Steps } from "./loaded_steps.js";
import { settings } from "../../data/settings.js";
import { linkToDocument } from "../../route.js";
import { copyAndNotify } from "../../ui/clipboard.js";
import { emptyState, icon } from "../../ui/elements.js";
import { formatNumber, plural, projectName } from "../../ui/format.js";
import { notify, notifyError } from "../../ui/dialog.js";
import { guard, html, nextDraw, nothing, redraw, ref, t } from "../../ui/templates.js";
import { duration, RUNNING_FOR, stepTemplate } from "./step.js";

export { Steps };

const REFRESH_TIME = 5000; // milliseconds
const STEP_HEIGHT = 38; // pixels, of a step that is not drawn yet

export class Replay {
  /** @type {import("./loaded_steps.js").Steps} */
  steps;
  current = 0; // the number of the selected step
  /** @type {number | null} */
  found; // the step that the link names
  foundId;
  /** @type {{question: string, answer: string}} */
  names;
  /** @type {Map<string, boolean>} */
  #folds = new Map(); // by branch and number, where it differs from the default
  #isAllFolded = false;
  #wholes = new Set(); // outputs that are shown in full height
  #openBranches = new Set();
  #inView = new Set(); // slices
  #heights = new Map();
  /** @type {IntersectionObserver | null} */
  #observer = null;
  #linkTo;
  #refreshing;
  #version = 0;
  #kept = 0; // the step that is kept in view after a jump

  // `linkTo` gives the address of another session or of a turn of this one, `names` who asks and who answers.
  constructor(steps, { found, foundId, linkTo, names }) {
    this.names = names;
    this.steps = steps;
    this.found = found;
    this.foundId = foundId;
    this.#linkTo = linkTo;
    this.current = found ?? 0;
    this.#inView.add(steps.sliceOf(found ?? 1));
    this.#refreshing = setInterval(() => this.#isLive() && steps.refresh().catch(() => {}), REFRESH_TIME);
  }

  // A session that was active a moment ago may still go on.
  #isLive() {
    const { ended_at } = this.steps.outline.totals;
    return ended_at && !document.hidden && Date.now() - new Date(ended_at).getTime() < RUNNING_FOR;
  }

  // Slices are drawn again only when something in them has changed: drawing all of them at each scroll step is slow.
  #changed() {
    this.#version += 1;
    redraw();
  }

  // Folding

  isUnfolded(step, branch) {
    const chosen = this.#folds.get(`${branch}/${step.number}`);
    if (chosen !== undefined) return chosen;
    if (!branch && step.number === this.found) return true;
    return !this.#isAllFolded && (step.kind === "question" || step.kind === "answer");
  }

  toggle(step, branch = 0) {
    this.#folds.set(`${branch}/${step.number}`, !this.isUnfolded(step, branch));
    this.#changed();
  }

  isWhole = (step, branch) => this.#wholes.has(`${branch}/${step.number}`);

  async showWhole(step, branch = 0) {
    try {
      if (step.length) await this.steps.loadWhole(step, branch);
      this.#wholes.add(`${branch}/${step.number}`);
      this.#changed();
    } catch (error) {
      notifyError(error);
    }
  }

  #foldAll(isFolded) {
    this.#isAllFolded = isFolded;
    this.#folds.clear();
    this.#heights.clear();
    this.#changed();
  }

  async toggleBranch(branch) {
    if (this.#openBranches.delete(branch)) return this.#changed();
    this.#openBranches.add(branch);
    this.#changed();
    await this.steps.loadBranch(branch).catch(notifyError);
    this.#changed();
  }

  // Moving

  async goTo(number, block = /** @type {ScrollLogicalPosition} */ ("nearest")) {
    if (number < 1 || number > this.steps.total) return;
    this.current = number;
    const slice = this.steps.sliceOf(number);
    const isFar = !this.#inView.has(slice);
    this.#inView.add(slice);
    await this.steps.load(slice, this.#inView).catch(notifyError);
    await nextDraw();
    if (this.current !== number) return; // another key was pressed meanwhile
    const row = document.querySelector(`.replay [data-step="0/${number}"]`);
    /** @type {HTMLElement | null} */ (row)?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: isFar ? "center" : block });
    if (isFar) this.keepInView(number);
  }

  // After a jump the slices around are drawn, and their heights differ from the estimate. Until the user scrolls, the
  // step is brought back if it has left the view.
  keepInView(number) {
    this.#kept = number;
    const forget = () => (this.#kept = 0);
    for (const name of ["wheel", "touchstart", "mousedown"])
      document.addEventListener(name, forget, { once: true, passive: true });
    requestAnimationFrame(() => setTimeout(() => this.#bringBack(), 60));
  }

  #bringBack() {
    const row = document.querySelector(`.replay [data-step="0/${this.#kept}"]`);
    const box = row?.closest(".scroll, .preview")?.getBoundingClientRect();
    if (!row || !box || this.current !== this.#kept) return;
    const { top, bottom } = row.getBoundingClientRect();
    if (bottom < box.top + 120 || top > box.bottom - 40) row.scrollIntoView({ block: "center" });
  }

  // The next or previous place of a kind: errors, edits, questions, answers.
  #jump(kind, step) {
    const places = this.steps.outline.places[kind];
    const next =
      step > 0 ? places.find((number) => number > this.current) : places.findLast((number) => number < this.current);
    if (next) return void this.goTo(next, "center");
    notify(places.length ? t("There are no more.") : t("There are none."));
  }

  // From a question to its answer, and from an answer to its question.
  #jumpToOther() {
    const { questions, answers } = this.steps.outline.places;
    const isQuestion = questions.includes(this.current);
    const other = isQuestion
      ? answers.find((number) => number > this.current)
      : questions.findLast((number) => number < this.current);
    if (other) this.goTo(other, "center");
    else notify(t("There are none."));
  }

  key(event) {
    const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (move) return this.goTo(Math.max(1, Math.min(this.steps.total, this.current + move))), true;
    const places = { e: "errors", d: "edits", u: "questions" }[event.key.toLowerCase()];
    if (places) return this.#jump(places, event.key === event.key.toLowerCase() ? 1 : -1), true;
    if (event.key === "a") return this.#jumpToOther(), true;
    if (event.key === "Home") return this.goTo(1), true;
    if (event.key === "End") return this.goTo(this.steps.total), true;
    const step = this.steps.step(this.current);
    if (event.key === "Enter" && step) return this.toggle(step), true;
    return false;
  }

  // Slices

  #observe = (element) => {
    if (!element) return;
    this.#observer ??= new IntersectionObserver((entries) => this.#onView(entries), {
      root: element.closest(".scroll, .preview"),
      rootMargin: "1200px 0px",
    });
    this.#observer.observe(element);
  };

  #onView(entries) {
    for (const { isIntersecting, target, boundingClientRect } of entries) {
      const slice = Number(/** @type {HTMLElement} */ (target).dataset.slice);
      if (isIntersecting) {
        this.#inView.add(slice);
        const drawn = this.steps.load(slice, this.#inView).then(nextDraw);
        drawn.then(() => this.#bringBack()).catch(notifyError);
      } else if (this.#inView.size > 1 && slice !== this.steps.sliceOf(this.current || 1)) {
        if (this.steps.slices.has(slice)) this.#heights.set(slice, boundingClientRect.height);
        this.#inView.delete(slice);
      }
    }
    redraw();
  }

  stop() {
    clearInterval(this.#refreshing);
    this.#observer?.disconnect();
    this.#observer = null;
  }

  // Templates

  template() {
    if (!this.steps.total) return emptyState("chats", "No messages");
    const slices = Array.from({ length: this.steps.sliceCount }, (_, slice) => this.#slice(slice));
    return html`<div class="replay">
      ${this.#summary()}
      ${this.#related()}
      ${this.branchesAfter(0, 0)}
      <div role="feed" aria-label=${t("Timeline")} aria-busy=${!this.steps.slices.size}>${slices}</div>
    </div>`;
  }

  #slice(slice) {
    const steps = this.#inView.has(slice) ? this.steps.slices.get(slice) : null;
    const count = Math.min(SLICE, this.steps.total - slice * SLICE);
    const setHeight = (element) => {
      if (!element) return;
      element.style.height = steps ? "" : `${this.#heights.get(slice) ?? count * STEP_HEIGHT}px`;
      if (!element.dataset.isObserved) {
        element.dataset.isObserved = "1";
        this.#observe(element);
      }
    };
    const current = this.steps.sliceOf(this.current || 1) === slice ? this.current : 0;
    const dependencies = [
      steps,
      steps ? 0 : this.#heights.get(slice),
      count,
      current,
      this.#version,
      settings.version,
      this.steps.outline,
    ];
    return guard(
      dependencies,
      () =>
        html`<section class="slice" data-slice=${slice} ${ref(setHeight)}>${
          steps ? steps.map((step) => this.row(step, 0)) : nothing
        }</section>`,
    );
  }

  row(step, branch) {
    return html`${stepTemplate(this, step, branch)}${this.branchesAfter(branch, step.number)}`;
  }

  subagentsAt = (number) => this.steps.outline.subagents.filter((one) => one.at === number);
  linkToSession = (id) => this.#linkTo(id, null);

  copyLink = (step) => copyAndNotify(`${location.origin}/${this.#linkTo(null, step.id)}`, t("Link copied."));

  // Other versions of what follows a step: edited questions, answers that were given again.
  branchesAfter(beside, after) {
    return this.steps.outline.branches
      .filter((one) => one.beside === beside && one.after === after)
      .map((one) => {
        const isOpen = this.#openBranches.has(one.number);
        const steps = this.steps.branches.get(one.number);
        return html`<div class="branch">
          <button type="button" class="line" aria-expanded=${isOpen} @click=${() => this.toggleBranch(one.number)}>
            ${icon("branch")}<span><b>${t("Other branch")}</b> ${one.title}</span><small>${plural(one.steps, "step")}</small></button>
          ${isOpen ? html`<div class="inside">${steps ? steps.map((step) => this.row(step, one.number)) : html`<p>${t("Loading")}</p>`}</div>` : nothing}
        </div>`;
      });
  }

  #summary() {
    const { totals } = this.steps.outline;
    const hasTools = totals.calls + totals.errors > 0; // a chat has none
    const jump = (kind, count, one, many, nextLabel, previousLabel, key) =>
      html`<span class="jump ${kind} ${count ? "" : "none"}"><span><b>${formatNumber(count)}</b> ${t(count === 1 ? one : many)}</span>${
        count
          ? html`<button type="button" class="quiet previous" aria-label=${t(previousLabel)} title="${t(previousLabel)} (${key.toUpperCase()})" @click=${() => this.#jump(kind, -1)}>${icon("up")}</button
          ><button type="button" class="quiet" aria-label=${t(nextLabel)} title="${t(nextLabel)} (${key})" @click=${() => this.#jump(kind, 1)}>${icon("down")}</button>`
          : nothing
      }</span>`;
    return html`<div class="summary" role="toolbar" aria-label=${t("Summary of the session")}>
      ${hasTools ? jump("errors", totals.errors, "error", "errors", "Next error", "Previous error", "e") : nothing}
      ${hasTools ? jump("edits", totals.edits, "edit", "edits", "Next edit", "Previous edit", "d") : nothing}
      ${jump("questions", totals.questions, "question", "questions", "Next question", "Previous question", "u")}
      ${hasTools ? html`<span class="jump calls"><b>${formatNumber(totals.calls)}</b> ${t(totals.calls === 1 ? "tool call" : "tool calls")}</span>` : nothing}
      ${totals.seconds ? html`<span class="jump time">${icon("clock")} ${duration(totals.seconds)}</span>` : nothing}
      <button type="button" class="fold" @click=${() => this.#foldAll(!this.#isAllFolded)}>${this.#isAllFolded ? t("Show messages") : t("One line each")}</button>
    </div>`;
  }

  // The session that started this one, the subagents without a known step, how to resume, and what is still open.
  #related() {
    const { parent, subagents, resume } = this.steps.outline;
    const unplaced = subagents.filter((one) => !one.at);
    const { points } = this.steps;
    if (!parent && !resume && !unplaced.length && !points.length) return nothing;
    return html`<div class="related">
      ${parent ? html`<a href=${this.linkToSession(parent.id)}>${icon("up")} ${t("Started by: {title}", { title: parent.title || parent.id })}</a>` : nothing}
      ${resume?.url ? html`<a class="resume" href=${resume.url} target="_blank" rel="noopener noreferrer">${icon("link")} ${t("Continue in {program}", { program: resume.program })}</a>` : nothing}
      ${
        resume?.command
          ? html`<span class="resume"><span>${t("Continue in {program}", { program: resume.program })}</span> <code>${resume.command}</code>
        <button type="button" class="quiet" aria-label=${t("Copy the command")} title=${t("Copy the command")} @click=${() => copyAndNotify(resume.command, t("Command copied."))}>${icon("copy")}</button>${
          this.steps.project
            ? html`<small title=${this.steps.project}>${t("in {project}", { project: projectName(this.steps.project) })}</small>`
            : nothing
        }</span>`
          : nothing
      }
      ${unplaced.map((one) => html`<a href=${this.linkToSession(one.id)}>${icon("branch")} ${t("Subagent: {title}", { title: one.title || one.id })}</a>`)}
      ${points.map(
        (one) =>
          html`<span class="point">${one.text} <button type="button" class="quiet" aria-label=${t("Close this open point")} title=${t("Close this open point")} @click=${() => this.steps.closePoint(one).catch(notifyError)}>${icon("check")}</button></span>`,
      )}
    </div>`;
  }
}

// The addresses of a session or of one of its turns, for both sources.
export const LINKS = {
  session: (agent, session) => (other, turnId) => {
    const id = other ?? session;
    return linkToDocument("sessions", `${agent}/${id}`, {
      agent_id: agent,
      session_id: id,
      ...(turnId ? { message_id: turnId } : {}),
    });
  },
  conversation: (conversation) => (other, turnId) => {
    const id = other ?? conversation;
    return linkToDocument("archive", id, { conversation_id: id, ...(turnId ? { message_id: turnId } : {}) });
  },
};
