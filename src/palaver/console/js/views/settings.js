// @ts-check
// The settings of this browser: theme, language, time format, density, notifications, and the name without login.

import { areNotificationsOn, hasNotifications, setNotifications } from "../data/notifications.js";
import { me, setName } from "../data/session.js";
import { settings } from "../data/settings.js";
import { theme } from "../data/storage.js";
import { choice } from "../ui/elements.js";
import { clockTime } from "../ui/format.js";
import { html, LANGUAGES, nothing, redraw, t } from "../ui/templates.js";

export const settingsView = {
  title: () => t("Settings"),
  isInner: () => true,
  enter: () => {},
  template: () => html`<main class="pane settings">
    <header class="head"><div class="name"><h1>${t("Settings")}</h1><p>${t("This browser keeps them.")}</p></div></header>
    <div class="scroll"><div class="page-body"><dl>
      ${me.needsLogin ? nothing : row("Name", "Shown with your messages.", nameField())}
      ${row("Theme", "System follows the settings of your device.", themeChoice())}
      ${row("Language", "Names, messages and errors of the server stay as they are.", languageChoice())}
      ${row("Time format", t("Now it is {time}.", { time: clockTime(new Date().toISOString()) }), clockChoice())}
      ${row("Density", "Compact shows more messages and threads at once.", densityChoice())}
      ${row("Notifications", "Show a message of the system when somebody mentions you or asks you, and this window is not in front.", notificationChoice())}
    </dl></div></div>
  </main>`,
};

const row = (title, text, control) => html`<div><dt>${t(title)}</dt><dd><p>${t(text)}</p>${control}</dd></div>`;

const options = (pairs) => pairs.map(([value, text]) => [value, t(text)]);

const settingChoice = (label, name, pairs) =>
  choice(t(label), options(pairs), settings.get(name), (value) => (settings.set(name, value), redraw()));

const nameField = () => html`<input aria-label=${t("Name")} maxlength="80" autocomplete="off" .value=${me.name}
  @change=${(event) => (setName(event.target.value), redraw())} />`;

const themeChoice = () =>
  choice(
    t("Theme"),
    options([
      ["system", "System"],
      ["light", "Light"],
      ["dark", "Dark"],
    ]),
    theme.choice,
    (value) => ((theme.choice = value), redraw()),
  );

const languageChoice = () =>
  choice(t("Language"), [["system", t("System")], ...Object.entries(LANGUAGES)], settings.get("language"), (value) =>
    settings.set("language", value),
  );

const clockChoice = () =>
  settingChoice("Time format", "clock", [
    ["system", "System"],
    ["24", "24 hours"],
    ["12", "12 hours"],
  ]);

const densityChoice = () =>
  settingChoice("Density", "density", [
    ["comfortable", "Comfortable"],
    ["compact", "Compact"],
  ]);

function notificationChoice() {
  if (!hasNotifications()) return html`<p class="hint">${t("This browser has no notifications.")}</p>`;
  return choice(
    t("Notifications"),
    [
      [false, t("Off")],
      [true, t("On")],
    ],
    areNotificationsOn(),
    setNotifications,
  );
}
