"""Draw assets/icon/llm-lite.png: a causal attention map in a rounded square.

python tools/make_icon.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_lite.desktop.render.png import write_png

ASSETS = Path(__file__).resolve().parent.parent / "assets"

SIZE, SAMPLES = 256, 4  # pixels, samples a pixel side
TOP, BOTTOM = (0.16, 0.20, 0.31), (0.09, 0.11, 0.17)
WEAK, STRONG = (0.30, 0.42, 0.72), (0.45, 0.86, 0.80)
# Row = query, column = key; how much the query looks at the key.
WEIGHTS = np.array([[1.0, 0, 0, 0], [0.45, 0.8, 0, 0], [0.7, 0.2, 1.0, 0], [0.3, 0.95, 0.4, 0.75]])


def main() -> None:
    side = SIZE * SAMPLES
    y, x = np.mgrid[0:side, 0:side] / side + 0.5 / side
    ramp = y[..., None]
    color = np.array(TOP) * (1 - ramp) + np.array(BOTTOM) * ramp
    for row, column in zip(*np.nonzero(WEIGHTS), strict=True):
        center = 0.245 + 0.17 * column, 0.245 + 0.17 * row
        cell = rounded(x - center[0], y - center[1], 0.07, 0.022)[..., None]
        weight = WEIGHTS[row, column]
        paint = np.array(WEAK) * (1 - weight) + np.array(STRONG) * weight
        color = color * (1 - cell) + paint * cell
    alpha = rounded(x - 0.5, y - 0.5, 0.48, 0.11)[..., None]
    rgba = np.concatenate([color, alpha], axis=-1)
    pixels = rgba.reshape(SIZE, SAMPLES, SIZE, SAMPLES, 4).mean(axis=(1, 3))
    (ASSETS / "icon").mkdir(exist_ok=True)
    write_png(ASSETS / "icon" / "llm-lite.png", (pixels * 255).round().astype(np.uint8))


def rounded(x: NDArray[np.float64], y: NDArray[np.float64], half: float, radius: float):
    """Return 1 inside a square of side 2 * half with rounded corners, 0 outside."""
    dx, dy = np.maximum(np.abs(x) - half + radius, 0), np.maximum(np.abs(y) - half + radius, 0)
    return (np.hypot(dx, dy) <= radius).astype(float)


if __name__ == "__main__":
    main()
