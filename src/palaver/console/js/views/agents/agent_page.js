// @ts-check
// The page of one agent: who it is, what it does, its threads and sessions. It can be renamed, and admins can remove it.

import { displayName, findAgent, loadAgents } from "../../data/agents.js";
import { get, put, remove, url, withQuery } from "../../data/api.js";
import { can } from "../../data/session.js";
import { SOURCES } from "../../data/sources.js";
import { threads } from "../../data/threads.js";
import { goTo, link, linkToDocument, linkToThread } from "../../route.js";
import { closeDialog, formDialog, notify } from "../../ui/dialog.js";
import { avatar, emptyState, errorState, icon, loading, menu, tagList } from "../../ui/elements.js";
import { formatNumber, shortTime, timeAgo, timeElement } from "../../ui/format.js";
import { html, nothing, redraw, t } from "../../ui/templates.js";
import { activityOf } from "./activity.js";

const SHOWN = 8; // threads and sessions

/** @type {{slug: string, agent: any, sessions: any, error: any} | null} */
let open = null;

export async function enterAgent(slug) {
  const entered = { slug, agent: /** @type {any} */ (findAgent(slug) ?? null), sessions: null, error: null };
  open = entered;
  redraw();
  try {
    entered.agent = await get(url`/api/agents/${slug}`);
    entered.sessions = await get(withQuery("/api/library/sessions", { origin: entered.agent.slug, limit: SHOWN }));
  } catch (error) {
    entered.error = error;
  }
  redraw();
}

export const agentTitle = () => (open?.agent ? displayName(open.agent) : t("Agent"));

export function agentPage() {
  if (!open) return nothing;
  const { agent: loaded, error } = open;
  const agent = loaded && { ...loaded, ...findAgent(loaded.id) }; // what it does is loaded again and again
  return html`<header class="head">
      <a class="quiet back always" href="#/agents" aria-label=${t("Back to agents")}>${icon("back")}</a>
      <div class="name"><h1>${agentTitle()}</h1><p>${agent ? `@${agent.slug}` : nothing}</p></div>
      ${agent && can("write") ? menu(t("More"), actions(agent)) : nothing}</header>
    <div class="scroll"><div class="page-body">${error ? errorState(error) : agent ? details(agent) : loading()}</div></div>`;
}

function actions(agent) {
  const found = [{ text: t("Rename agent"), icon: "edit", run: () => showRenaming(agent) }];
  const removal = { text: t("Remove agent"), icon: "trash", isDangerous: true, run: () => showRemoval(agent) };
  return can("admin") ? [...found, removal] : found;
}

function details(agent) {
  const name = displayName(agent);
  const row = (label, value) => (value ? html`<dt>${t(label)}</dt><dd>${value}</dd>` : nothing);
  return html`<p class="who">${avatar(name, { isAgent: true, isOnline: agent.is_online })} <span><b>${agent.is_online ? t("online") : t("offline")}</b> · ${activityOf(agent)}</span></p>
    ${agent.description ? html`<p>${agent.description}</p>` : nothing}
    ${tagList(agent.capabilities)}
    <dl class="facts">
      ${row("Client", [agent.ide, agent.model].filter(Boolean).join(" · "))}
      ${row("Project", agent.project)}
      ${row("Skills", (agent.skills ?? []).map((skill) => skill.name ?? skill.id).join(", "))}
      ${row("Registered", timeElement(agent.registered_at, shortTime(agent.registered_at)))}
      ${row("Last active", timeElement(agent.last_activity_time ?? agent.last_heartbeat, timeAgo(agent.last_activity_time ?? agent.last_heartbeat)))}
      ${row("Id", html`<code>${agent.id}</code>`)}
    </dl>
    <p class="ways"><a class="button" href=${link("search", { q: `from:${agent.slug}` })}>${icon("search")} ${t("Search its messages")}</a>
      <a class="button" href=${link(["library", "sessions"], { origin: agent.slug })}>${icon("sessions")} ${t("All its sessions")}</a></p>
    ${threadSection(agent)}${sessionSection()}`;
}

function threadSection(agent) {
  const names = [agent.name, agent.display_name, agent.slug].filter(Boolean).map((one) => one.toLowerCase());
  const found = [...threads.byId.values()].filter(
    (thread) =>
      thread.id === agent.waiting_in || thread.participants.some((name) => names.includes(name.toLowerCase())),
  );
  if (!found.length) return nothing;
  return html`<section><h2>${t("Threads")}</h2><ul class="plain">${found
    .slice(0, SHOWN)
    .map(
      (thread) =>
        html`<li><a href=${linkToThread(thread.id)}>${icon("threads")} <span>${thread.topic}</span></a>${thread.last ? html`<small>${timeAgo(thread.last.created_at)}</small>` : nothing}</li>`,
    )}</ul></section>`;
}

function sessionSection() {
  const { sessions } = open ?? {};
  if (!sessions) return nothing;
  const card = /** @type {NonNullable<import("../../data/sources.js").Source["library"]>} */ (SOURCES.sessions.library)
    .card;
  return html`<section><h2>${t("Sessions")} ${sessions.total ? html`<small>${formatNumber(sessions.total)}</small>` : nothing}</h2>
    ${sessions.total ? nothing : emptyState("sessions", "No sessions yet")}
    <ul class="plain">${sessions.documents.map((one) => {
      const { id, title, kind, when = "", loc } = card(one);
      return html`<li><a href=${linkToDocument("sessions", id, loc)}>${icon("sessions")} <span>${title}</span></a><small>${kind} · ${timeAgo(when)}</small></li>`;
    })}</ul></section>`;
}

// The old names of a renamed agent still mean it.
const showRenaming = (agent) =>
  formDialog(
    t("Rename agent"),
    () =>
      html`<label>${t("Name")} <input name="name" required maxlength="200" autofocus .value=${displayName(agent)} /></label>`,
    { action: "Save" },
    async (form) => {
      const renamed = await put(url`/api/agents/${agent.id}/name`, { name: form.elements.name.value });
      closeDialog();
      await loadAgents();
      goTo(link(["agents", renamed.slug]));
    },
  );

// Removing is for good, so it is asked. Cancel has the focus.
const showRemoval = (agent) =>
  formDialog(
    t("Remove agent"),
    () => html`<p>${t("{name}, its secrets and its tokens will be removed for good. Its messages stay.", { name: displayName(agent) })}</p>
    <label class="check"><input type="checkbox" name="sessions" /> ${t("Delete its recorded sessions too")}</label>`,
    { action: "Remove", isDangerous: true },
    async (form) => {
      const withSessions = form.elements.sessions.checked;
      await remove(withQuery(url`/api/agents/${agent.id}`, { with_sessions: withSessions || undefined }));
      closeDialog();
      notify(t("{name} was removed.", { name: displayName(agent) }));
      await loadAgents();
      goTo("#/agents");
    },
  );
