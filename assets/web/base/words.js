// The page's words in the language of the browser, or in the one that was chosen.
import en from "../words/en.js";
import ko from "../words/ko.js";
import { look, keepLook } from "./look.js";

const languages = { en, ko };
let code = languages[look.language]
  ? look.language
  : navigator.languages.find((one) => languages[one.slice(0, 2)])?.slice(0, 2) || "en";

export const language = () => code;

/** A text of the page, with its {names} filled in. */
export function t(key, values = {}) {
  const said = languages[code][key] ?? en[key] ?? key;
  return typeof said === "string" ? said.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole) : said;
}

export const count = (n) => Math.round(n).toLocaleString(code);
export const bytes = (n) =>
  n >= 1 << 30 ? `${(n / (1 << 30)).toFixed(1)} GiB` : `${(n / (1 << 20)).toFixed(0)} MiB`;
export const percent = (p) =>
  p >= 0.9995 ? "100%" : p < 0.0001 ? "<0.01%" : (p * 100).toFixed(p < 0.001 ? 2 : 1) + "%";

/** Say everything that stands in the page's HTML. */
export function fillWords(root = document) {
  document.documentElement.lang = code;
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of root.querySelectorAll("[data-t-placeholder]"))
    element.placeholder = t(element.dataset.tPlaceholder);
  for (const element of root.querySelectorAll("[data-t-label]")) {
    const label = t(element.dataset.tLabel);
    element.setAttribute("aria-label", label);
    if (element.tagName === "BUTTON") element.title = label;
  }
}

export function setLanguage(next) {
  code = languages[next] ? next : "en";
  keepLook({ language: code });
  fillWords();
  document.dispatchEvent(new Event("language"));
}
