// Markdown, rendered by the server; while an answer comes, its newest words are plain text behind.
import { json } from "../base/api.js";
import { copyText, el, iconButton } from "../base/dom.js";
import { t } from "../base/words.js";

const EVERY = 200; // ms between two renderings of what grows
const known = new Map(); // text -> html
const MOST = 200;

export class Markdown {
  constructor() {
    this.element = el("div", { class: "markdown" });
    this.text = "";
    this.shown = ""; // what the HTML was made of
    this.busy = false;
    this.last = 0;
  }

  show(text, growing) {
    if (text === this.text && growing === this.growing) return;
    this.text = text;
    this.growing = growing;
    if (known.has(text)) this.put(text, known.get(text));
    else {
      this.showTail();
      this.renderSoon();
    }
  }

  renderSoon() {
    if (this.busy) return;
    this.busy = true;
    const wait = this.growing ? Math.max(0, this.last + EVERY - performance.now()) : 0;
    setTimeout(() => this.render(), wait);
  }

  async render() {
    const { text } = this;
    try {
      const { html } = await json("page/markdown", { method: "POST", body: { text } });
      if (!this.growing || text !== this.text) remember(text, html);
      this.last = performance.now();
      if (this.text.startsWith(text)) this.put(text, html);
    } catch {
      this.last = performance.now() + 1000; // the text stands there as it is
    }
    this.busy = false;
    if (this.text !== this.shown && (this.growing || !this.failed)) {
      this.failed = this.shown !== text;
      this.renderSoon();
    }
  }

  put(text, html) {
    this.shown = text;
    this.failed = false;
    const template = document.createElement("template");
    template.innerHTML = html; // of this server, which lets no tags of the model through
    for (const code of template.content.querySelectorAll(".code")) addCopy(code);
    // Each part runs as its first letters do; code and formulas run from left to right.
    for (const part of template.content.children) part.dir = "auto";
    for (const part of template.content.querySelectorAll(".code, code, .math, math")) part.dir = "ltr";
    this.element.replaceChildren(template.content);
    this.showTail();
  }

  /** Words that came since the last rendering. */
  showTail() {
    this.tail?.remove();
    const rest = this.text.startsWith(this.shown) ? this.text.slice(this.shown.length) : this.text;
    if (!this.text.startsWith(this.shown)) this.element.replaceChildren();
    if (!rest) return;
    let last = this.element.lastElementChild;
    while (last && /^(UL|OL|LI|BLOCKQUOTE)$/.test(last.tagName) && last.lastElementChild)
      last = last.lastElementChild;
    const place = last && /^(P|LI)$/.test(last.tagName) ? last : this.element;
    this.tail =
      place === this.element ? el("p", { class: "plain", dir: "auto" }, rest) : el("span", { class: "plain" }, rest);
    place.append(this.tail);
  }
}

function addCopy(code) {
  const text = code.querySelector("code").textContent;
  code
    .querySelector(".code-bar")
    .append(iconButton("copy", t("copyCode"), () => copyText(text.replace(/\n$/, ""))));
}

function remember(text, html) {
  known.set(text, html);
  if (known.size > MOST) known.delete(known.keys().next().value);
}
