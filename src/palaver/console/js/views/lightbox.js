// @ts-check
// A picture in full size, over the page. Arrow keys show the other pictures of the same message.

import { closeDialog, openDialog } from "../ui/dialog.js";
import { icon } from "../ui/elements.js";
import { html, nothing, redraw, t } from "../ui/templates.js";

export function openLightbox(images, start) {
  let current = Math.max(0, start);
  const move = (step) => {
    current = (current + step + images.length) % images.length;
    redraw();
  };
  const onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && images.length > 1) event.preventDefault(), move(step);
  };
  const arrow = (label, name, step) =>
    images.length > 1
      ? html`<button type="button" class="quiet ${name}" aria-label=${label} title=${label} @click=${() => move(step)}>${icon("back")}</button>`
      : nothing;
  openDialog(
    t("Picture"),
    () => {
      const { url, name } = images[current];
      return html`<figure @keydown=${onKey}>
        <figcaption><span>${name}${images.length > 1 ? html` <small>${t("{n} of {count}", { n: current + 1, count: images.length })}</small>` : nothing}</span>
          <a class="quiet" href=${url} download=${name || "picture"} aria-label=${t("Download")} title=${t("Download")}>${icon("download")}</a>
          <button type="button" class="quiet" autofocus aria-label=${t("Close")} @click=${closeDialog}>${icon("close")}</button></figcaption>
        <div class="stage" @click=${(event) => event.target === event.currentTarget && closeDialog()}>
          ${arrow(t("Previous picture"), "before", -1)}<img src=${url} alt=${name} />${arrow(t("Next picture"), "after", 1)}</div>
      </figure>`;
    },
    { className: "lightbox" },
  );
}
