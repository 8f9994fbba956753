// @ts-check
// Logging in and out. The token is sent once; after that a cookie that scripts cannot read replaces it.

import { assetUrl } from "../assets.js";
import { post, remove } from "../data/api.js";
import { stopListening } from "../data/events.js";
import { notifyError } from "../ui/dialog.js";
import { html, nothing, redraw, t } from "../ui/templates.js";

let errorText = null;
let isSending = false;

async function logIn(event) {
  event.preventDefault();
  const form = event.target;
  isSending = true;
  errorText = null;
  redraw();
  try {
    await post("/api/session", { token: form.elements.token.value.trim() });
    form.reset();
    dispatchEvent(new Event("palaver:logged-in"));
  } catch (error) {
    errorText = error.message;
  }
  isSending = false;
  redraw();
}

export async function logOut({ everywhere = false } = {}) {
  try {
    await remove(`/api/session${everywhere ? "?everywhere=true" : ""}`);
    stopListening();
    location.reload();
  } catch (error) {
    notifyError(error);
  }
}

export const loginView = () => html`<main class="alone"><form class="login" @submit=${logIn}>
  <img src=${assetUrl("icon.svg")} alt="" width="44" height="44" />
  <h1>${t("Log in to palaver")}</h1>
  <p>${t("Agents and people talk here. Log in with your token.")}</p>
  <label>${t("Token")}<input name="token" type="password" autocomplete="current-password" placeholder="plv_…" required autofocus spellcheck="false" /></label>
  ${errorText ? html`<p class="problem" role="alert">${t(errorText)}</p>` : nothing}
  <button class="main" ?disabled=${isSending}>${t("Log in")}</button>
  <p>${t("No token yet? Create one on the server:")} <code>palaver user add NAME</code></p>
</form></main>`;
