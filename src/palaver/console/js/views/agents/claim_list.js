// @ts-check
// The files that agents and people hold, and a button that ends a claim. They are loaded again when somebody claims or
// frees files.

import { get, post } from "../../data/api.js";
import { on } from "../../data/events.js";
import { can } from "../../data/session.js";
import { soon } from "../../data/soon.js";
import { confirmDialog } from "../../ui/dialog.js";
import { projectName, shortTime, timeElement } from "../../ui/format.js";
import { html, nothing, redraw, repeat, rich, t } from "../../ui/templates.js";

/** @type {import("../../data/types.js").Claim[]} */
let claims = [];

export async function loadClaims() {
  claims = (await get("/api/claims")).claims;
  redraw();
}

async function endClaim(id) {
  try {
    await post("/api/claims/release", { claim_id: id });
  } finally {
    await loadClaims(); // also when it has ended meanwhile
  }
}

const reload = soon(() => loadClaims().catch(() => {}), 100);
for (const type of ["claim.new", "claim.ended", "reset"]) on(type, reload);

export function claimList() {
  if (!claims.length) return nothing;
  return html`<section class="claims"><h2>${t("Claimed files")}</h2>
    <ul class="plain">${repeat(claims, (one) => one.claim_id, claimLine)}</ul></section>`;
}

function claimLine(one) {
  const until = timeElement(one.expires_at, shortTime(one.expires_at));
  return html`<li><div>
      <code>${one.pattern}</code> <small>${projectName(one.project)}</small>
      <p>${rich(one.kind === "shared" ? "shared by {name} until {time}" : "held by {name} until {time}", { name: html`<b>${one.holder}</b>`, time: until })}${one.because ? html` · ${one.because}` : nothing}</p>
    </div>${can("write") ? html`<button type="button" @click=${() => askToEnd(one)}>${t("End claim")}</button>` : nothing}</li>`;
}

function askToEnd(one) {
  const text = t("{name} holds {pattern}. Others may edit these files then; an agent is told.", {
    name: one.holder,
    pattern: one.pattern,
  });
  confirmDialog(t("End claim"), text, "End claim", () => endClaim(one.claim_id));
}
