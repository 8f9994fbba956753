// @ts-check
// Questions of agents to people. The open ones are loaded once, and again when one was asked, answered or has expired.

import { redraw, t } from "../ui/templates.js";
import { visibleText } from "../ui/visible_text.js";
import { get, post, url } from "./api.js";
import { on } from "./events.js";
import { notifySystem } from "./notifications.js";
import { me } from "./session.js";
import { soon } from "./soon.js";

const MAX_OPEN = 200;
const MAX_RECENT = 30;

export const questions = {
  // Those that are or were open while this page was shown, the oldest first: nothing moves under the pointer when another
  // question comes or goes.
  /** @type {Map<string, import("./types.js").Question>} */
  byId: new Map(),
  /** @type {import("./types.js").Question[]} */
  recent: [],
  isLoaded: false,
  error: /** @type {any} */ (null),
};

export const openQuestions = () => [...questions.byId.values()].filter(({ state }) => state === "open");

// `isNewVisit` takes out those that are closed.
export async function loadQuestions(isNewVisit = false) {
  try {
    const [open, all] = await Promise.all([
      get(`/api/questions?limit=${MAX_OPEN}`),
      get(`/api/questions?state=all&limit=${MAX_RECENT}`),
    ]);
    const known = questions.byId;
    const isOpen = new Set(open.questions.map(({ question_id }) => question_id));
    const gone = [...known.keys()].filter((id) => !isOpen.has(id));
    const closed = new Map(all.questions.map((one) => [one.question_id, one]));
    const arrived = open.questions.filter(({ question_id }) => !known.has(question_id)).reverse();
    for (const id of gone) {
      const now = closed.get(id);
      if (isNewVisit || !now) known.delete(id);
      else known.set(id, now);
    }
    for (const one of open.questions) if (known.has(one.question_id)) known.set(one.question_id, one);
    for (const one of arrived) known.set(one.question_id, one);
    questions.recent = all.questions.filter(({ state }) => state !== "open");
    if (questions.isLoaded) for (const one of arrived) announce(one);
    questions.isLoaded = true;
    questions.error = null;
  } catch (error) {
    questions.error = error;
  }
  redraw();
}

function announce({ question_id, asked_by, text, permission }) {
  const title = permission
    ? t("{name} asks for permission: {tool}", { name: asked_by, tool: permission.tool })
    : t("{name} asks you", { name: asked_by });
  notifySystem(title, {
    body: visibleText(permission?.command ?? text),
    tag: question_id,
    hash: `#/questions?question=${question_id}`,
  });
}

export async function answerQuestion(id, answer, note) {
  const given = { answer, note: note || undefined, author: me.needsLogin ? undefined : me.name };
  try {
    questions.byId.set(id, await post(url`/api/questions/${id}/answer`, given));
  } finally {
    loadQuestions(); // also when somebody else was first
  }
}

const reloadSoon = soon(loadQuestions, 100);
for (const type of ["question.new", "question.answered", "question.expired"]) on(type, reloadSoon);
on("msg.delete", ({ message_id }) => questions.byId.has(message_id) && reloadSoon());
on("reset", () => loadQuestions());
