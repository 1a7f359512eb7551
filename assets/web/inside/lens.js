// The logit lens: what each layer would say next behind the chosen position.
import { $, el, icon, styled } from "../base/dom.js";
import { percent, t } from "../base/words.js";
import { lensOf } from "./glass.js";
import { subject, trimmed } from "./subject.js";

export class Lens {
  constructor() {
    this.place = $("panel-lens");
    this.shown = false;
    for (const name of ["answer", "choice"]) subject.addEventListener(name, () => this.draw());
    document.addEventListener("language", () => this.draw());
  }

  show(shown) {
    this.shown = shown;
    this.draw();
  }

  async draw() {
    if (!this.shown) return;
    if (subject.state !== "whole") {
      const words = { none: "nothingYet", gone: subject.goneWords, live: "answering", loading: "loading" };
      this.place.replaceChildren(
        el("div", { class: "empty" }, icon("lens"), el("p", {}, t(words[subject.state]))),
      );
      return;
    }
    const { position, message, tokens } = subject;
    const face = `${message.response}/${position}/${document.documentElement.lang}`;
    if (face === this.face && this.place.querySelector(".lens")) return;
    this.face = face;
    const layers = await lensOf(message.response, position).catch((error) => error);
    if (this.face !== face || !this.shown) return;
    const next = tokens.texts[position + 1];
    const words = [t("lensHint", { text: subject.textAt(position), at: position })];
    if (next !== undefined) words.push(t("lensNext", { next: subject.textAt(position + 1) }));
    const body = layers instanceof Error ? el("p", { class: "hint" }, layers.message) : table(layers, next);
    this.place.replaceChildren(
      el(
        "section",
        { class: "part" },
        el("h2", {}, t("lensTitle")),
        el("p", { class: "hint" }, words.join(" ")),
        body,
      ),
    );
  }
}

function table(layers, next) {
  const rows = [...layers]
    .reverse()
    .map(({ layer, tokens }) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, `L${layer}`),
        ...tokens.map(({ text, p }) =>
          el(
            "td",
            { class: text === next ? "is" : null },
            styled(el("i", { "aria-hidden": "true" }), { width: `${p * 100}%` }),
            el("span", {}, el("b", {}, trimmed(text)), el("em", {}, short(p))),
          ),
        ),
      ),
    );
  return el("table", { class: "lens", "aria-label": t("lensTitle") }, el("tbody", {}, ...rows));
}

const short = (p) => (p < 0.01 ? percent(p) : `${Math.round(p * 100)}%`);
