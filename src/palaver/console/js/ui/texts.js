// @ts-check
// Texts in the language of the viewer. The English text is the key: t("Save"). js/texts/ has one file for each other
// language, with all texts of the console.

/** @type {{code: string, texts: Record<string, string>}} */
export const language = { code: "en", texts: {} };

// A text, with {name} replaced by values.name.
/** @type {(text: string, values?: Record<string, unknown>) => string} */
export function t(text, values = {}) {
  const found = language.texts[text] ?? text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// The same, with values that may be templates. Returns the parts for a template.
/** @type {(text: string, values: Record<string, unknown>) => unknown[]} */
export const rich = (text, values) =>
  (language.texts[text] ?? text).split(/\{(\w+)\}/).map((part, i) => (i % 2 ? values[part] : part));

export const LANGUAGES = { en: "English", de: "Deutsch" };

// The language that is chosen, or else the first one of the browser that the console knows.
export function preferredLanguage(chosen) {
  if (chosen in LANGUAGES) return chosen;
  const known = navigator.languages.map((one) => one.split("-")[0]).find((one) => one in LANGUAGES);
  return known ?? "en";
}
