// Canvases: their colours, their pixels, their sharpness.
import { el, styled } from "../base/dom.js";
import { pixels } from "./colors.js";

/** A colour of the theme: canvases know no variables. */
export function color(name) {
  const probe = styled(el("i"), { color: `var(${name})` });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A map's bytes as a picture that can be drawn at any size. */
export function offscreen(bytes, side, at = 0) {
  const canvas = el("canvas", { width: side, height: side });
  canvas.getContext("2d").putImageData(pixels(bytes, side, at), 0, 0);
  return canvas;
}

/** A context in CSS pixels, as sharp as the screen. */
export const onScale = (canvas, width, height) => {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  styled(canvas, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  return context;
};
