// @ts-check
// Administration: the people and agents with a token, the workspaces, and the ways to applications and the audit log.

import { me } from "../../data/session.js";
import { icon } from "../../ui/elements.js";
import { html, nothing, t } from "../../ui/templates.js";
import { loadTokens, tokensSection } from "./tokens.js";

export const administrationView = {
  title: () => t("Administration"),
  isInner: () => true,
  enter: () => loadTokens(),
  retry: () => loadTokens(),
  template: () => html`<main class="pane administration">
    <header class="head"><div class="name"><h1>${t("Administration")}</h1><p>${t("workspace {name}", { name: me.workspace })}</p></div>
      ${me.needsLogin ? html`<a class="button" href="#/applications">${icon("agents")} ${t("Connected applications")}</a>` : nothing}
      <a class="button" href="#/log">${icon("clock")} ${t("Audit log")}</a></header>
    <div class="scroll"><div class="page-body wide">${tokensSection()}</div></div>
  </main>`,
};
