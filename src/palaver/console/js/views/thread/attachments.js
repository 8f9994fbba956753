// @ts-check
// Attached files: cards with name, type and size. A click downloads the file; the browser never shows it.

import { fileSize } from "../../ui/format.js";
import { icon } from "../../ui/elements.js";
import { html, nothing, t } from "../../ui/templates.js";

const UPLOADED = /^\/uploads\/[\w.-]+$/;

// The files of a message that the server stores. A message from a program may contain anything.
export const attachedFiles = (metadata) =>
  (Array.isArray(metadata?.files) ? metadata.files : [])
    .filter((file) => UPLOADED.test(file?.url ?? ""))
    .map(({ url, name, type, size }) => ({
      url,
      name: String(name ?? t("File")),
      type: String(type ?? ""),
      size: Number.isFinite(size) ? size : null,
    }));

// "PDF" of application/pdf and report.pdf
function kindOf({ name, type }) {
  const ending = name.match(/\.(\w{1,8})$/)?.[1];
  return (ending ?? type.split("/").at(-1) ?? "").toUpperCase();
}

/** @type {(file: any, more?: unknown) => unknown} */
const fileCard = (file, more = nothing) => html`<span class="file">
  <a href=${file.url} download=${file.name} title=${t("Download {name}", { name: file.name })}>${icon("file")}
    <span><b>${file.name}</b><small>${[kindOf(file), file.size === null ? "" : fileSize(file.size)].filter(Boolean).join(" · ")}</small></span></a>${more}</span>`;

export const fileCards = (files, more = (_file) => /** @type {unknown} */ (nothing)) =>
  files.length ? html`<div class="files">${files.map((file) => fileCard(file, more(file)))}</div>` : nothing;
