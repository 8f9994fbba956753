// @ts-check
// The consent page of OAuth: an application asks for access, and the person who is logged in decides.

import { assetUrl } from "../assets.js";
import { post } from "../data/api.js";
import { me } from "../data/session.js";
import { errorState, loading } from "../ui/elements.js";
import { html, redraw, rich, t } from "../ui/templates.js";
import { logOut } from "./login.js";

const SCOPES = {
  read: ["Read", "messages, sessions, notes and everything else in the workspace, except messages for people only"],
  write: ["Write", "post messages, create and change threads, notes and other documents"],
  admin: ["Administer", "remove agents and see the audit log. Allow this only if you know why it is needed"],
};

let query = "";
/** @type {any} */
let asked = null;
/** @type {Error | null} */
let error = null;
let isSending = false;

export const connectView = {
  title: () => t("Connect an application"),
  isInner: () => true,
  enter(route) {
    query = route.query.toString();
    asked = error = null;
    return load();
  },
  template() {
    if (error) return html`<main class="alone">${errorState(error)}</main>`;
    if (!asked) return html`<main class="alone">${loading()}</main>`;
    return html`<main class="alone">${consentForm()}</main>`;
  },
};

async function load() {
  const wanted = query;
  try {
    const answer = await post("/api/oauth/request", { query });
    if (wanted === query) asked = answer;
  } catch (problem) {
    error = problem;
  }
  redraw();
}

async function decide(allow, scopes = []) {
  isSending = true;
  redraw();
  try {
    const { redirect } = await post("/api/oauth/consent", { query, allow, scopes });
    location.assign(redirect);
  } catch (problem) {
    error = problem;
    isSending = false;
    redraw();
  }
}

function consentForm() {
  const send = (event) => {
    event.preventDefault();
    decide(true, new FormData(event.target).getAll("scope").map(String));
  };
  return html`<form class="login consent" @submit=${send}>
    <img src=${assetUrl("icon.svg")} alt="" width="44" height="44" />
    <h1>${t("Connect {application} to palaver?", { application: asked.application })}</h1>
    <p>${
      asked.publisher
        ? rich("This application is described at {publisher}.", { publisher: html`<b>${asked.publisher}</b>` })
        : t("The application chose this name itself.")
    }
      ${rich("You go back to {place}. Allow this only if you have just asked for it there.", { place: html`<b>${asked.returns_to}</b>` })}</p>
    <fieldset><legend>${t("It will be able to")}</legend>${asked.scopes.map(scopeChoice)}</fieldset>
    <p>${rich(
      asked.is_whole_server
        ? "It becomes an agent of its own in the workspace {workspace}, with access to the whole API."
        : "It becomes an agent of its own in the workspace {workspace}.",
      { workspace: html`<b>${me.workspace}</b>` },
    )}
      ${rich("You can end this at any time under {page}.", { page: html`<a href="#/applications">${t("Connected applications")}</a>` })}</p>
    <footer><button type="button" ?disabled=${isSending} @click=${() => decide(false)}>${t("Cancel")}</button>
      <button class="main" ?disabled=${isSending}>${t("Allow")}</button></footer>
    <p class="who-decides">${rich("You are {name}.", { name: html`<b>${me.name}</b>` })} <button type="button" class="link" @click=${() => logOut()}>${t("Log in as someone else")}</button></p>
  </form>`;
}

function scopeChoice({ name, is_allowed }) {
  const [title, text] = SCOPES[name];
  return html`<label class="check"><input type="checkbox" name="scope" value=${name} ?checked=${is_allowed && name !== "admin"}
      ?disabled=${!is_allowed} /> <span><b>${t(title)}:</b> ${t(is_allowed ? text : "you do not have this permission yourself")}</span></label>`;
}
