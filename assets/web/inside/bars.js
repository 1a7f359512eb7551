// A few tokens with bars of how likely they are, or how much they are looked at.
import { el, styled } from "../base/dom.js";
import { percent } from "../base/words.js";

/** `rows`: [{p, text, aside, is}], of which the largest fills its bar. */
export function bars(rows) {
  const most = Math.max(...rows.map(({ p }) => p), 1e-9);
  return el(
    "div",
    { class: "bars" },
    ...rows.flatMap(({ p, text, aside = "", is }) => [
      el("span", {}, percent(p)),
      el("span", { class: "of", "aria-hidden": "true" }, styled(el("i"), { width: `${(p / most) * 100}%` })),
      el("span", { class: is ? "word is" : "word" }, text),
      el("span", { class: "muted" }, String(aside)),
    ]),
  );
}

/** The largest of a row of attention. */
export function largest(row, count, hideFirst = false) {
  const found = row.map((p, at) => ({ p, at }));
  if (hideFirst) found.shift();
  return found.sort((a, b) => b.p - a.p).slice(0, count);
}
