// The conversation that is open, and the field below it.
import { $, announce, composes, el, setIcon, toast } from "../base/dom.js";
import { percent, t } from "../base/words.js";
import { MessageView } from "./message.js";

const NEAR = 80; // pixels from the end: there, what comes is followed
const LONGEST_ALOUD = 2000; // characters of an answer that a screen reader is given

export class ChatView {
  /** `app` has model, conversation, context and look(message). */
  constructor(app) {
    this.app = app;
    this.views = new Map();
    this.place = $("messages");
    this.scroll = $("scroll");
    this.field = $("say");
    this.follow = true;
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.field.addEventListener("input", () => this.fit());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !composes(event)) {
        event.preventDefault();
        if (!this.conversation.busy) this.submit();
      }
    });
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
    $("to-end").addEventListener("click", () => this.toEnd());
    document.addEventListener("language", () => this.open(this.conversation));
  }

  open(conversation) {
    const listen = (one, on) => {
      for (const name of ["change", "busy", "problem"]) one[on](name, this.heard);
    };
    this.heard ??= (event) => this[event.type](event.detail);
    if (this.conversation) listen(this.conversation, "removeEventListener");
    this.conversation = conversation;
    listen(conversation, "addEventListener");
    this.views.clear();
    this.follow = true;
    this.draw();
    this.busy();
    this.toEnd();
  }

  draw() {
    const { messages } = this.conversation;
    const shown = messages.filter((message) => message.role !== "system");
    if (!shown.length) {
      this.views.clear();
      this.place.replaceChildren(this.welcome());
      return;
    }
    const elements = shown.map((message) => this.viewOf(message).element);
    const same =
      elements.length === this.place.children.length &&
      elements.every((one, at) => one === this.place.children[at]);
    if (!same) this.place.replaceChildren(...elements);
  }

  viewOf(message) {
    let view = this.views.get(message.key);
    if (!view) {
      view = new MessageView(message, {
        regenerate: (which) => this.attempt(() => this.conversation.regenerate(which, this.app.modelName)),
        edit: (which, text) => this.attempt(() => this.conversation.edit(which, text, this.app.modelName)),
        select: (version) => this.attempt(() => this.conversation.select(version)),
        look: (which) => this.app.look(which),
      });
      this.views.set(message.key, view);
    }
    view.message = message;
    view.update(this.conversation.busy);
    return view;
  }

  welcome() {
    if (!this.app.status) return el("div", { class: "welcome" }); // it is not known yet what runs
    const examples = t("examples").map((text) =>
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            this.field.value = text;
            this.fit();
            this.field.focus();
          },
        },
        text,
      ),
    );
    const model = this.app.modelName;
    return el(
      "div",
      { class: "welcome" },
      el("h2", {}, model ? t("welcome") : t("noModel")),
      el("p", { class: "muted" }, model ? t("welcomeModel", { model }) : t("noModelHint")),
      model ? el("div", { class: "examples" }, ...examples) : null,
    );
  }

  /** A part of an answer, or anything (null). Drawn once a frame. */
  change(message) {
    if (!message) this.whole = true;
    else (this.late ??= new Set()).add(message);
    this.frame ??= requestAnimationFrame(() => this.drawLate());
  }

  drawLate() {
    this.frame = null;
    if (this.whole) this.draw();
    for (const message of this.late || []) {
      if (this.conversation.messages.includes(message)) this.viewOf(message);
    }
    this.whole = false;
    this.late = null;
    if (this.follow) this.toEnd();
    this.app.changed();
  }

  /** An answer began or ended. */
  busy() {
    const { busy } = this.conversation;
    setIcon($("send"), busy ? "stop" : "send");
    const label = t(busy ? "stop" : "send");
    $("send").setAttribute("aria-label", label);
    $("send").title = label;
    this.fit();
    for (const view of this.views.values()) view.update(busy);
    if (busy !== this.wasBusy) this.aloud(busy);
    this.wasBusy = busy;
    this.app.changed();
  }

  /** A screen reader is told that an answer begins, and then all of it at once: not word by word. */
  aloud(busy) {
    const last = this.conversation.lastAnswer;
    if (busy) announce(t("answering"));
    else if (last && this.wasBusy)
      announce(
        last.reason === "stopped"
          ? t("stoppedAloud")
          : t("answered", { text: last.text.slice(0, LONGEST_ALOUD) }),
      );
  }

  problem() {
    this.app.notice(t("notKept", { why: this.conversation.problem }));
  }

  submit() {
    if (this.conversation.busy) {
      this.conversation.stop();
      return;
    }
    const text = this.field.value.trim();
    if (!text || !this.app.modelName) return;
    this.field.value = "";
    this.fit();
    this.follow = true;
    this.attempt(() => this.conversation.send(text, this.app.modelName));
  }

  async attempt(what) {
    try {
      await what();
    } catch (error) {
      toast(t("failed", { why: error.message }));
    }
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
    $("send").disabled = !this.conversation?.busy && (!this.field.value.trim() || !this.app.modelName);
  }

  /** Of the context, what the last answer took. */
  showContext() {
    const usage = this.conversation.lastAnswer?.usage;
    const used =
      usage && this.app.context ? (usage.prompt_tokens + usage.completion_tokens) / this.app.context : 0;
    $("context").textContent = used ? t("contextUsed", { percent: percent(used) }) : "";
  }

  scrolled() {
    const rest = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight;
    this.follow = rest < NEAR;
    $("to-end").hidden = rest < 3 * NEAR || this.place.hidden;
  }

  toEnd() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.scrolled();
  }
}
