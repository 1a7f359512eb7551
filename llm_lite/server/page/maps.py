"""Attention as pictures: rows of a response's heads, at the resolution of the screen.

A map of 2,000 tokens has four million numbers, and a model hundreds of heads. What a browser draws
is a byte for each of its pixels: the largest probability that falls into it, on a logarithmic
scale, so that 0 is 0.01 % or less and 255 is all.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from llm_lite.core.errors import GoneError
from llm_lite.core.serving.service import Service
from llm_lite.server.page.bodies import count
from llm_lite.server.page.row import Row
from llm_lite.server.shared import Shared

U8 = NDArray[np.uint8]
FLOOR = 1e-4  # the least probability that is told from none
_MOST_NUMBERS = 4_000_000  # that are held at once
_MOST_MADE = 8_000_000  # pixels of all heads
_MOST_PIXELS = 1024  # a side
_LONGEST_NAME = 200  # characters of a response's name
_MOST_ROWS_A_PIXEL = 4  # of a longer map, some rows stand for those around them


class Maps:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def rows(self) -> list[Row]:
        return [Row("/page/maps", "GET", self._maps)]

    async def _maps(self, request: Request) -> Response:
        """`heads` bytes [side, side] each behind the other, row by row, of one layer: of all heads,
        or of `head`. X-Length says of how many tokens."""
        service, name = self._shared.service(), _response(request)
        model = service.model
        layer = count(request, "layer", 0, 0, model.layers - 1)
        side = count(request, "side", 32, 4, _MOST_PIXELS)
        chosen = count(request, "head", model.heads, 0, model.heads)
        heads = list(range(model.heads)) if chosen == model.heads else [chosen]
        made, length = await run_in_threadpool(pictures, service, name, layer, heads, side)
        headers = {
            "X-Length": str(length),
            "X-Side": str(made.shape[1]),
            "Cache-Control": "no-store",
        }
        return Response(made.tobytes(), media_type="application/octet-stream", headers=headers)


def _response(request: Request) -> str:
    return request.query_params.get("response", "")[:_LONGEST_NAME]


def pictures(
    service: Service, response: str, layer: int, heads: list[int], side: int
) -> tuple[U8, int]:
    """Bytes [heads, side, side], side at most the length, and the length: queries run downwards,
    keys to the right. Rows whose queries are not kept are 0."""
    held = service.answer_tokens(response)
    length = len(held.tokens)
    if not length:
        raise GoneError(f"{response}: the cache holds nothing of it any more")
    side = min(side, length, isqrt(_MOST_MADE // len(heads)))
    edges = np.linspace(0, length, side + 1).astype(np.intp)  # of pixels, in tokens
    made = np.zeros((len(heads), side, side), np.float32)
    for start, stop in _spans(
        edges, held.first_query, max(1, _MOST_NUMBERS // (len(heads) * length))
    ):
        rows = service.attention(response, layer, heads, start, stop)
        columns = np.maximum.reduceat(rows, edges[:-1], axis=2)
        pixels = np.searchsorted(edges, np.arange(start, stop), side="right") - 1
        for row, pixel in enumerate(pixels):
            np.maximum(made[:, pixel], columns[:, row], out=made[:, pixel])
    return scaled(made), length


def _spans(edges: NDArray[np.intp], kept: int, at_once: int) -> list[tuple[int, int]]:
    """Rows from `kept` on, in parts of at most `at_once`: all of them, or where a part a pixel
    makes fewer parts, the last of each pixel's rows."""
    length, side = int(edges[-1]), len(edges) - 1
    if (length - kept) <= side * at_once:
        return [(at, min(at + at_once, length)) for at in range(kept, length, at_once)]
    few = min(at_once, _MOST_ROWS_A_PIXEL)
    spans = ((max(kept, int(last) - few), int(last)) for last in edges[1:])
    return [(first, last) for first, last in spans if first < last]


def scaled(probabilities: NDArray[np.float32]) -> U8:
    """0..255 on a logarithmic scale from FLOOR to 1."""
    with np.errstate(divide="ignore"):
        share = 1 - np.log(np.maximum(probabilities, FLOOR)) / np.log(FLOOR)
    bytes_: U8 = np.rint(np.clip(share, 0, 1) * 255).astype(np.uint8)
    return bytes_
