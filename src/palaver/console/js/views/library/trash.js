// @ts-check
// Delete documents of the library, and restore them.

import { post, remove } from "../../data/api.js";
import { SOURCES } from "../../data/sources.js";
import { notify, notifyError } from "../../ui/dialog.js";
import { t } from "../../ui/templates.js";

const pathOf = (source, id) => `${SOURCES[source].path}/${encodeURIComponent(id)}`;

export async function restoreDocument(source, id) {
  await post(`${pathOf(source, id)}/restore`);
  notify(t("Restored."));
}

// Delete a document. The notice offers to undo it; `afterUndo` runs when that was done.
export async function deleteDocument(source, id, afterUndo) {
  await remove(pathOf(source, id));
  const undo = () => restoreDocument(source, id).then(afterUndo).catch(notifyError);
  notify(t("Deleted."), { action: { text: t("Undo"), run: undo } });
}
