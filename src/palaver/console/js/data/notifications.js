// @ts-check
// Messages of the system (browser notifications), for a window that is not in front.

import { notify } from "../ui/dialog.js";
import { redraw, t } from "../ui/templates.js";
import { settings } from "./settings.js";

export const hasNotifications = () => "Notification" in globalThis;
export const areNotificationsOn = () =>
  hasNotifications() && settings.get("notifications") && Notification.permission === "granted";

// Browsers ask for the permission only after a click.
export async function setNotifications(isOn) {
  if (isOn && (await Notification.requestPermission()) !== "granted") {
    notify(t("The browser does not allow notifications here."), { isError: true });
    isOn = false;
  }
  settings.set("notifications", isOn);
  redraw();
}

// A message of the system, if the user wants it and does not look at the console. The tag joins those of several windows.
export function notifySystem(title, { body, tag, hash }) {
  if (!settings.get("notifications") || document.hasFocus()) return;
  try {
    const shown = new Notification(title, { body, tag });
    shown.onclick = () => {
      window.focus();
      location.hash = hash;
    };
  } catch {
    // Phones have no such notifications.
  }
}
