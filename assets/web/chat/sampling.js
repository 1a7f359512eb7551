// How answers are made: what the settings say, kept in this browser.
import { t } from "../base/words.js";

const PLACE = "llm-lite.sampling";
export const usual = { temperature: 0.4, top_p: 0.9, max_tokens: 1024, seed: null, system_prompt: null };
export const sampling = { ...usual, ...read() };

function read() {
  try {
    return JSON.parse(localStorage.getItem(PLACE) || "{}");
  } catch {
    return {};
  }
}

export function keepSampling(changes) {
  Object.assign(sampling, changes);
  const own = Object.fromEntries(Object.entries(sampling).filter(([name, value]) => value !== usual[name]));
  try {
    localStorage.setItem(PLACE, JSON.stringify(own));
  } catch {
    // A browser that keeps nothing forgets it with the tab.
  }
}

/** The system prompt of new conversations. */
export const defaultPrompt = () => sampling.system_prompt ?? t("defaultPrompt");

/** As a request has it. */
export function samplingFields() {
  const { temperature, top_p, max_tokens, seed } = sampling;
  return { temperature, top_p, max_tokens, ...(seed === null ? {} : { seed }) };
}
