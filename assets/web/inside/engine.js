// Gauges: how fast it answers, what the cache holds, and what runs.
import { $, el, styled } from "../base/dom.js";
import { bytes, count, t } from "../base/words.js";
import { Modes } from "./modes.js";

const WINDOW = 16; // tokens over which a speed is taken
const MOST_POINTS = 240;
const SVG = "http://www.w3.org/2000/svg";

export class Engine {
  constructor(app) {
    this.app = app;
    this.gauges = el("div", { class: "stack" });
    this.facts = el("div");
    this.modes = new Modes(() => app.poll());
    $("panel-engine").append(this.gauges, this.modes.place, this.facts);
    this.shown = false;
    document.addEventListener("language", () => this.draw());
  }

  show(shown) {
    this.shown = shown;
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    const { status } = this.app;
    this.modes.draw(status);
    if (!status?.model) {
      this.gauges.replaceChildren(el("p", { class: "empty" }, t("noModel")));
      this.facts.replaceChildren();
      return;
    }
    this.gauges.replaceChildren(
      this.speed(),
      cache(status, this.app.conversation.lastAnswer),
      requests(status),
    );
    this.facts.replaceChildren(model(status));
  }

  speed() {
    const answer = this.app.conversation.answer || this.app.lastEnded;
    const part = el("section", { class: "part" }, el("h2", {}, t("speed")));
    const times = answer?.times || [];
    if (times.length < 2) {
      part.append(el("p", { class: "hint" }, t("speedNone")));
      return part;
    }
    const { speed } = answer;
    const seconds = (times.at(-1) - times[0]) / 1000;
    const facts = { n: count(times.length), s: seconds.toFixed(1), first: count(times[0]) };
    part.append(
      el("p", { class: "big" }, speed < 100 ? speed.toFixed(1) : count(speed), " ", el("small", {}, "tok/s")),
      spark(times),
      el("p", { class: "hint" }, t("speedHint", facts)),
    );
    return part;
  }
}

/** Speed over the answer, a point for a few tokens. */
function spark(times) {
  const step = Math.max(1, Math.floor(times.length / MOST_POINTS));
  const points = [];
  for (let at = Math.min(WINDOW, times.length - 1); at < times.length; at += step) {
    const from = Math.max(0, at - WINDOW);
    points.push([times[at], ((at - from) * 1000) / Math.max(times[at] - times[from], 1)]);
  }
  const most = Math.max(...points.map(([, speed]) => speed)) * 1.1;
  const [begin, end] = [points[0][0], points.at(-1)[0]];
  const x = (time) => (end > begin ? ((time - begin) / (end - begin)) * 300 : 150).toFixed(1);
  const line = points.map(([time, speed]) => `${x(time)},${(70 - (speed / most) * 66).toFixed(1)}`).join(" ");
  const picture = document.createElementNS(SVG, "svg");
  const make = (tag, attributes) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    picture.append(made);
  };
  for (const [name, value] of Object.entries({
    class: "spark",
    viewBox: "0 0 300 72",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  }))
    picture.setAttribute(name, value);
  make("line", { x1: 0, x2: 300, y1: 71, y2: 71, class: "spark-base" });
  make("polyline", { points: line, class: "spark-line", "vector-effect": "non-scaling-stroke" });
  return picture;
}

function cache({ serving }, last) {
  const free = Math.max(0, serving.pages - serving.pages_used - serving.pages_kept);
  const share = (pages) => `${serving.pages ? (pages / serving.pages) * 100 : 0}%`;
  const dot = (kind, label, pages) => el("span", { class: `key-dot ${kind}` }, `${label} ${count(pages)}`);
  const part = el(
    "section",
    { class: "part" },
    el("h2", {}, t("cache")),
    el(
      "div",
      { class: "gauge", role: "img", "aria-label": t("cachePages", pages(serving)) },
      styled(el("i", { class: "used" }), { width: share(serving.pages_used) }),
      styled(el("i", { class: "kept" }), { width: share(serving.pages_kept) }),
    ),
    el(
      "p",
      { class: "controls small-text" },
      dot("used", t("cacheUsed"), serving.pages_used),
      dot("kept", t("cacheKept"), serving.pages_kept),
      dot("", t("cacheFree"), free),
    ),
    el("p", { class: "hint" }, t("cachePages", pages(serving))),
  );
  const usage = last?.usage;
  if (usage) {
    const n = usage.prompt_tokens_details?.cached_tokens || 0;
    part.append(el("p", { class: "hint" }, t("reused", { n: count(n), all: count(usage.prompt_tokens) })));
  }
  return part;
}

const pages = ({ pages: all, pages_used, pages_kept, page_tokens }) => ({
  n: count(pages_used + pages_kept),
  all: count(all),
  tokens: count(page_tokens),
});

function requests({ serving }) {
  const { running, waiting, parallel } = serving;
  return el(
    "section",
    { class: "part" },
    el("h2", {}, t("requests")),
    el("p", { class: "hint" }, t("requestsNow", { running, waiting, parallel })),
  );
}

function model({ model: is, run, serving }) {
  const facts = [
    [t("modelPart"), is.name],
    [t("parameters"), large(is.parameters)],
    [t("weights"), `${run.mode}, ${bytes(is.weight_bytes)}`],
    [t("activations"), run.activations],
    [t("kv"), `${run.keys}, ${run.values}`],
    [t("device"), [run.backend, run.device].filter(Boolean).join(": ")],
    [t("threads"), run.threads || "–"],
    [t("layersHeads"), `${is.layers}, ${is.heads}`],
    [t("contextSize"), t("tokensOf", { n: count(serving.context) })],
  ];
  return el(
    "section",
    { class: "part" },
    el("h2", {}, t("modelPart")),
    el(
      "dl",
      { class: "facts" },
      ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]),
    ),
  );
}

const large = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)} B` : `${(n / 1e6).toFixed(0)} M`);
