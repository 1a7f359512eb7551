// X-ray: the tokens of an answer, tinted by how likely they were or by where one of them looks.
import { $, el, styled } from "../base/dom.js";
import { isDark } from "../base/look.js";
import { percent, t } from "../base/words.js";
import { bars, largest } from "./bars.js";
import { headSelect, hideFirst, layerSelect, where } from "./choices.js";
import { attentionTint, legendCanvas, likelihoodTint } from "./colors.js";
import { attentionRow } from "./glass.js";
import { named, subject, trimmed, visible } from "./subject.js";

const LOOKING = 60; // ms that a pointer rests before a row is asked for

export class XRay {
  constructor() {
    this.on = false;
    this.tint = "likelihood";
    this.place = $("tokens");
    this.card = $("card");
    this.spans = [];
    this.row = null;
    subject.addEventListener("answer", () => this.draw());
    subject.addEventListener("choice", () => {
      this.drawBar();
      this.mark();
      this.look(this.at ?? subject.position);
    });
    document.addEventListener("language", () => this.draw());
    document.addEventListener("theme", () => this.paint());
    this.place.addEventListener("pointerover", (event) => this.over(event));
    this.place.addEventListener("pointerleave", () => this.leave());
    this.place.addEventListener("click", (event) => this.click(event));
    this.place.addEventListener("focusin", (event) => this.focus(event));
    this.place.addEventListener("focusout", () => this.hideCard());
    this.place.addEventListener("keydown", (event) => this.key(event));
    $("scroll").addEventListener(
      "scroll",
      () => this.cardOf && this.put(this.cardOf.getBoundingClientRect()),
      { passive: true },
    );
  }

  show(on) {
    this.on = on;
    $("xray-switch").setAttribute("aria-pressed", String(on));
    $("xray-bar").hidden = this.place.hidden = !on;
    $("messages").hidden = on;
    if (!on) this.hideCard();
    this.draw();
  }

  /** More tokens of an answer that is being written. */
  grow() {
    if (!this.on || subject.state !== "live") return;
    const { tokens } = subject.message;
    if (!this.stream) this.draw();
    else {
      const texts = tokens.map(({ text }) => text);
      for (let at = this.spans.length; at < tokens.length; at++)
        this.stream.append(this.span(texts, at, tokens[at]));
    }
  }

  draw() {
    this.drawBar();
    this.hideCard();
    if (!this.on) return;
    this.spans = [];
    this.at = null;
    this.stream = null;
    const { message, tokens } = subject;
    const own = message?.tokens || [];
    if (!message) this.place.replaceChildren(el("p", { class: "empty" }, t("nothingYet")));
    else if (tokens) this.drawWhole(tokens, own);
    else if (own.length || message.live) {
      const texts = own.map(({ text }) => text);
      const note = subject.state === "gone" ? el("p", { class: "hint" }, t(subject.goneWords)) : null;
      this.stream = el(
        "div",
        { class: "stream" },
        ...own.map((token, at) => this.span(texts, at, token)),
      );
      this.place.replaceChildren(el("h2", {}, t("answer")), this.stream, ...(note ? [note] : []));
    } else
      this.place.replaceChildren(
        el("p", { class: "empty" }, t(subject.state === "loading" ? "loading" : "noTokens")),
      );
    this.rove(this.spans.length - 1);
    this.mark();
    this.look(subject.position);
  }

  /** All that the model read and said: its positions are those of its maps. */
  drawWhole({ texts, prompt_tokens: begin }, own) {
    const part = (name, from, to, kind) => [
      el("h2", {}, `${t(name)} · ${t("tokensOf", { n: to - from })}`),
      el(
        "div",
        { class: kind },
        ...texts.slice(from, to).map((_, at) => this.span(texts, from + at, own[from + at - begin])),
      ),
    ];
    this.place.replaceChildren(
      el("p", { class: "hint" }, t(matchMedia("(hover: none)").matches ? "lookAtTouch" : "lookAt")),
      ...part("prompt", 0, begin, "stream prompt"),
      ...part("answer", begin, texts.length, "stream"),
    );
  }

  span(texts, at, judged) {
    const isPart = texts[at] === ""; // of a character, which stands at its last token
    const span = el(
      "span",
      { class: isPart ? "tok part" : "tok", role: "button", tabindex: "-1", "data-at": at },
      isPart ? "" : visible(texts[at]).replaceAll("↵", "↵\n"),
    );
    span.judged = judged;
    span.texts = texts;
    const text = named(texts, at);
    span.setAttribute("aria-label", judged ? t("xrayToken", { text, p: percent(judged.p || 0) }) : text);
    if (this.tint === "likelihood" && judged)
      styled(span, { backgroundColor: likelihoodTint(judged.p) || "" });
    this.spans.push(span);
    return span;
  }

  /** Tints of all tokens: of a row of attention, or of how likely each was. */
  paint() {
    const { row } = this;
    const dark = isDark();
    const rest = row?.slice(subject.hideFirst ? 1 : 0) || [];
    const most = Math.max(...[...rest].sort((a, b) => b - a).slice(1, 2), 1e-6); // the second: one often has nearly all
    this.spans.forEach((span, at) => {
      const tint =
        this.tint === "attention" && row && !(subject.hideFirst && at === 0)
          ? attentionTint(Math.min(1, (row[at] || 0) / most), dark)
          : null;
      const ground = this.tint === "likelihood" && span.judged ? likelihoodTint(span.judged.p) : tint?.ground;
      styled(span, { backgroundColor: ground || "" });
      for (const name of ["dark-on", "light-on"]) span.classList.toggle(name, tint?.text === name);
    });
    const scale = $("xray-bar").querySelector(".scale");
    if (scale) scale.textContent = row ? t("ofAttention", { p: percent(most) }) : "";
  }

  mark() {
    if (!this.on) return;
    for (const span of this.spans)
      span.classList.toggle(
        "pinned",
        Boolean(subject.tokens) && Number(span.dataset.at) === subject.position,
      );
  }

  /** Where a position looks, in the tints and in the card. */
  look(at) {
    clearTimeout(this.timer);
    this.at = at;
    if (!this.on || !subject.tokens || at === null || at === undefined) {
      this.row = null;
      this.paint();
      return;
    }
    const { tokens } = subject;
    this.timer = setTimeout(async () => {
      if (subject.tokens !== tokens) return; // another answer by now
      const row = await attentionRow(subject.message.response, subject.layer, subject.allHeads, at).catch(
        () => null,
      );
      if (this.at !== at || !this.on || subject.tokens !== tokens) return;
      this.row = row;
      this.paint();
      if (this.cardOf && Number(this.cardOf.dataset.at) === at) this.showCard(this.cardOf);
    }, LOOKING);
  }

  over(event) {
    const span = event.target.closest?.(".tok");
    if (!span || span === this.cardOf) return;
    this.showCard(span);
    this.look(Number(span.dataset.at));
  }

  leave() {
    this.hideCard();
    if (this.on) this.look(subject.position);
  }

  click(event) {
    const span = event.target.closest?.(".tok");
    if (span) this.pin(span);
  }

  pin(span) {
    this.rove(this.spans.indexOf(span));
    if (subject.tokens) subject.choose({ position: Number(span.dataset.at) });
    span.focus({ preventScroll: true });
  }

  focus(event) {
    const span = event.target.closest?.(".tok");
    if (!span) return;
    this.showCard(span);
    this.look(Number(span.dataset.at));
  }

  key(event) {
    const at = this.spans.indexOf(document.activeElement);
    if (at < 0) return;
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      Home: 0,
      End: this.spans.length - 1,
      ArrowUp: this.lineFrom(at, -1),
      ArrowDown: this.lineFrom(at, 1),
    }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.pin(this.spans[at]);
    }
    if (event.key === "Escape" && !this.card.hidden) {
      event.stopPropagation();
      this.hideCard();
    }
    if (to === undefined || !this.spans[to]) return;
    event.preventDefault();
    this.rove(to);
    this.spans[to].focus();
  }

  /** The token nearest above or below. */
  lineFrom(at, step) {
    const { left, top } = this.spans[at].getBoundingClientRect();
    let best = at;
    let line = null;
    for (let to = at + step; this.spans[to]; to += step) {
      const place = this.spans[to].getBoundingClientRect();
      if (Math.abs(place.top - top) < 4) continue;
      if (line !== null && Math.abs(place.top - line) > 4) break;
      line ??= place.top;
      if (
        best === at ||
        Math.abs(place.left - left) < Math.abs(this.spans[best].getBoundingClientRect().left - left)
      )
        best = to;
    }
    return best;
  }

  /** One token is in the order of Tab; arrows go on from there. */
  rove(at) {
    this.spans[this.roving]?.setAttribute("tabindex", "-1");
    this.roving = Math.max(0, at);
    this.spans[this.roving]?.setAttribute("tabindex", "0");
  }

  showCard(span) {
    this.cardOf?.removeAttribute("aria-describedby");
    this.cardOf = span;
    span.setAttribute("aria-describedby", "card");
    const at = Number(span.dataset.at);
    const { judged } = span;
    const facts =
      judged && judged.p === judged.p ? t("tokenLikely", { at, p: percent(judged.p) }) : t("tokenAt", { at });
    const parts = [
      el("h3", {}, span.texts[at] === "" ? named(span.texts, at) : `“${named(span.texts, at)}”`),
      el("p", {}, facts),
    ];
    if (judged?.top.length) {
      parts.push(
        el("h4", {}, t("likeliest")),
        bars(judged.top.map(({ text, p }) => ({ text: trimmed(text), p, is: text === judged.own }))),
      );
    }
    if (this.row && this.at === at) {
      parts.push(
        el("h4", {}, `${t("lookMost")} · ${where()}`),
        bars(
          largest(this.row, 5, subject.hideFirst).map(({ p, at: to }) => ({
            p,
            text: subject.textAt(to),
            aside: to,
          })),
        ),
      );
    }
    this.card.replaceChildren(...parts);
    this.card.hidden = false;
    this.put(span.getBoundingClientRect());
  }

  /** Below the token, or above where there is no room. */
  put(place) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const { right } = $("scroll").getBoundingClientRect();
    const left = Math.max(12, Math.min(place.left, right - width - 12));
    const below = place.bottom + 8 + height < innerHeight - 8;
    styled(this.card, {
      left: `${left}px`,
      top: `${below ? place.bottom + 8 : Math.max(8, place.top - 8 - height)}px`,
    });
  }

  hideCard() {
    this.cardOf?.removeAttribute("aria-describedby");
    this.cardOf = null;
    this.card.hidden = true;
  }

  drawBar() {
    if (!this.on) return;
    const bar = $("xray-bar");
    const whole = subject.state === "whole";
    const segment = (name) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": String(this.tint === name),
          disabled: name === "attention" && !whole,
          onclick: () => {
            this.tint = name;
            this.drawBar();
            this.paint();
          },
        },
        t(name),
      );
    const parts = [
      el(
        "span",
        { class: "segments", role: "group", "aria-label": t("tint") },
        segment("likelihood"),
        segment("attention"),
      ),
    ];
    const focus = bar.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    if (this.tint === "likelihood") {
      parts.push(
        el("span", { class: "legend" }, t("unlikely"), el("i", { class: "likelihoods" }), t("likely")),
      );
    } else
      parts.push(
        layerSelect(),
        headSelect(),
        hideFirst(),
        el("span", { class: "legend" }, "0", legendCanvas(), el("span", { class: "scale" })),
      );
    bar.replaceChildren(...parts);
    if (focus) bar.querySelector(`[data-name="${focus}"]`)?.focus();
    this.paint();
  }
}
