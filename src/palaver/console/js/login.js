import { html } from "./view.js";

export const loginView = () => html`<main class="alone"></main>`;
