// One answer: read as it is streamed, saved as it comes, and what is known of each of its tokens.
import { ApiError, events, json, request } from "../base/api.js";
import { t } from "../base/words.js";
import { samplingFields } from "./sampling.js";

const SAVE_EVERY = 1000; // ms
const NOTICING = 200; // ms until the server has noticed that nobody reads on
const LEAST_RETRY = 0.5; // seconds
const MOST_RETRIES = 8;
const REASONS = { stop: "end", length: "length", content_filter: "end", tool_calls: "end" };

export class Answer {
  /** `message` is filled in; `changed` is called after each part of it. */
  constructor(conversation, message, model, changed) {
    Object.assign(this, { conversation, message, model, changed });
    this.controller = new AbortController();
    this.asked = performance.now();
    this.times = []; // of tokens, in ms since it was asked
    this.saving = null;
    this.savedAt = 0;
    message.tokens = [];
    message.live = true;
  }

  stop() {
    this.stopped = true;
    this.controller.abort();
  }

  /** The page goes: what was said so far is kept. */
  leave() {
    this.leaving = true;
    this.save(true, true);
  }

  /** Tokens a second, since the first. */
  get speed() {
    const { times } = this;
    return times.length > 1 ? ((times.length - 1) * 1000) / Math.max(times.at(-1) - times[0], 1) : 0;
  }

  async run(messages) {
    const { message } = this;
    try {
      await this.read(await this.ask(messages));
      message.reason ??= "end";
    } catch (error) {
      if (this.leaving) return; // what was said is saved already
      if (this.stopped) {
        message.reason = "stopped";
        await new Promise((resolve) => setTimeout(resolve, NOTICING));
      } else {
        message.reason = "error";
        message.problem = problemOf(error);
      }
    }
    message.live = false;
    message.finished = true;
    message.progress = null;
    message.tok_s = this.speed;
    message.ttft_ms = this.times[0] || 0;
    message.new_tokens = message.usage?.completion_tokens ?? message.tokens.length;
    this.changed();
    await this.save(true);
  }

  /** The stream; where the server is full, it is asked again when it says so. */
  async ask(messages) {
    const body = {
      model: this.model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
      logprobs: true,
      top_logprobs: 5,
      ...samplingFields(),
    };
    for (let tries = 1; ; tries++) {
      try {
        return await request("v1/chat/completions", {
          method: "POST",
          body,
          signal: this.controller.signal,
        });
      } catch (error) {
        if (error.status !== 429 || tries >= MOST_RETRIES || this.stopped) throw error;
        await new Promise((resolve) => setTimeout(resolve, 1000 * Math.max(error.wait, LEAST_RETRY)));
        if (this.stopped) throw error;
      }
    }
  }

  async read(response) {
    const { message } = this;
    for await (const event of events(response)) {
      if (event.error) throw new ApiError(500, event.error.message || String(event.error));
      if (event.id) message.response = event.id;
      if (event.usage) message.usage = event.usage;
      const choice = event.choices?.[0];
      if (!choice) continue;
      this.take(choice);
      this.changed();
      this.saveSoon();
    }
  }

  take(choice) {
    const { message } = this;
    const delta = choice.delta || {};
    message.text += delta.content || "";
    message.thought += delta.reasoning_content || delta.reasoning || "";
    const now = performance.now() - this.asked;
    const judged = choice.logprobs?.content || [];
    const said = delta.content || delta.reasoning_content || delta.reasoning || "";
    for (const token of judged) message.tokens.push(tokenOf(token, judged.length === 1 ? said : null));
    const come = judged.length || (delta.content || delta.reasoning_content ? 1 : 0);
    for (let n = 0; n < come; n++) this.times.push(now);
    if (choice.finish_reason) {
      message.reason = choice.stop_reason || REASONS[choice.finish_reason] || "end";
    }
  }

  saveSoon() {
    const now = performance.now();
    if (!this.message.id || this.saving || now - this.savedAt < SAVE_EVERY) return;
    this.savedAt = now;
    this.saving = this.save(false).finally(() => (this.saving = null));
  }

  /** All that it says so far. What cannot be saved is told by the status of the history. */
  async save(finished, keepalive = false) {
    const { message, conversation } = this;
    if (!message.id) return;
    if (finished && !keepalive) await this.saving;
    const body = { text: message.text, thought: message.thought };
    if (finished) {
      Object.assign(body, {
        finished: true,
        reason: message.reason || "stopped",
        problem: message.problem || "",
        response: message.response || "",
        likelihoods: keepalive ? [] : message.tokens.map((token) => round(token.p)),
        seconds: (performance.now() - this.asked) / 1000,
        stats: {
          prompt_tokens: message.usage?.prompt_tokens || 0,
          reused_tokens: message.usage?.prompt_tokens_details?.cached_tokens || 0,
          new_tokens: message.new_tokens ?? message.tokens.length,
          decode_tok_s: this.speed,
          ttft_ms: this.times[0] || 0,
        },
      });
    }
    try {
      await json(`page/conversations/${conversation.id}/answers/${message.id}`, {
        method: "PUT",
        body,
        keepalive,
      });
    } catch (error) {
      if (finished) conversation.notKept(error);
    }
  }
}

/** What went wrong; a browser's own words for a connection that is cut are English, and its own. */
const problemOf = (error) => {
  if (error instanceof ApiError) return error.message;
  return error instanceof TypeError ? t("cut") : String(error.message || error);
};

/** {text, own, p, top: [{text, p}]} of an entry of OpenAI's logprobs. A token that is a part of a
 * character has U+FFFD as its own text; shown is what it completes, `said`, where that is known. */
const tokenOf = ({ token, logprob, top_logprobs }, said) => ({
  text: token.includes("\ufffd") && said !== null ? said : token,
  own: token,
  p: Math.exp(logprob),
  top: (top_logprobs || []).map((other) => ({ text: other.token, p: Math.exp(other.logprob) })),
});

const round = (p) => Number(p.toPrecision(5));
