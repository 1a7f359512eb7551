// A conversation that is open: its messages, and what a person does with them.
import { json } from "../base/api.js";
import { Answer } from "./answer.js";
import { defaultPrompt, samplingFields } from "./sampling.js";

let keys = 0;
const live = new Map(); // id -> conversations that are being answered

/** A conversation as the history has it; one that is being answered goes on where it is. */
export async function openConversation(id) {
  return live.get(id) || new Conversation(await json(`page/conversations/${id}`));
}

/** The page goes: answers that are being written are kept as they are. */
export function leaveAll() {
  for (const conversation of live.values()) conversation.answer?.leave();
}

export class Conversation extends EventTarget {
  constructor(kept = null) {
    super();
    this.messages = [];
    this.answer = null;
    this.problem = "";
    this.take(kept);
  }

  take(kept) {
    this.id = kept?.id || null;
    this.title = kept?.title || "";
    this.systemPrompt = kept ? kept.system_prompt : defaultPrompt();
    const known = new Map(this.messages.map((message) => [message.id, message]));
    this.messages = (kept?.messages || []).map((message) =>
      Object.assign(known.get(message.id) || { key: ++keys, tokens: null }, message, {
        response: known.get(message.id)?.response || responseOf(message.id),
      }),
    );
    this.changed();
  }

  changed(message = null) {
    this.dispatchEvent(new CustomEvent("change", { detail: message }));
  }

  get busy() {
    return this.answer !== null;
  }

  get lastAnswer() {
    return this.messages.findLast((message) => message.role === "assistant") || null;
  }

  stop() {
    this.answer?.stop();
  }

  async send(text, model) {
    const said = this.add("user", text, this.messages.at(-1)?.id ?? null);
    await this.keep(async () => {
      if (!this.id) await this.begin();
      this.kept(
        said,
        await json(this.path("messages"), { method: "POST", body: { text, parent: said.parent } }),
      );
    });
    await this.reply(said, model);
  }

  /** Another version of an answer. */
  async regenerate(message, model) {
    const at = this.messages.indexOf(message);
    this.messages.length = at;
    await this.reply(this.messages[at - 1], model);
  }

  /** Another version of what a person said, and an answer to it. */
  async edit(message, text, model) {
    const at = this.messages.indexOf(message);
    this.messages.length = at;
    const said = this.add("user", text, message.parent, message);
    await this.keep(async () => {
      const body = { text, parent: message.parent, based_on: message.id };
      this.kept(said, await json(this.path("messages"), { method: "POST", body }));
    });
    await this.reply(said, model);
  }

  /** Show another version of a message, and what follows it. */
  async select(version) {
    this.take(await json(this.path("select"), { method: "POST", body: { message: version } }));
  }

  async setSystemPrompt(text) {
    this.systemPrompt = text;
    if (this.id) await this.keep(() => json(this.path(), { method: "PATCH", body: { system_prompt: text } }));
  }

  async reply(said, model) {
    const message = this.add("assistant", "", said?.id ?? null);
    message.model = model;
    const answer = (this.answer = new Answer(this, message, model, () => this.changed(message)));
    this.dispatchEvent(new Event("busy"));
    await this.keep(async () => {
      if (!said?.id) return;
      const body = { parent: said.id, sampling: samplingFields() };
      this.kept(message, await json(this.path("answers"), { method: "POST", body }));
    });
    if (this.id) live.set(this.id, this);
    if (!answer.stopped) await answer.run(this.asked(message));
    else Object.assign(message, { live: false, finished: true, reason: "stopped" });
    live.delete(this.id);
    this.answer = null;
    if (message.id && message.response) keepResponse(message.id, message.response);
    this.changed(message);
    this.dispatchEvent(new Event("busy"));
  }

  /** What the model is told before `message`. */
  asked(message) {
    const before = this.messages.slice(0, this.messages.indexOf(message));
    const prompt = this.systemPrompt.trim() ? [{ role: "system", content: this.systemPrompt }] : [];
    const said = before.filter((one) => one.role === "user" || one.role === "assistant");
    return [...prompt, ...said.map((one) => ({ role: one.role, content: one.content ?? one.text }))];
  }

  add(role, text, parent, before = null) {
    const message = {
      key: ++keys,
      id: null,
      parent,
      role,
      text,
      thought: "",
      versions: [],
      finished: role === "user",
      tokens: null,
      attachments: before?.attachments,
    };
    this.messages.push(message);
    this.changed();
    return message;
  }

  /** What the history says of a message that is said now. */
  kept(message, record) {
    message.id = record.id;
    message.parent = record.parent;
    message.content = record.content;
    message.versions = record.versions;
    this.changed(message);
  }

  async begin() {
    const begun = await json("page/conversations", {
      method: "POST",
      body: { system_prompt: this.systemPrompt },
    });
    this.id = begun.id;
    this.dispatchEvent(new Event("begun"));
  }

  /** What cannot be saved is said, and the conversation goes on. */
  async keep(save) {
    try {
      await save();
      this.problem = "";
    } catch (error) {
      this.notKept(error);
    }
  }

  notKept(error) {
    this.problem = error.message || String(error);
    this.dispatchEvent(new Event("problem"));
  }

  path(...more) {
    return ["page/conversations", this.id, ...more].join("/");
  }
}

// Under which name the cache may still hold an answer; for this browser.
const RESPONSES = "llm-lite.responses";

function responses() {
  try {
    return JSON.parse(localStorage.getItem(RESPONSES) || "{}");
  } catch {
    return {};
  }
}

const responseOf = (id) => responses()[id] || null;

function keepResponse(id, response) {
  const all = Object.entries({ ...responses(), [id]: response });
  try {
    localStorage.setItem(RESPONSES, JSON.stringify(Object.fromEntries(all.slice(-200))));
  } catch {
    // Without it, an answer cannot be looked into after the page was loaded again.
  }
}
