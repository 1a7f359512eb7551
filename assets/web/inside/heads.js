// All heads of all layers as small pictures, and one of them large.
import { $, el, icon } from "../base/dom.js";
import { percent, t } from "../base/words.js";
import { bars, largest } from "./bars.js";
import { color, offscreen, onScale } from "./canvas.js";
import { headSelect, hideFirst, layerSelect } from "./choices.js";
import { legendCanvas, probabilityOf } from "./colors.js";
import { attentionRow, mapsOf } from "./glass.js";
import { subject } from "./subject.js";

const [LEAST, MOST] = [22, 60]; // CSS pixels of a small picture
const GUTTER = 26; // for the numbers of layers
const TOP = 18; // for the numbers of heads
const GAP = 3;
const LARGE = 512; // pixels of the large picture, at most
const AT_ONCE = 2; // layers that are asked for
const GROUND = "#101216"; // of maps, in both themes: their colours are made for a dark one

export class Heads {
  constructor() {
    this.place = $("panel-heads");
    this.shown = false;
    subject.addEventListener("answer", () => this.draw());
    subject.addEventListener("choice", () => this.chosen());
    document.addEventListener("theme", () => this.draw());
    document.addEventListener("language", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - width) > 8) {
        width = contentRect.width;
        this.draw();
      }
    }).observe(this.place);
  }

  show(shown) {
    this.shown = shown;
    this.draw();
  }

  /** All of it, once a frame. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    if (!this.shown) return;
    if (subject.state !== "whole") {
      this.face = null;
      this.cancel();
      const words = {
        none: "nothingYet",
        gone: subject.message?.response || subject.message?.has_tokens ? subject.goneWords : "noTokens",
        live: "answering",
        loading: "loading",
      };
      this.place.replaceChildren(
        el("div", { class: "empty" }, icon("grid"), el("p", {}, t(words[subject.state]))),
      );
      return;
    }
    this.cancel();
    this.grid = el("canvas", {
      tabindex: "0",
      role: "application",
      "aria-label": t("headsGrid"),
      "aria-describedby": "heads-at",
    });
    this.gridNote = el("p", { class: "readout", id: "heads-at", role: "status" });
    this.picture = el("canvas", { tabindex: "0", role: "application" });
    this.controls = el("div", { class: "controls" });
    this.readout = el("p", { class: "readout", role: "status" });
    this.rowList = el("div");
    const scale = el("span", { class: "legend" }, "≤ 0.01%", legendCanvas(), "100%");
    this.place.replaceChildren(
      el(
        "section",
        { class: "part" },
        el("h2", {}, t("heads")),
        el("p", { class: "hint" }, t("headsHint")),
        scale,
        el("div", { class: "grid-box" }, this.grid),
        this.gridNote,
      ),
      el(
        "section",
        { class: "part" },
        this.controls,
        el("div", { class: "large" }, this.picture),
        this.readout,
        this.positions(),
        this.rowList,
      ),
    );
    this.grid.addEventListener("pointerdown", (event) => this.press(event));
    this.grid.addEventListener("pointermove", (event) => this.over(this.cellAt(event)));
    this.grid.addEventListener("pointerleave", () => this.over(null));
    this.grid.addEventListener("keydown", (event) => this.gridKey(event));
    this.picture.addEventListener("pointermove", (event) => this.cross(this.placeAt(event)));
    this.picture.addEventListener("pointerleave", () => this.cross(null));
    this.picture.addEventListener("pointerdown", (event) =>
      subject.choose({ position: this.placeAt(event).row }),
    );
    this.picture.addEventListener("keydown", (event) => this.pictureKey(event));
    this.drawGrid();
    this.drawLarge();
  }

  cancel() {
    this.stop?.abort();
    this.stop = new AbortController();
  }

  get head() {
    return subject.head ?? 0;
  }

  // The grid

  drawGrid() {
    const { layers, heads } = subject;
    const room = this.place.clientWidth - 40 - GUTTER - 12;
    this.cell = Math.min(MOST, Math.max(LEAST, Math.floor(room / heads) - GAP));
    this.context = onScale(this.grid, GUTTER + heads * (this.cell + GAP), TOP + layers.length * (this.cell + GAP));
    const side = Math.min(64, Math.round(this.cell * Math.min(2, devicePixelRatio || 1)));
    const of = `${subject.message.response}/${side}`;
    if (of !== this.imagesOf) Object.assign(this, { imagesOf: of, images: [] });
    this.numbers();
    this.fetchLayers(side, this.stop.signal);
  }

  numbers() {
    const { context, cell } = this;
    context.font = "12px llm-lite, sans-serif";
    context.fillStyle = color("--muted");
    context.textBaseline = "middle";
    const every = Math.ceil(22 / (cell + GAP));
    context.textAlign = "center";
    for (let head = 0; head < subject.heads; head += every)
      context.fillText(head, GUTTER + head * (cell + GAP) + cell / 2, TOP / 2);
    context.textAlign = "right";
    subject.layers.forEach((layer, row) =>
      context.fillText(layer, GUTTER - 7, TOP + row * (cell + GAP) + cell / 2),
    );
    this.drawCells();
  }

  drawCells() {
    for (const layer of subject.layers)
      for (let head = 0; head < subject.heads; head++) this.drawCell(layer, head);
  }

  /** Those of the layers that are not there yet, from above. */
  async fetchLayers(side, signal) {
    const { layers, message } = subject;
    const { response } = message;
    const waiting = layers.filter((layer) => !this.images[layer]);
    const work = async () => {
      for (let layer = waiting.shift(); layer !== undefined && !signal.aborted; layer = waiting.shift()) {
        const n = layers.indexOf(layer) + 1;
        this.gridNote.textContent = t("computing", { n, all: layers.length });
        const { bytes, side: found } = await mapsOf(response, layer, side, null, signal);
        if (signal.aborted) return;
        this.images[layer] = Array.from({ length: subject.heads }, (_, head) =>
          offscreen(bytes, found, head * found * found),
        );
        for (let head = 0; head < subject.heads; head++) this.drawCell(layer, head);
      }
    };
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      if (!signal.aborted) this.over(null);
    } catch (error) {
      if (!signal.aborted) this.gridNote.textContent = error.message;
    }
  }

  drawCell(layer, head) {
    const { context, cell } = this;
    const x = GUTTER + head * (cell + GAP);
    const y = TOP + subject.layers.indexOf(layer) * (cell + GAP);
    context.clearRect(x - 2, y - 2, cell + 4, cell + 4);
    context.fillStyle = GROUND;
    context.fillRect(x, y, cell, cell);
    const image = this.images[layer]?.[head];
    if (image) context.drawImage(image, x, y, cell, cell);
    const isChosen = layer === subject.layer && (subject.head === null ? head === 0 : head === subject.head);
    const isHovered = this.hovered?.layer === layer && this.hovered.head === head;
    if (!isChosen && !isHovered) return;
    context.strokeStyle = color(isChosen ? "--link" : "--muted");
    context.lineWidth = 2;
    context.strokeRect(x - 0.5, y - 0.5, cell + 1, cell + 1);
  }

  cellAt(event) {
    const { left, top } = this.grid.getBoundingClientRect();
    const head = Math.floor((event.clientX - left - GUTTER) / (this.cell + GAP));
    const layer = subject.layers[Math.floor((event.clientY - top - TOP) / (this.cell + GAP))];
    return layer !== undefined && head >= 0 && head < subject.heads ? { layer, head } : null;
  }

  over(cell) {
    if (cell?.layer === this.hovered?.layer && cell?.head === this.hovered?.head && cell) return;
    const before = this.hovered;
    this.hovered = cell;
    for (const one of [before, cell]) if (one) this.drawCell(one.layer, one.head);
    const at = cell || { layer: subject.layer, head: this.head };
    this.gridNote.textContent = t("layerHead", at);
  }

  press(event) {
    const cell = this.cellAt(event);
    if (cell) subject.choose(cell);
  }

  gridKey(event) {
    const { layer, layers } = subject;
    const { head } = this;
    const row = layers.indexOf(layer);
    const to = {
      ArrowLeft: { layer, head: head - 1 },
      ArrowRight: { layer, head: head + 1 },
      ArrowUp: { layer: layers[row - 1], head },
      ArrowDown: { layer: layers[row + 1], head },
      Home: { layer, head: 0 },
      End: { layer, head: subject.heads - 1 },
    }[event.key];
    if (!to) return;
    event.preventDefault();
    if (to.layer !== undefined && to.head >= 0 && to.head < subject.heads) {
      subject.choose(to);
      this.scrollTo(to.layer);
    }
  }

  scrollTo(layer) {
    const box = this.grid.parentElement;
    const y = TOP + subject.layers.indexOf(layer) * (this.cell + GAP);
    if (y < box.scrollTop + TOP) box.scrollTop = y - TOP;
    else if (y + this.cell > box.scrollTop + box.clientHeight)
      box.scrollTop = y + this.cell + GAP - box.clientHeight;
  }

  // One head

  chosen() {
    if (!this.shown || subject.state !== "whole" || !this.grid) return;
    const face = `${subject.layer}/${this.head}`;
    if (face !== this.face) {
      this.drawCells();
      this.over(null);
      this.drawLarge();
      return;
    }
    this.paintLarge();
    this.showRow();
  }

  async drawLarge() {
    const { layer } = subject;
    const { head } = this;
    this.face = `${layer}/${head}`;
    const focus = this.controls.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    this.controls.replaceChildren(layerSelect(), headSelect(false), hideFirst());
    if (focus) this.controls.querySelector(`[data-name="${focus}"]`)?.focus();
    const name = t("layerHead", { layer, head });
    this.picture.setAttribute("aria-label", t("headPicture", { name }));
    this.showRow();
    const { signal } = this.stop;
    try {
      const found = await mapsOf(subject.message.response, layer, LARGE, head, signal);
      if (signal.aborted || this.face !== `${layer}/${head}`) return;
      this.map = { ...found, image: offscreen(found.bytes, found.side) };
      this.paintLarge();
    } catch (error) {
      if (!signal.aborted) this.readout.textContent = error.message;
    }
  }

  paintLarge() {
    if (!this.map) return;
    const size = Math.min(this.place.clientWidth - 40, 480);
    this.size = size;
    const context = onScale(this.picture, size, size);
    context.fillStyle = GROUND;
    context.fillRect(0, 0, size, size);
    context.drawImage(this.map.image, 0, 0, size, size);
    const step = size / this.map.length;
    const line = (at, name) => {
      context.fillStyle = color(name);
      context.fillRect(0, (at + 0.5) * step - 1, size, 2);
    };
    line(subject.position, "--link");
    if (this.crossed) {
      context.strokeStyle = color("--edge");
      context.lineWidth = 1;
      const { row, column } = this.crossed;
      const thick = Math.max(step, 3);
      context.strokeRect(0, row * step, size, thick);
      context.strokeRect(column * step, 0, thick, size);
    }
  }

  placeAt(event) {
    const { left, top } = this.picture.getBoundingClientRect();
    const within = (value) =>
      Math.min(Math.max(Math.floor((value / this.size) * this.map.length), 0), this.map.length - 1);
    return { row: within(event.clientY - top), column: within(event.clientX - left) };
  }

  cross(place) {
    this.crossed = place;
    this.paintLarge();
    if (!place) {
      this.readout.textContent = t("layerHead", { layer: subject.layer, head: this.head });
      return;
    }
    const { row, column } = place;
    const { bytes, side, length } = this.map;
    const byte = bytes[Math.floor((row * side) / length) * side + Math.floor((column * side) / length)];
    const p = column > row ? 0 : probabilityOf(byte);
    const words = {
      from: subject.textAt(row),
      to: subject.textAt(column),
      i: row,
      j: column,
    };
    this.readout.textContent = t("looksAt", { ...words, p: column > row ? "–" : percent(p) });
  }

  pictureKey(event) {
    const at = this.crossed || { row: subject.position, column: subject.position };
    const by = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: [0, -by], ArrowRight: [0, by], ArrowUp: [-by, 0], ArrowDown: [by, 0] }[event.key];
    if (event.key === "Enter") subject.choose({ position: at.row });
    if (!to || !this.map) return;
    event.preventDefault();
    const within = (value) => Math.min(Math.max(value, 0), this.map.length - 1);
    this.cross({ row: within(at.row + to[0]), column: within(at.column + to[1]) });
  }

  positions() {
    const length = subject.tokens.texts.length;
    this.slider = el("input", { type: "range", min: 0, max: length - 1, "aria-label": t("position") });
    this.slider.addEventListener("input", () => subject.choose({ position: Number(this.slider.value) }));
    this.positionNote = el("span");
    return el("div", { class: "at-row" }, el("span", {}, t("position")), this.slider, this.positionNote);
  }

  async showRow() {
    const { position, layer, tokens } = subject;
    const { head } = this;
    const text = subject.textAt(position);
    this.slider.value = position;
    this.positionNote.textContent = `${position} “${text}”`;
    const face = `${layer}/${head}/${position}`;
    this.rowFace = face;
    const row = await attentionRow(subject.message.response, layer, [head], position).catch(() => null);
    if (!row || this.rowFace !== face || subject.tokens !== tokens) return; // another answer by now
    const rows = largest(row, 8, subject.hideFirst).map(({ p, at }) => ({
      p,
      text: subject.textAt(at),
      aside: at,
    }));
    this.rowList.replaceChildren(
      el("h2", {}, t("rowTitle", { text, at: position })),
      bars(rows),
    );
  }
}
