// What is looked into: an answer, a position in it, a layer and a head. All views follow it.
import { json } from "../base/api.js";
import { t } from "../base/words.js";
import { tokensOf } from "./glass.js";

const LATE = 1500; // ms
const LONGEST_CHARACTER = 8; // tokens, and some to spare: UTF-8 has up to four bytes

class Subject extends EventTarget {
  message = null;
  conversation = null;
  tokens = null; // {texts, prompt_tokens, …} of prompt and answer while the cache holds them
  state = "none"; // none, live, loading, whole, gone
  position = null; // that is chosen
  layer = 0;
  head = null; // null: the mean of all
  layers = [];
  heads = 0;

  tell(name) {
    this.dispatchEvent(new Event(name));
  }

  /** Of an answer; asked again when it has ended. */
  async show(conversation, message) {
    const face = message ? `${message.key}|${message.live}|${message.response}` : "";
    if (face === this.face && conversation === this.conversation) return;
    const other = message !== this.message;
    Object.assign(this, { face, conversation, message, tokens: null });
    if (other) this.position = null;
    this.state = !message ? "none" : message.live ? "live" : "loading";
    this.tell("answer");
    if (!message || message.live) return;
    await this.restore(conversation, message);
    const tokens = message.response ? await tokensOf(message.response).catch(() => null) : null;
    if (face !== this.face) return;
    if (!tokens && message.reason === "stopped" && !message.lateOnce) {
      message.lateOnce = true; // a server that is busy ends it a moment later
      setTimeout(() => {
        if (face === this.face) {
          this.face = "";
          this.show(conversation, message);
        }
      }, LATE);
    }
    this.tokens = tokens;
    this.state = tokens ? "whole" : "gone";
    if (tokens) this.fit(tokens);
    this.tell("answer");
  }

  /** Tokens of an answer that was kept, and how likely they were. */
  async restore(conversation, message) {
    if (message.tokens !== null || !message.has_tokens) return;
    message.tokens = [];
    try {
      const { texts, likelihoods } = await json(
        `page/conversations/${conversation.id}/messages/${message.id}/tokens`,
      );
      message.tokens = texts.map((text, at) => ({
        text,
        p: likelihoods[at] >= 0 ? likelihoods[at] : NaN,
        top: [],
      }));
    } catch {
      // Then nothing is known of them.
    }
  }

  /** Its layers are those that attend: others have a recurrent state. */
  fit({ layers: count, recurrent_layers: recurrent, heads, texts }) {
    const layers = Array.from({ length: count }, (_, at) => at).filter((at) => !recurrent.includes(at));
    if (layers.join() !== this.layers.join()) this.layer = layers[Math.floor(layers.length / 2)] ?? 0;
    if (this.head !== null && this.head >= heads) this.head = null;
    Object.assign(this, { layers, heads });
    if (this.position === null || this.position >= texts.length) this.position = texts.length - 1;
  }

  choose(changes) {
    if (Object.entries(changes).every(([name, value]) => this[name] === value)) return;
    Object.assign(this, changes);
    this.tell("choice");
  }

  get allHeads() {
    return this.head === null ? Array.from({ length: this.heads }, (_, at) => at) : [this.head];
  }

  /** The token at a position of prompt and answer, as it is named. */
  textAt(position) {
    return named(this.tokens?.texts ?? [], position);
  }

  /** Why an answer cannot be looked into: other browsers and the window know it by other names. */
  get goneWords() {
    return this.message?.response ? "gone" : "notHere";
  }
}

export const subject = new Subject();

/** A token's text with its line breaks and outer spaces to be seen. */
export const visible = (text) => text.replace(/\n/g, "↵").replace(/\t/g, "⇥") || "∅";
/** A token in a line of text: one that is a part of a character is named after that. */
export function named(texts, at) {
  if (texts[at] !== "") return trimmed(texts[at] ?? "");
  const whole = texts.slice(at, at + LONGEST_CHARACTER).find((text) => text !== "");
  return whole ? t("partOf", { text: [...whole][0] }) : t("part");
}
/** In one word: spaces are only shown where there is nothing else. */
export const trimmed = (text) => (text.trim() ? visible(text).trim() : visible(text.replace(/ /g, "␣")));
