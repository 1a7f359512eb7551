"""Draw the heads that look for what followed last time, on random tokens said twice.

python tools/make_induction_picture.py    writes docs/pictures/induction.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.loading import loader
from llm_lite.core.messages import EngineOptions
from llm_lite.desktop.attention.colors import table
from llm_lite.desktop.render.png import write_png

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "induction.png"
HEADS = ((18, 6), (17, 3), (16, 0), (0, 0))  # induction twice, previous token, any other
TOKENS, SCALE, GAP = 64, 2, 12  # said twice; pixels a token; pixels between maps


def main() -> None:
    file = loader.open_model(None, lambda *_: None, print)
    options = EngineOptions(
        backend="cpu", mode="as-stored", activations="a32", keys="fp32", values="fp32", context=256
    )
    runner = loader.start(file, options, None, lambda *_: None)
    half = np.random.default_rng(0).integers(1000, 40_000, TOKENS).tolist()
    runner.session.prefill([*half, *half])
    source = runner.attention
    maps = []
    for layer, head in HEADS:
        out = np.empty((1, 2 * TOKENS, 2 * TOKENS), np.float32)
        head_maps(source, layer, [head], out)
        maps.append(_colored(out[0]))
    gap = np.full((maps[0].shape[0], GAP, 4), (18, 18, 22, 255), np.uint8)
    parts = [part for drawn in maps for part in (drawn, gap)][:-1]
    write_png(PICTURE, np.concatenate(parts, axis=1))
    runner.close()
    file.close()


def _colored(probabilities: np.ndarray) -> np.ndarray:
    """Return colours, logarithmic from 0.1 % to 1, dark for later positions; uint8 [pixels,
    pixels, 4]."""
    shown = 1 + np.log10(np.maximum(probabilities, 1e-3)) / 3
    rgba = table("viridis")[np.rint(shown * 255).astype(np.int64)]
    rgba[np.triu_indices(len(rgba), 1)] = (18, 18, 22, 255)
    return np.repeat(np.repeat(rgba, SCALE, axis=0), SCALE, axis=1)


if __name__ == "__main__":
    main()
