// Colours of maps: viridis, as in the window, on a logarithmic scale from 0.01 % to 100 %.
const STOPS = ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"].map(
  (hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)),
);
export const FLOOR = 1e-4;

/** [r, g, b] of a share from 0 to 1. */
export function viridis(share) {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, channel) =>
    Math.round(value + (STOPS[low + 1][channel] - value) * (at - low)),
  );
}

/** 256 colours, four bytes each. */
export const ramp = (() => {
  const made = new Uint8ClampedArray(1024);
  for (let at = 0; at < 256; at++) made.set([...viridis(at / 255), 255], at * 4);
  return made;
})();

export const probabilityOf = (byte) => (byte === 0 ? 0 : FLOOR ** (1 - byte / 255));

/** Bytes [side, side] into an ImageData. What no row looks at yet stays clear: a token looks back. */
export function pixels(bytes, side, at = 0) {
  const image = new ImageData(side, side);
  const words = new Uint32Array(image.data.buffer);
  const colors = new Uint32Array(ramp.buffer);
  for (let row = 0; row < side; row++) {
    for (let column = 0; column <= row; column++)
      words[row * side + column] = colors[bytes[at + row * side + column]];
  }
  return image;
}

/** The tint of a share of attention on a page: its ground, and whether dark or light text reads on it. */
export function attentionTint(share, isDark) {
  if (share < 0.02) return null;
  const base = isDark ? [22, 24, 29] : [255, 255, 255];
  const ground = viridis(share).map((value, channel) =>
    Math.round(base[channel] + (value - base[channel]) * (0.25 + 0.75 * share)),
  );
  return { ground: `rgb(${ground.join(" ")})`, text: luminance(ground) > 0.179 ? "dark-on" : "light-on" };
}

/** As WCAG has it. */
function luminance(color) {
  const [r, g, b] = color.map((value) =>
    value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The less likely, the stronger. */
export function likelihoodTint(p) {
  if (!(p < 0.9)) return null;
  const strength = Math.round(Math.min(1, (1 - p) ** 1.5) * 78);
  return `color-mix(in srgb, var(--tint-low) ${strength}%, transparent)`;
}

/** A strip of all colours. */
export function legendCanvas() {
  const canvas = document.createElement("canvas");
  canvas.width = 64;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  for (let at = 0; at < 64; at++) {
    context.fillStyle = `rgb(${viridis(at / 63).join(" ")})`;
    context.fillRect(at, 0, 1, 1);
  }
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}
