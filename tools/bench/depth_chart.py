"""The chart of `tools.bench.depth`: tokens per second against depth, ours and theirs, as SVG.

Depths stand side by side as they were measured; rates are on a logarithmic axis, where twice as
fast is the same distance everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 760, 400  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 190, 64, 56  # around the plot
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_LABEL_HEIGHT = 17
_OURS, _THEIRS = "ours", "theirs"
_STROKES = ("", " second", " third")  # of the caches in their order
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #57606a }
.title { font-size: 15px; font-weight: 600; fill: #1f2328 }
.grid { stroke: #d0d7de; stroke-width: 1 }
.line { fill: none; stroke-width: 2.5 }
.second { stroke-dasharray: 6 4 }
.third { stroke-dasharray: 2 4 }
.ours { stroke: #0969da } .theirs { stroke: #bc4c00 }
.dot.ours, text.ours { fill: #0969da; stroke: none }
.dot.theirs, text.theirs { fill: #bc4c00; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 } .title { fill: #f0f6fc } .grid { stroke: #3d444d }
  .ours { stroke: #58a6ff } .theirs { stroke: #f0883e }
  .dot.ours, text.ours { fill: #58a6ff } .dot.theirs, text.theirs { fill: #f0883e }
}
"""

Points = list[tuple[int, float]]  # depths and tokens per second


def chart(report: dict[str, Any]) -> str:
    points = [point for point in report["points"] if point["what"] == "decode"]
    depths = sorted({point["depth"] for point in points})
    rates = [point[whose]["median"] for point in points for whose in (_OURS, _THEIRS)]
    plot = _Plot(depths, min(rates), max(rates))
    title, machine = "Tokens decoded per second far into a context", report["machine"]
    about = f"{report['model']}; {machine['processor']}, {machine['threads']} threads"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{_LEFT}" y="22">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="42">{escape(about)}</text>',
        *plot.axes(),
        *_curves(plot, points),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


class _Plot:
    def __init__(self, depths: list[int], least: float, most: float) -> None:
        self.depths = depths
        below = [tick for tick in _TICKS if tick <= least] or [_TICKS[0]]
        above = [tick for tick in _TICKS if tick >= most] or [_TICKS[-1]]
        self.low, self.high = below[-1], above[0]

    def x(self, depth: int) -> float:
        each = (_WIDTH - _LEFT - _RIGHT) / max(1, len(self.depths) - 1)
        return _LEFT + each * self.depths.index(depth)

    def y(self, rate: float) -> float:
        part = math.log(rate / self.low) / math.log(self.high / self.low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self) -> Iterator[str]:
        right = _WIDTH - _RIGHT
        for tick in (t for t in _TICKS if self.low <= t <= self.high):
            y = self.y(tick)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>'
        for depth in self.depths:
            place = f'x="{self.x(depth):.1f}" y="{_HEIGHT - _BOTTOM + 22}" text-anchor="middle"'
            yield f"<text {place}>{depth:,}</text>"
        middle = (_LEFT + right) / 2
        words = "tokens in the cache (tokens per second on a logarithmic axis)"
        yield f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">{words}</text>'


def _curves(plot: _Plot, points: list[dict[str, Any]]) -> Iterator[str]:
    labels: list[tuple[float, str, str]] = []  # y, whose, text
    caches = list(dict.fromkeys(point["cache"] for point in points))
    for number, cache in enumerate(caches):
        own = [point for point in points if point["cache"] == cache]
        for whose in (_OURS, _THEIRS):
            found = sorted((point["depth"], point[whose]["median"]) for point in own)
            yield from _curve(plot, found, f"{whose}{_STROKES[number]}", whose)
            name = f"llm-lite, {cache}" if whose == _OURS else f"llama.cpp, {own[0]['peer']}"
            labels.append((plot.y(found[-1][1]), whose, f"{name}: {found[-1][1]:.0f}"))
    for y, whose, text in apart(labels):
        x = _WIDTH - _RIGHT + 12
        yield f'<text class="{whose}" x="{x}" y="{y + 4:.1f}">{escape(text)}</text>'


def _curve(plot: _Plot, points: Points, kind: str, whose: str) -> Iterator[str]:
    path = " ".join(f"{plot.x(depth):.1f},{plot.y(rate):.1f}" for depth, rate in points)
    yield f'<polyline class="line {kind}" points="{path}"/>'
    for depth, rate in points:
        x, y = plot.x(depth), plot.y(rate)
        yield f'<circle class="dot {whose}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'


def apart(labels: list[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    """Return the labels from above to below, moved down where one would lie on the one before."""
    placed: list[tuple[float, str, str]] = []
    for y, whose, text in sorted(labels):
        lowest = placed[-1][0] + _LABEL_HEIGHT if placed else y
        placed.append((max(y, lowest), whose, text))
    return placed
