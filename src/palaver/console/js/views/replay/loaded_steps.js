// @ts-check
// The steps of a session or an imported conversation. They are loaded in slices, where they are looked at.

import { plainTitle } from "../../ui/format.js";
import { redraw } from "../../ui/templates.js";
import { get, post, withQuery } from "../../data/api.js";

export const SLICE = 20; // steps: drawing one is a short task
const MOST_LOADED = 60; // slices that are kept

/**
 * @typedef {object} Step
 * @property {number} number
 * @property {string} id
 * @property {"question" | "answer" | "call" | "output" | "note"} kind
 * @property {string} [text]
 * @property {number} [length] The length of the whole text, if it is cut.
 * @property {string} [ts]
 * @property {number} [seconds]
 * @property {string} [tool]
 * @property {string} [brief]
 * @property {string} [arguments]
 * @property {string} [path]
 * @property {string} [diff]
 * @property {"done" | "failed" | "silent" | "open"} [state]
 * @property {boolean} [is_error]
 * @property {boolean} [is_edit]
 * @property {string} [result_id]
 */

const sameStep = (a, b) =>
  a && a.id === b.id && a.result_id === b.result_id && a.state === b.state && (a.text === b.text || !a.length);

export class Steps {
  title = "";
  /** @type {string | null} */
  project = null;
  total = 0;
  /** @type {any} */
  outline = null;
  /** @type {Map<number, Step[]>} */
  slices = new Map();
  /** @type {Map<number, Step[]>} */
  branches = new Map(); // the steps of branches that were opened
  /** @type {{point: string, text: string, agent_id: string, session_id: string}[]} */
  points = []; // what the session left open
  #path;
  #loading = new Map();

  constructor(path) {
    this.#path = path;
  }

  // Load the slice with this turn, or the first one, and the outline. Returns the number of the step with the turn.
  async open(turnId) {
    const page = await get(withQuery(this.#path, { at: turnId, limit: SLICE, outline: true }));
    this.title = plainTitle(page.title);
    this.project = page.project ?? null;
    this.total = page.total;
    this.outline = page.outline;
    this.slices.set(Math.floor(page.after / SLICE), page.steps);
    this.#loadPoints().catch(() => {}); // the session can be read without them
    return page.found ?? null;
  }

  async #loadPoints() {
    const session = this.#path.match(/^\/api\/v1\/agents\/.*\/sessions\/(.+)\/steps$/)?.[1];
    if (!session) return;
    const { points } = await get(withQuery("/api/open-points", this.project ? { project: this.project } : {}));
    this.points = points.filter((one) => one.session_id === decodeURIComponent(session));
    redraw();
  }

  async closePoint(point) {
    await post(`/api/open-points/${encodeURIComponent(point.point)}/close`);
    this.points = this.points.filter((one) => one !== point);
    redraw();
  }

  get sliceCount() {
    return Math.ceil(this.total / SLICE);
  }

  sliceOf = (number) => Math.floor((number - 1) / SLICE);
  step = (number) => this.slices.get(this.sliceOf(number))?.[(number - 1) % SLICE];

  // Load a slice once. Of many slices, those that were loaded first are dropped, except the ones in view.
  load(slice, inView) {
    if (this.slices.has(slice)) return Promise.resolve();
    if (!this.#loading.has(slice)) {
      const loading = get(withQuery(this.#path, { after: slice * SLICE, limit: SLICE }))
        .then((page) => {
          this.slices.set(slice, page.steps);
          for (const old of this.slices.keys()) {
            if (this.slices.size <= MOST_LOADED) break;
            if (old !== slice && !inView.has(old)) this.slices.delete(old);
          }
          redraw();
        })
        .finally(() => this.#loading.delete(slice));
      this.#loading.set(slice, loading);
    }
    return this.#loading.get(slice);
  }

  // Load the end again: a session may go on while it is read. Steps that did not change stay the same objects.
  async refresh() {
    const slice = Math.max(0, this.sliceCount - 1);
    const page = await get(withQuery(this.#path, { after: slice * SLICE, limit: SLICE, outline: true }));
    const known = this.slices.get(slice);
    if (known) {
      const merged = page.steps.map((step, i) => (sameStep(known[i], step) ? known[i] : step));
      this.slices.set(slice, merged);
    }
    this.total = page.total;
    this.outline = page.outline;
    redraw();
  }

  // Load the whole text of a step that is cut.
  async loadWhole(step, branch = 0) {
    const page = await get(withQuery(this.#path, { after: step.number - 1, whole: true, branch }));
    Object.assign(step, { text: page.steps[0].text, length: undefined });
    redraw();
  }

  async loadBranch(branch) {
    if (this.branches.has(branch)) return;
    const page = await get(withQuery(this.#path, { branch, limit: 500 }));
    this.branches.set(branch, page.steps);
    redraw();
  }

  async loadAll() {
    const all = [];
    while (all.length < this.total) {
      const page = await get(withQuery(this.#path, { after: all.length, limit: 500 }));
      if (!page.steps.length) break;
      all.push(...page.steps);
    }
    return all;
  }
}
