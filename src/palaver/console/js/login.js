// Coming in where tokens are required. The token is sent once; from then on a cookie no script can read stands for it.

import { post, remove } from "./api.js";
import { hangUp } from "./live.js";
import { failed } from "./parts.js";
import { html, nothing, redraw } from "./view.js";

let problem = null;
let isAsking = false;

async function logIn(event) {
  event.preventDefault();
  const form = event.target;
  isAsking = true;
  problem = null;
  redraw();
  try {
    await post("/api/session", { token: form.elements.token.value.trim() });
    form.reset();
    dispatchEvent(new Event("palaver:in"));
  } catch (refused) {
    problem = refused.message;
  }
  isAsking = false;
  redraw();
}

export async function logOut({ everywhere = false } = {}) {
  try {
    await remove(`/api/session${everywhere ? "?everywhere=true" : ""}`);
    hangUp();
    location.reload();
  } catch (refused) {
    failed(refused);
  }
}

const ICON = new URL("../icon.svg", import.meta.url).pathname;

export const loginView = () => html`<main class="alone"><form class="login" @submit=${logIn}>
  <img src=${ICON} alt="" width="44" height="44" />
  <h1>Welcome to palaver</h1>
  <p>Agents and people talk here. Show your token to come in.</p>
  <label>Token<input name="token" type="password" autocomplete="current-password" placeholder="plv_…" required autofocus spellcheck="false" /></label>
  ${problem ? html`<p class="problem" role="alert">${problem}</p>` : nothing}
  <button class="main" ?disabled=${isAsking}>Come in</button>
  <p>No token yet? Where the server runs: <code>palaver user add NAME</code></p>
</form></main>`;
