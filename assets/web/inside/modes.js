// The weight mode: it is chosen here for all who use the server, and all see how the switch goes.
import { json, request } from "../base/api.js";
import { el } from "../base/dom.js";
import { bytes, t } from "../base/words.js";

const AT = "page/mode";
const STAGES = {
  "preparing the weights": "stageWeights",
  "mapping the variant on disk": "stageMapping",
  "preparing the executor": "stageExecutor",
};

export const isUnderWay = (status) => ["waiting", "preparing"].includes(status?.modes?.switch?.phase);

/** How the model runs, in few words; of a switch under way, to what and how far it is. */
export function runWords({ run, modes }) {
  const said = [run.mode, run.activations, `KV ${run.keys}`, run.backend];
  if (isUnderWay({ modes })) said[0] += ` → ${modes.switch.mode} ${share(modes.switch)}`;
  return said.join(" · ");
}

const share = ({ fraction }) => `${Math.floor(fraction * 100)}%`;

export class Modes {
  /** `ask` is called when something was asked for: the next status is wanted soon. */
  constructor(ask) {
    this.ask = ask;
    this.choice = {}; // what a person chose and did not switch to yet
    this.sent = false;
    this.weights = this.select("mode");
    this.activations = this.select("activations");
    this.begin = el("button", { class: "button", id: "switch-mode" });
    this.form = el(
      "form",
      { class: "mode-form", onsubmit: (event) => this.submit(event) },
      this.weights.label,
      this.activations.label,
      this.begin,
    );
    this.how = el("p", { class: "small-text", id: "mode-stage" });
    this.bar = el("progress", { max: "1", "aria-labelledby": "mode-stage" });
    this.stop = el("button", { type: "button", class: "button plain", onclick: () => this.cancel() });
    this.under = el("div", { class: "mode-progress", hidden: true }, this.how, this.bar, this.stop);
    this.problem = el("p", { class: "mode-problem", role: "alert", hidden: true });
    this.title = el("h2");
    this.hint = el("p", { class: "hint" });
    const parts = [this.title, this.form, this.under, this.problem, this.hint];
    this.place = el("section", { class: "part", id: "modes", hidden: true }, ...parts);
  }

  select(name) {
    const field = el("select", { class: "select", name });
    field.addEventListener("change", () => {
      this.choice[name] = field.value;
      this.draw(this.status);
    });
    const words = el("span");
    return { field, words, label: el("label", {}, words, field) };
  }

  draw(status) {
    this.status = status;
    this.place.hidden = !status?.modes;
    if (this.place.hidden) return;
    const { modes } = status;
    this.forget(modes.switch);
    this.words();
    this.options(this.weights.field, Object.entries(modes.weights).map(weightOption), modes.asked.mode);
    const kinds = modes.activations.map((kind) => [kind, activationWords(kind, status)]);
    this.options(this.activations.field, kinds, modes.asked.activations);
    this.progress(modes.switch, isUnderWay(status));
    const { mode, activations } = this.wanted();
    const again = modes.rounded_again?.[mode];
    const lost = again ? ` ${t("modeAgain", { mode, share: `${Math.round(100 * again)}%` })}` : "";
    this.hint.textContent = t("modeHint") + lost;
    const isSame = mode === modes.asked.mode && activations === modes.asked.activations;
    this.begin.disabled = isSame || this.sent || isUnderWay(status);
  }

  words() {
    this.title.textContent = t("weightMode");
    this.weights.words.textContent = t("weights");
    this.activations.words.textContent = t("activations");
    this.begin.textContent = t("switchMode");
    this.stop.textContent = t("cancel");
  }

  /** A field that a person has open is left alone unless what it offers is other. */
  options(field, offered, used) {
    const made = JSON.stringify(offered);
    if (field.dataset.made !== made) {
      field.dataset.made = made;
      field.replaceChildren(...offered.map(([value, text]) => el("option", { value }, text)));
    }
    field.value = this.choice[field.name] ?? used;
  }

  /** What was chosen is in use, or another person's choice is. */
  forget(said) {
    if (said?.phase !== "done" || said.number === this.seen) return;
    this.seen = said.number;
    this.choice = {};
  }

  progress(said, going) {
    this.under.hidden = !going;
    if (going) {
      this.bar.value = said.fraction;
      const stage = t(said.phase === "waiting" ? "stageWaiting" : STAGES[said.stage] || "stagePreparing");
      this.how.textContent = t("modeStage", { mode: said.mode, stage, share: share(said) });
    }
    const why = said?.phase === "failed" ? said.problem : "";
    const words = this.refused || (why && t("modeFailed", { mode: said.mode, why }));
    this.problem.hidden = !words;
    if (this.problem.textContent !== (words || "")) this.problem.textContent = words || "";
  }

  wanted() {
    return { mode: this.weights.field.value, activations: this.activations.field.value };
  }

  async submit(event) {
    event.preventDefault();
    await this.tell(() => json(AT, { method: "POST", body: this.wanted() }));
    this.stop.focus();
  }

  async cancel() {
    await this.tell(() => request(AT, { method: "DELETE" }));
    this.weights.field.focus();
  }

  async tell(what) {
    this.sent = true;
    this.refused = "";
    try {
      await what();
    } catch (error) {
      this.refused = t("failed", { why: error.message });
    }
    this.sent = false;
    await this.ask();
    this.draw(this.status);
  }
}

const weightOption = ([mode, size]) => [mode, size ? `${mode} · ${bytes(size)}` : mode];

/** What the program chose stands beside auto. */
const activationWords = (kind, { run, modes }) =>
  kind === "auto" && modes.asked.activations === "auto" ? `auto: ${run.activations}` : kind;
