// A message as it is shown, with what can be done with it.
import { composes, copyText, el, icon, iconButton, styled } from "../base/dom.js";
import { count, t } from "../base/words.js";
import { Markdown } from "./markdown.js";

const ENDS = {
  length: "endLength",
  context: "endContext",
  stopped: "endStopped",
  role: "endRole",
  repetition: "endRepetition",
};

/** `does` has regenerate, edit, select, look: what a person can ask for. */
export class MessageView {
  constructor(message, does) {
    Object.assign(this, { message, does });
    const user = message.role !== "assistant";
    this.under = el("div", { class: "under" });
    this.body = el("div", { class: "body" });
    this.element = el("article", {
      class: `message ${user ? "user" : "assistant"}`,
      "aria-label": user ? t("you") : t("answer"),
    });
    if (user) this.said = el("div", { class: "said", dir: "auto" });
    else {
      this.thought = el("div", { dir: "auto" });
      this.summary = el("summary");
      this.details = el("details", { class: "thought", hidden: true }, this.summary, this.thought);
      this.markdown = new Markdown();
      this.waiting = el("div", { class: "waiting", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
      this.note = el("div", { class: "end" });
      this.problem = el("div", { class: "problem", role: "alert", hidden: true });
      this.name = el("span");
      this.body.append(
        el("div", { class: "who" }, icon("sparkles"), this.name),
        this.details,
        this.waiting,
        this.markdown.element,
        this.note,
        this.problem,
      );
    }
    this.element.append(this.body, this.under);
    this.update(false);
  }

  update(busy) {
    if (this.message.role === "assistant") this.updateAnswer();
    else this.updateSaid();
    this.updateTools(busy);
  }

  updateSaid() {
    if (this.editing) return;
    const { attachments } = this.message;
    const files = attachments?.length
      ? el("div", { class: "files" }, ...attachments.map((name) => el("span", { dir: "auto" }, name)))
      : null;
    this.said.textContent = this.message.text;
    this.body.replaceChildren(...(files ? [files] : []), ...(this.message.text ? [this.said] : []));
  }

  updateAnswer() {
    const { message } = this;
    this.name.textContent = message.model || t("model");
    this.markdown.show(message.text, Boolean(message.live));
    this.waiting.hidden = !message.live || Boolean(message.text);
    this.details.hidden = !message.thought;
    this.summary.textContent = message.live && !message.text ? t("thinking") : t("thoughts");
    if (this.thought.textContent !== message.thought) this.thought.textContent = message.thought;
    this.note.textContent = message.live
      ? message.progress || ""
      : t(ENDS[message.reason] || (message.finished ? "" : "endStopped"));
    this.note.hidden = !this.note.textContent;
    this.problem.hidden = !message.problem;
    if (message.problem && !this.problem.textContent.startsWith(message.problem)) {
      const again = el(
        "button",
        { type: "button", class: "text-button", onclick: () => this.does.regenerate(message) },
        t("tryAgain"),
      );
      this.problem.replaceChildren(el("span", {}, message.problem), again);
    }
  }

  /** The row below: made again only where something in it differs. */
  updateTools(busy) {
    const { message } = this;
    const face = [
      busy,
      message.live,
      message.versions.join(),
      message.id,
      message.new_tokens,
      message.finished,
    ].join("|");
    if (face === this.face) return;
    const focused = this.under.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    this.face = face;
    this.under.replaceChildren(...(message.live ? [] : this.tools(busy)));
    if (focused) [...this.under.querySelectorAll("button")].find((one) => one.ariaLabel === focused)?.focus();
  }

  tools(busy) {
    const { message, does } = this;
    const off = { disabled: busy };
    const made = [];
    if (message.versions.length > 1) made.push(this.versions(busy));
    made.push(iconButton("copy", t("copy"), () => copyText(message.text)));
    if (message.role === "assistant") {
      made.push(iconButton("regenerate", t("regenerate"), () => does.regenerate(message), off));
      made.push(iconButton("inspect", t("look"), () => does.look(message)));
      if (message.new_tokens) made.push(el("span", { class: "stats" }, stats(message)));
    } else made.push(iconButton("edit", t("edit"), () => this.edit(), off));
    return made;
  }

  versions(busy) {
    const { versions, id } = this.message;
    const at = versions.indexOf(id);
    const go = (step) => () => this.does.select(versions[at + step]);
    return el(
      "span",
      { class: "versions", role: "group", "aria-label": t("version", { at: at + 1, all: versions.length }) },
      iconButton("left", t("before"), go(-1), { disabled: busy || at <= 0 }),
      `${at + 1} / ${versions.length}`,
      iconButton("right", t("after"), go(1), { disabled: busy || at >= versions.length - 1 }),
    );
  }

  edit() {
    this.editing = true;
    const field = el("textarea", {
      class: "field",
      dir: "auto",
      "aria-label": t("editMessage"),
      rows: "3",
    });
    field.value = this.message.text;
    const end = (send) => {
      this.editing = false;
      this.element.classList.remove("is-edited");
      this.under.hidden = false;
      const text = field.value.trim();
      this.updateSaid();
      if (send && text) this.does.edit(this.message, text);
      else this.under.querySelector(`[data-icon="edit"]`)?.focus();
    };
    const form = el(
      "form",
      { class: "edit" },
      field,
      el(
        "div",
        { class: "ends" },
        el("button", { type: "button", class: "button plain", onclick: () => end(false) }, t("cancel")),
        el("button", { class: "button" }, t("sendAgain")),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      end(true);
    });
    field.addEventListener("keydown", (event) => {
      if (composes(event)) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        end(false);
      }
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        end(true);
      }
    });
    this.element.classList.add("is-edited");
    this.under.hidden = true;
    this.body.replaceChildren(form);
    styled(field, { height: `min(${field.scrollHeight + 4}px, 50dvh)` });
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

function stats({ new_tokens, tok_s, ttft_ms }) {
  if (!tok_s) return t("statsShort", { n: count(new_tokens) });
  return t("stats", {
    n: count(new_tokens),
    speed: tok_s < 100 ? tok_s.toFixed(1) : count(tok_s),
    first: count(ttft_ms),
  });
}
