// @ts-check
// Store the text of a web page or document by its address.

import { post } from "../../data/api.js";
import { goTo, linkToDocument } from "../../route.js";
import { notify, promptDialog } from "../../ui/dialog.js";
import { t } from "../../ui/templates.js";

export const addFromAddress = () =>
  promptDialog(
    t("Add from address"),
    { label: t("Address of a web page or document"), action: t("Add"), type: "url", maxLength: 1000 },
    async (address) => {
      const { source, id, outcome } = await post("/api/media/fetch", { url: address });
      notify(t(outcome === "unchanged" ? "It is in the library already." : "Added."));
      goTo(linkToDocument(source, id));
    },
  );
