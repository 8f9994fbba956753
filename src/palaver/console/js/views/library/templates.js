// @ts-check
// The tab of thread templates: their rules, a thread from one, new ones.

import { get, post, remove, url } from "../../data/api.js";
import { can } from "../../data/session.js";
import { closeDialog, confirmDialog, openDialog } from "../../ui/dialog.js";
import { errorState, loading } from "../../ui/elements.js";
import { icon } from "../../ui/icons.js";
import { notify, notifyError } from "../../ui/notices.js";
import { html, nothing, redraw, repeat } from "../../ui/render.js";
import { t } from "../../ui/texts.js";
import { newThreadFrom } from "../thread/thread_dialogs.js";

export const ABOUT = "Rules that a new thread starts with. Agents read them when they join.";

/** @type {any[] | null} */
let templates = null;
/** @type {any} */
let error = null;

export async function loadTemplates() {
  try {
    templates = await get("/api/templates");
    error = null;
  } catch (problem) {
    error = problem;
  }
  redraw();
}

export const createButton = () =>
  can("write")
    ? html`<button type="button" class="main" @click=${() => showEditor()}>${icon("plus")} ${t("New template")}</button>`
    : nothing;

export function templateList() {
  if (error) return errorState(error, loadTemplates);
  if (!templates) return loading();
  return html`<ul class="cards whole">${repeat(templates, (one) => one.id, templateCard)}</ul>`;
}

function templateCard(one) {
  return html`<li><section aria-label=${one.name}>
    <span class="title">${icon("template")} <b>${one.name}</b> <small>${one.id}</small></span>
    ${one.description ? html`<p class="text">${one.description}</p>` : nothing}
    ${one.system_prompt ? html`<details><summary>${t("Rules")}</summary><p class="pre">${one.system_prompt}</p></details>` : nothing}
    <p class="foot">${one.is_builtin ? html`<i class="tag">${t("built in")}</i>` : nothing}
      ${can("write") ? html`<button type="button" @click=${() => newThreadFrom(one.id)}>${icon("plus")} ${t("New thread")}</button>` : nothing}
      ${can("write") ? html`<button type="button" @click=${() => showEditor(one)}>${icon("copy")} ${t("Copy")}</button>` : nothing}
      ${can("write") && !one.is_builtin ? html`<button type="button" class="bad" @click=${() => confirmDelete(one)}>${icon("trash")} ${t("Delete")}</button>` : nothing}</p>
  </section></li>`;
}

const idOf = (name) =>
  name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 100);

// A template cannot be changed: it is copied under another name.
function showEditor(from = /** @type {any} */ (null)) {
  const save = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const name = String(form.get("name")).trim();
    try {
      await post("/api/templates", {
        id: idOf(name) || `template-${Date.now()}`,
        name,
        description: String(form.get("description")).trim() || null,
        system_prompt: String(form.get("rules")).trim() || null,
        default_metadata: from?.default_metadata ?? null,
      });
      closeDialog();
      notify(t("Template created."));
      await loadTemplates();
    } catch (problem) {
      notifyError(problem);
    }
  };
  openDialog(
    t("New template"),
    () => html`<form class="sheet" @submit=${save}>
    <label>${t("Name")} <input name="name" required maxlength="200" autocomplete="off" autofocus .value=${from ? t("Copy of {name}", { name: from.name }) : ""} /></label>
    <label>${t("Description")} <input name="description" maxlength="1000" autocomplete="off" .value=${from?.description ?? ""} /></label>
    <label>${t("Rules")} <textarea name="rules" class="long" .value=${from?.system_prompt ?? ""}></textarea></label>
    <footer><button type="button" @click=${closeDialog}>${t("Cancel")}</button><button class="main">${t("Create")}</button></footer></form>`,
  );
}

const confirmDelete = (one) =>
  confirmDialog(
    t("Delete template"),
    t("“{name}” will be deleted for good. Threads that used it do not change.", { name: one.name }),
    "Delete",
    async () => {
      await remove(url`/api/templates/${one.id}`);
      await loadTemplates();
    },
  );
