// What views of attention have in common: the choice of a layer and a head.
import { el } from "../base/dom.js";
import { t } from "../base/words.js";
import { subject } from "./subject.js";

/** "Layer 3, head 2", or "Layer 3, mean of heads". */
export const where = () =>
  subject.head === null
    ? `${t("layerN", { n: subject.layer })}, ${t("meanOfHeads")}`
    : t("layerHead", { layer: subject.layer, head: subject.head });

function select(name, label, options, chosen, change) {
  const made = el(
    "select",
    { class: "select", "aria-label": label, "data-name": name },
    ...options.map(([value, text]) => el("option", { value }, text)),
  );
  made.value = String(chosen);
  made.addEventListener("change", () => change(made.value));
  return made;
}

export function layerSelect() {
  const options = subject.layers.map((n) => [n, t("layerN", { n })]);
  return select("layer", t("layer"), options, subject.layer, (value) =>
    subject.choose({ layer: Number(value) }),
  );
}

export function headSelect(mean = true) {
  const options = Array.from({ length: subject.heads }, (_, n) => [n, t("headN", { n })]);
  if (mean) options.unshift(["", t("meanOfHeads")]);
  return select("head", t("head"), options, subject.head ?? (mean ? "" : 0), (value) =>
    subject.choose({ head: value === "" ? null : Number(value) }),
  );
}

export function hideFirst() {
  const field = el("input", { type: "checkbox", "data-name": "first" });
  field.checked = Boolean(subject.hideFirst);
  field.addEventListener("change", () => subject.choose({ hideFirst: field.checked }));
  return el("label", { class: "muted" }, field, " ", t("hideFirst"));
}
