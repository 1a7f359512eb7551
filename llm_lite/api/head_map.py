"""The attention of one head as a picture for a notebook."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.api.token_text import visible

_BLUE = (59, 130, 246)
_LABELLED = 48  # tokens, at most, whose texts stand beside the picture
_SIDE = 480  # pixels of a picture, at least about as many
_LONGEST = 14  # characters of a label


class HeadMap:
    """`weights` float32 [n, n]: how much each token (a row) looks at each (a column).

    Row and column 0 are the first token. `np.asarray` of it gives the weights.
    """

    def __init__(
        self, tokens: Sequence[str], weights: NDArray[np.float32], layer: int, head: int
    ) -> None:
        self.tokens, self.weights = tuple(tokens), weights
        self.layer, self.head = layer, head

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.weights, dtype, copy=copy)

    def __repr__(self) -> str:
        return f"<HeadMap of layer {self.layer}, head {self.head}: {len(self.tokens)} tokens>"

    def _repr_html_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """Return the picture as SVG, with the texts of the tokens if there are no more than 48."""
        n = len(self.tokens)
        side = max(4, _SIDE // n if n <= _LABELLED else _SIDE // n + 1) if n < _SIDE else 1
        size, size_of_text = side * n, min(13, max(8, side - 2))
        longest = max(map(len, map(_label, self.tokens))) if n <= _LABELLED else 0
        margin = 12 + int(0.68 * size_of_text * longest)  # of a wide letter's width
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{margin + size + 8}" '
            f'height="{margin + size + 8}" font-family="ui-sans-serif, system-ui, sans-serif" '
            f'font-size="{size_of_text}" fill="currentColor" role="img" '
            f'aria-label="{escape(self._caption())}"><title>{escape(self._caption())}</title>',
            f'<image x="{margin}" y="{margin}" width="{size}" height="{size}" '
            f'style="image-rendering: pixelated" href="data:image/png;base64,{self._png()}"/>',
            f'<rect x="{margin}" y="{margin}" width="{size}" height="{size}" fill="none" '
            'stroke="currentColor" stroke-opacity="0.35"/>',
        ]
        if n <= _LABELLED:
            parts += [_labels(i, text, margin, side) for i, text in enumerate(self.tokens)]
        return "".join(parts) + "</svg>"

    def _caption(self) -> str:
        return f"Layer {self.layer}, head {self.head}: each row a token, and where it looks"

    def _png(self) -> str:
        """Return a PNG in base64 with one pixel a weight, as opaque as the weight is large, so that
        it can be read on light and on dark."""
        n = len(self.tokens)
        pixels = np.empty((n, n, 4), np.uint8)
        pixels[..., :3] = _BLUE
        pixels[..., 3] = np.nan_to_num(np.sqrt(np.clip(self.weights, 0, 1))) * 255
        lines = np.hstack([np.zeros((n, 1), np.uint8), pixels.reshape(n, 4 * n)])
        header = struct.pack(">IIBBBBB", n, n, 8, 6, 0, 0, 0)  # 8-bit RGBA
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
        return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*p) for p in parts)).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _label(token: str) -> str:
    text = visible(token).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _labels(index: int, text: str, margin: int, side: int) -> str:
    """Return a token's label twice: left of its row, and upright above its column."""
    shown = escape(_label(text))
    at, beside = margin + side * (index + 0.5), margin - 6
    return (
        f'<text x="{beside}" y="{at}" text-anchor="end" dominant-baseline="central">{shown}</text>'
        f'<text transform="translate({at} {beside}) rotate(-90)" dominant-baseline="central">'
        f"{shown}</text>"
    )
