// Elements, icons and small moments of the page: notes to a person, words for a screen reader.
import { t } from "./words.js";

const GLYPHS = {
  send: 0xe900,
  stop: 0xe901,
  regenerate: 0xe902,
  copy: 0xe903,
  "new-chat": 0xe906,
  trash: 0xe908,
  settings: 0xe909,
  sun: 0xe90b,
  moon: 0xe90c,
  check: 0xe921,
  close: 0xe922,
  down: 0xe924,
  left: 0xe925,
  right: 0xe926,
  search: 0xe927,
  pin: 0xe92c,
  edit: 0xe92d,
  sparkles: 0xe936,
  sidebar: 0xe93a,
  grid: 0xe915,
  panel: 0xe946,
  inspect: 0xe948,
  lens: 0xe94d,
  keyboard: 0xe94a,
};

export const $ = (id) => document.getElementById(id);

/** el("button", { class: "x", onclick, "aria-label": "…" }, "text", other) */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "icon") setIcon(made, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Whether a key is a part of what an input method composes. Safari ends a composition before its
 * Enter, which then has the code 229 alone. */
export const composes = (event) => event.isComposing || event.keyCode === 229;

export function setIcon(element, name) {
  element.dataset.icon = name;
  element.dataset.glyph = String.fromCodePoint(GLYPHS[name]);
}

export function fillIcons() {
  for (const element of document.querySelectorAll("[data-icon]")) setIcon(element, element.dataset.icon);
}

export const icon = (name) => el("span", { class: "icon", icon: name, "aria-hidden": "true" });

/** A button that is an icon: its name is told to a screen reader and shown under the pointer. */
export const iconButton = (name, label, onclick, more = {}) =>
  el("button", {
    type: "button",
    class: "icon-button small",
    icon: name,
    "aria-label": label,
    title: label,
    onclick,
    ...more,
  });

/** Colours and sizes that follow from values; the policy allows no styles in HTML. */
export function styled(element, styles) {
  Object.assign(element.style, styles);
  return element;
}

/** Words that only a screen reader says. */
export function announce(words) {
  const place = $("announce");
  place.textContent = "";
  setTimeout(() => (place.textContent = words), 50);
}

let toastEnds = 0;
/** A note that goes by itself; `action` is [label, function]. */
export function toast(words, action) {
  const place = $("toast");
  place.replaceChildren(el("span", {}, words));
  if (action)
    place.append(
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            place.hidden = true;
            action[1]();
          },
        },
        action[0],
      ),
    );
  place.hidden = false;
  clearTimeout(toastEnds);
  toastEnds = setTimeout(() => (place.hidden = true), action ? 8000 : 3500);
}

/** A dialog of its own; `body` gets the form. Resolves when it is closed, with its returnValue. */
export function openDialog(title, fill, options = {}) {
  const heading = el("h2", { id: "dialog-title" }, title);
  const form = el(
    "form",
    { method: "dialog" },
    el(
      "div",
      { class: "dialog-top" },
      heading,
      options.closable === false ? null : iconButton("close", t("close"), () => dialog.close()),
    ),
  );
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  fill(form, dialog);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    }),
  );
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t("copied"));
  } catch {
    toast(t("notCopied"));
  }
}
