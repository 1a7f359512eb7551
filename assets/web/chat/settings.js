// Two dialogs: settings, and the list of keys.
import { look, setTheme } from "../base/look.js";
import { el, openDialog } from "../base/dom.js";
import { language, setLanguage, t } from "../base/words.js";
import { keepSampling, sampling, usual } from "./sampling.js";

/** What is set holds from the next answer on. */
export function openSettings(conversation) {
  return openDialog(t("settings"), (form, dialog) => {
    const reset = el(
      "button",
      {
        type: "button",
        class: "button plain",
        onclick: () => {
          keepSampling(usual);
          dialog.close("again");
        },
      },
      t("reset"),
    );
    form.append(
      el(
        "div",
        { class: "dialog-body" },
        el("h3", {}, t("sampling")),
        slider("temperature", t("temperature"), t("temperatureHint"), 0, 2, 0.05),
        slider("top_p", t("topP"), t("topPHint"), 0.05, 1, 0.05),
        el(
          "div",
          { class: "two" },
          whole("max_tokens", t("maxTokens"), "", 1),
          whole("seed", t("seed"), t("seedHint"), 0),
        ),
        prompt(conversation),
        el("h3", {}, t("look_")),
        el(
          "div",
          { class: "two" },
          choice(
            "theme",
            t("theme"),
            { "": t("themeSystem"), light: t("themeLight"), dark: t("themeDark") },
            look.theme || "",
            setTheme,
          ),
          choice("language", t("languageName"), { en: "English", ko: "한국어" }, language(), (code) => {
            setLanguage(code);
            dialog.close("again");
          }),
        ),
      ),
      el("div", { class: "dialog-end" }, reset, el("button", { class: "button", value: "done" }, t("done"))),
    );
  }).then((how) => (how === "again" ? openSettings(conversation) : undefined));
}

function setting(id, label, hint, field, value = null) {
  field.id = `set-${id}`;
  if (hint) field.setAttribute("aria-describedby", `hint-${id}`);
  return el(
    "div",
    { class: "setting" },
    el("label", { for: field.id }, label, value),
    field,
    hint ? el("span", { class: "hint", id: `hint-${id}` }, hint) : null,
  );
}

function slider(name, label, hint, min, max, step) {
  const field = el("input", { type: "range", min, max, step });
  const value = el("output");
  const show = () => (value.textContent = Number(field.value).toFixed(2));
  field.value = sampling[name];
  field.addEventListener("input", () => {
    keepSampling({ [name]: Number(field.value) });
    show();
  });
  show();
  return setting(name, label, hint, field, value);
}

function whole(name, label, hint, least) {
  const field = el("input", { type: "number", class: "field", min: least, step: 1, inputmode: "numeric" });
  field.value = sampling[name] ?? "";
  field.addEventListener("change", () => {
    const value =
      field.value === "" ? usual[name] : Math.max(least, Math.round(Number(field.value)) || least);
    field.value = value ?? "";
    keepSampling({ [name]: value });
  });
  return setting(name, label, hint, field);
}

/** Of the open conversation, and of those that are begun from now on. */
function prompt(conversation) {
  const field = el("textarea", { class: "field", dir: "auto", rows: "3" });
  field.value = conversation.systemPrompt;
  field.addEventListener("change", () => {
    keepSampling({ system_prompt: field.value });
    conversation.setSystemPrompt(field.value);
  });
  return setting("prompt", t("systemPrompt"), t("systemPromptHint"), field);
}

function choice(id, label, options, chosen, change) {
  const field = el(
    "select",
    { class: "field" },
    ...Object.entries(options).map(([value, name]) => el("option", { value }, name)),
  );
  field.value = chosen;
  field.addEventListener("change", () => change(field.value));
  return setting(id, label, "", field);
}

export function openKeys() {
  const rows = [
    [["Enter"], "keySend"],
    [["Shift", "Enter"], "keyBreak"],
    [["Esc"], "keyEscape"],
    [["/"], "keySay"],
    [["Alt", "N"], "keyNew"],
    [["Alt", "X"], "keyXray"],
    [["Alt", "I"], "keyInside"],
    [["Alt", "B"], "keyList"],
    [["←", "→", "↑", "↓"], "keyArrows"],
    [["?"], "keyHelp"],
  ];
  return openDialog(t("shortcuts"), (form) =>
    form.append(
      el(
        "div",
        { class: "dialog-body" },
        el(
          "dl",
          { class: "keys" },
          ...rows.flatMap(([keys, what]) => [
            el("dt", {}, ...keys.map((key) => el("kbd", {}, key))),
            el("dd", {}, t(what)),
          ]),
        ),
      ),
    ),
  );
}
