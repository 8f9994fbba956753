// @ts-check
// The inbox: questions of agents, and requests for permission, which one person answers.

import { findAgent } from "../data/agents.js";
import { areNotificationsOn, hasNotifications, setNotifications } from "../data/notifications.js";
import { answerQuestion, loadQuestions, openQuestions, questions } from "../data/questions.js";
import { can } from "../data/session.js";
import { linkToThread } from "../route.js";
import { notifyError } from "../ui/dialog.js";
import { avatar, emptyState, errorState, icon, loading, stepFocus } from "../ui/elements.js";
import { momentOf, plural, timeAgo, timeElement } from "../ui/format.js";
import { html, nextDraw, nothing, redraw, repeat, rich, t } from "../ui/templates.js";
import { visibleParts } from "../ui/visible_text.js";

let wanted = "";
/** @type {Set<string>} */
const answering = new Set();

export const questionsView = {
  title: () => t("Questions"),
  isInner: () => true,
  enter({ query }) {
    wanted = query.get("question") ?? "";
    return loadQuestions(true);
  },
  retry: () => loadQuestions(),
  template: () => html`<main class="pane questions">
    <header class="head"><div class="name"><h1>${t("Questions")}</h1><p>${plural(openQuestions().length, "open question")}</p></div>
      ${
        hasNotifications() && !areNotificationsOn()
          ? html`<button type="button" @click=${() => setNotifications(true)}>${t("Notify me")}</button>`
          : nothing
      }</header>
    <div class="scroll"><div class="page-body">${content()}</div></div>
  </main>`,
  key: (event) => stepFocus(event, ".question"),
  afterDraw() {
    const card = wanted && document.getElementById(`q-${wanted}`);
    if (!card) return;
    wanted = "";
    card.scrollIntoView({ block: "center" });
    card.focus();
  },
};

function content() {
  if (questions.error && !questions.isLoaded) return errorState(questions.error, loadQuestions);
  if (!questions.isLoaded) return loading();
  const recent = questions.recent.filter(({ question_id }) => !questions.byId.has(question_id));
  return html`${
    questions.byId.size
      ? repeat(questions.byId.values(), ({ question_id }) => question_id, card)
      : emptyState("questions", "No open questions", "What agents ask people appears here.")
  }${
    recent.length
      ? html`<section class="earlier"><h2>${t("Earlier")}</h2>
      <ul class="plain">${repeat(recent, ({ question_id }) => question_id, earlierRow)}</ul></section>`
      : nothing
  }`;
}

function card(question) {
  const { question_id, thread_id, topic, asked_by, asked_at, permission, state } = question;
  return html`<article class="question ${state}" id="q-${question_id}" tabindex="-1" aria-label=${t("Question of {name}", { name: asked_by })}>
    <header>${avatar(asked_by, { isAgent: Boolean(findAgent(asked_by)) })}
      <span><b>${asked_by}</b> ${permission ? rich("asks for permission to use {tool}", { tool: html`<b>${visibleParts(permission.tool)}</b>` }) : nothing}
      <small>${timeElement(asked_at, timeAgo(asked_at))} · <a href=${linkToThread(thread_id, question_id)}>${topic}</a></small></span></header>
    ${
      permission
        ? html`<pre class="exact" tabindex="0" dir="ltr"><code>${visibleParts(permission.command)}</code></pre>
        <p class="place">${rich("in {folder}", { folder: html`<code dir="ltr">${visibleParts(permission.folder)}</code>` })}</p>`
        : html`<p class="asked">${visibleParts(question.text)}</p>`
    }
    ${earlierAnswers(question)}
    ${state === "open" ? (can("write") ? form(question) : html`<p class="hint">${t("Your token may only read.")}</p>`) : result(question)}
  </article>`;
}

// A choice and its note.
const inOneLine = (answer) => visibleParts(answer.replace(/\n+/, ": "));

const earlierAnswers = ({ earlier }) =>
  earlier.length
    ? html`<div class="before"><p>${t("The same question was answered before:")}</p><ul>${earlier.map(
        ({ answer, answered_by, answered_at }) =>
          html`<li><b>${inOneLine(answer)}</b> <small>${answered_by} · ${timeElement(answered_at, momentOf(answered_at))}</small></li>`,
      )}</ul></div>`
    : nothing;

function form(question) {
  const { question_id, choices, permission, expires_at } = question;
  const isBusy = answering.has(question_id);
  const send = async (event) => {
    event.preventDefault();
    const field = event.target.elements.words;
    const choice = event.submitter?.value;
    const words = field.value.trim();
    if (!choice && !words) return field.focus();
    answering.add(question_id);
    redraw();
    try {
      await (choice ? answerQuestion(question_id, choice, words) : answerQuestion(question_id, words));
    } catch (error) {
      notifyError(error);
    }
    answering.delete(question_id);
    await nextDraw();
    document.getElementById(`q-${question_id}`)?.focus({ preventScroll: true });
  };
  // Enter in the field of a question with choices must not press one of them.
  const keepChoice = (event) => {
    if (choices.length && event.key === "Enter") event.preventDefault();
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  };
  const label = choices.length ? t("Note to the agent") : t("Answer");
  return html`<form @submit=${send}>
    <textarea name="words" rows="1" aria-label=${label} placeholder=${choices.length ? t("Note to the agent (optional)") : t("Answer")} @keydown=${keepChoice}></textarea>
    <footer>${
      choices.length
        ? choices.map(
            (choice) =>
              html`<button type="submit" value=${choice} ?disabled=${isBusy}>${
                permission ? t(choice === "yes" ? "Allow this once" : "Do not allow") : visibleParts(choice)
              }</button>`,
          )
        : html`<button type="submit" class="main" ?disabled=${isBusy}>${t("Send answer")}</button>`
    }<small>${rich(permission ? t("The program waits until {time}") : t("No answer by {time} counts as no"), { time: timeElement(expires_at, momentOf(expires_at)) })}</small></footer>
  </form>`;
}

const expiredText = ({ permission }) =>
  permission
    ? t("The program does not wait for an answer here any more.")
    : t("Nobody answered in time. That counts as no.");

const result = (question) =>
  html`<p class="result" role="status">${
    question.state === "expired"
      ? html`${icon("clock")} ${expiredText(question)}`
      : html`${icon("check")} <span><b>${visibleParts(question.answer ?? "")}</b> <small>${question.answered_by}</small></span>`
  }</p>`;

const earlierRow = ({ question_id, thread_id, text, permission, state, answer, answered_by, asked_at }) =>
  html`<li><a href=${linkToThread(thread_id, question_id)}><span>${visibleParts(permission?.command ?? text)}</span></a>
    <small>${state === "expired" ? (permission ? t("ended") : t("expired: no")) : html`<b>${inOneLine(answer ?? "")}</b> · ${answered_by}`} · ${timeElement(asked_at)}</small></li>`;
