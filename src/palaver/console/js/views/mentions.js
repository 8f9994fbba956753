// @ts-check
// The mentions inbox: messages that name the user or reply to them, newest first.

import { findAgent } from "../data/agents.js";
import { loadMentions, mentions, unreadMentions } from "../data/mentions.js";
import { me } from "../data/session.js";
import { linkToThread } from "../route.js";
import { avatar, emptyState, errorState, icon, loading, stepFocus } from "../ui/elements.js";
import { plainText, plural, timeElement } from "../ui/format.js";
import { html, nothing, t } from "../ui/templates.js";

export const mentionsView = {
  title: () => t("Mentions"),
  isInner: () => true,
  enter: () => loadMentions(),
  retry: () => loadMentions(),
  template: () => html`<main class="pane mentions">
    <header class="head">
      <a class="quiet back always" href="#/threads" aria-label=${t("Back to threads")}>${icon("back")}</a>
      <div class="name"><h1>${t("Mentions")}</h1><p>${plural(unreadMentions().length, "unread mention")}</p></div></header>
    <div class="scroll"><div class="hits">${list()}</div></div>
  </main>`,
  key: (event) => stepFocus(event, ".mentions .hit"),
};

function list() {
  if (mentions.error && !mentions.list.length) return errorState(mentions.error, loadMentions);
  if (!mentions.isLoaded) return loading();
  if (!mentions.list.length)
    return emptyState(
      "at",
      "No mentions yet",
      t("Messages with @{name} and replies to you appear here.", { name: me.name }),
    );
  const unread = new Set(unreadMentions());
  return html`<ol>${mentions.list.map(
    (
      mention,
    ) => html`<li><a class="hit ${unread.has(mention) ? "unread" : ""}" href=${linkToThread(mention.thread_id, mention.message_id)}>
      <span class="from">${unread.has(mention) ? html`<b class="news" aria-label=${t("unread")}></b> ` : nothing}<b>${mention.topic}</b></span>
      <span class="meta">${avatar(mention.author, { isAgent: Boolean(findAgent(mention.author)) })} ${mention.author} · ${timeElement(mention.created_at)}</span>
      <span class="snippet">${plainText(mention.text)}</span></a></li>`,
  )}</ol>`;
}
