// @ts-check
// The tab of thread templates: their rules, a thread from one, new ones, changes.

import { post, put, url } from "../../data/api.js";
import { can } from "../../data/session.js";
import { closeDialog, formDialog, notify } from "../../ui/dialog.js";
import { icon } from "../../ui/elements.js";
import { LoadedList } from "../loaded_list.js";
import { html, nothing, repeat, t } from "../../ui/templates.js";
import { newThreadFrom } from "../thread/thread_dialogs.js";

export const ABOUT = "Rules that a new thread starts with. Agents read them when they join.";

const templates = new LoadedList("/api/templates");
export const loadTemplates = templates.load;

export const createButton = () =>
  can("write")
    ? html`<button type="button" class="main" @click=${() => showEditor()}>${icon("plus")} ${t("New template")}</button>`
    : nothing;

export const templateList = () =>
  templates.template((all) => html`<ul class="cards whole">${repeat(all, (one) => one.id, templateCard)}</ul>`);

function templateCard(one) {
  return html`<li><section aria-label=${one.name}>
    <span class="title">${icon("template")} <b>${one.name}</b> <small>${one.id}</small></span>
    ${one.description ? html`<p class="text">${one.description}</p>` : nothing}
    ${one.system_prompt ? html`<details><summary>${t("Rules")}</summary><p class="pre">${one.system_prompt}</p></details>` : nothing}
    <p class="foot">${one.is_builtin ? html`<i class="tag">${t("built in")}</i>` : nothing}
      ${can("write") ? html`<button type="button" @click=${() => newThreadFrom(one.id)}>${icon("plus")} ${t("New thread")}</button>` : nothing}
      ${can("write") ? html`<button type="button" @click=${() => showEditor({ ...one, name: t("Copy of {name}", { name: one.name }) })}>${icon("copy")} ${t("Copy")}</button>` : nothing}
      ${can("write") && !one.is_builtin ? html`<button type="button" @click=${() => showEditor(one, one.id)}>${icon("edit")} ${t("Edit")}</button>` : nothing}
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

// The form for a template: the one with this id is changed, without an id a new one is made.
const showEditor = (from = /** @type {any} */ (null), id = "") =>
  formDialog(
    id ? t("Edit template") : t("New template"),
    () => html`<label>${t("Name")} <input name="name" required maxlength="200" autocomplete="off" autofocus .value=${from?.name ?? ""} /></label>
    <label>${t("Description")} <input name="description" maxlength="1000" autocomplete="off" .value=${from?.description ?? ""} /></label>
    <label>${t("Rules")} <textarea name="rules" class="long" .value=${from?.system_prompt ?? ""}></textarea></label>
    ${id ? html`<p class="hint">${t("Threads that used it do not change.")}</p>` : nothing}`,
    { action: id ? "Save" : "Create" },
    async (form) => {
      const [name, description, system_prompt] = ["name", "description", "rules"].map((field) =>
        form.elements[field].value.trim(),
      );
      const values = { name, description, system_prompt, default_metadata: from?.default_metadata ?? null };
      if (id) await put(url`/api/templates/${id}`, values);
      else await post("/api/templates", { id: idOf(name) || `template-${Date.now()}`, ...values });
      closeDialog();
      notify(id ? t("Saved.") : t("Template created."));
      await loadTemplates();
    },
  );

const confirmDelete = (one) =>
  templates.confirmRemove(one, {
    title: t("Delete template"),
    text: t("“{name}” will be deleted for good. Threads that used it do not change.", { name: one.name }),
    action: "Delete",
  });
