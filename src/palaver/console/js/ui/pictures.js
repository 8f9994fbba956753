// @ts-check
// A click on a picture (a.picture) opens it large, in the console. With a modifier key it opens in a new tab, as links do.

import { assetUrl } from "../assets.js";
import { notifyError } from "./dialog.js";

document.addEventListener("click", (event) => {
  const { target, ctrlKey, metaKey, shiftKey, altKey } = event;
  const picture = /** @type {Element} */ (target).closest?.("a.picture");
  if (!picture || ctrlKey || metaKey || shiftKey || altKey) return;
  event.preventDefault();
  const around = picture.closest(".message, .page-body, .prose") ?? document;
  const pictures = [...around.querySelectorAll("a.picture")];
  const images = pictures.map((one) => ({
    url: one.getAttribute("href"),
    name: one.querySelector("img")?.alt || "",
  }));
  import(assetUrl("js/views/lightbox.js"))
    .then(({ openLightbox }) => openLightbox(images, pictures.indexOf(picture)))
    .catch(notifyError);
});

// Attributes of a link to a picture.
export const PICTURE = { class: "picture", target: "_blank", rel: "noopener" };
