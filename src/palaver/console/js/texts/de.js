// @ts-check
// The German texts of the console, by their English text.

/** @type {Record<string, string>} */
export const texts = {
  Settings: "Einstellungen",
};
