"""A profiled step as a flame: rows of spans, and the time by kind of operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, groupby

from msgspec import Struct

from llm_lite.core.messages import OpTime, StepProfile
from llm_lite.desktop.language.translate import mark, tr

LEVELS = 3  # of the flame: layer, part, operation
COLOURS = 8  # of the theme's series; kinds that take less time than so many others share one
OTHERS = COLOURS  # the colour's number for these
WAITING = mark("between operations")


class FlameSpan(Struct, frozen=True):
    """Operations first..last-1 in a row of the flame; seconds from the beginning of the step."""

    words: str
    first: int
    last: int
    begin: float
    seconds: float
    read_bytes: int
    series: int = -1  # colour, at most OTHERS; -1: a part, not an operation


class KindTime(Struct, frozen=True):
    words: str
    count: int
    seconds: float
    read_bytes: int


class LaidSpan(Struct, frozen=True):
    """A profile made ready to be drawn every frame."""

    profile: StepProfile
    rows: tuple[tuple[FlameSpan, ...], ...]
    kinds: tuple[KindTime, ...]  # with what lies between operations, where there is such time
    seconds: float  # of the step

    def share(self, seconds: float) -> float:
        """Return what part of the step so many seconds are, 0 to 1, of spans and kinds alike."""
        return seconds / self.seconds if self.seconds else 0.0


def lay_out(profile: StepProfile) -> LaidSpan:
    found = kinds(profile.ops)
    rows = flame(profile, [kind.words for kind in found])
    busy = sum(op.seconds for op in profile.ops)
    between = profile.seconds - busy
    if between > 0:
        found.append(KindTime(WAITING, 0, between, 0))
    return LaidSpan(profile, rows, tuple(found), max(profile.seconds, busy))


def flame(profile: StepProfile, names: Sequence[str]) -> tuple[tuple[FlameSpan, ...], ...]:
    """Return rows from the whole to the single: layers, their parts, operations; `names` are the
    kinds in the order of their colours."""
    ends = [0.0, *accumulate(op.seconds for op in profile.ops)]

    def span(first: int, last: int, words: str, series: int = -1) -> FlameSpan:
        read = sum(op.read_bytes for op in profile.ops[first:last])
        return FlameSpan(words, first, last, ends[first], ends[last] - ends[first], read, series)

    rows = []
    for level in range(LEVELS - 1):
        parts = groupby(enumerate(profile.ops), partial(_part, level + 1))
        spans = [(path, [number for number, _ in ops]) for path, ops in parts]
        rows.append(tuple(span(n[0], n[-1] + 1, _words(path, level)) for path, n in spans))
    rows.append(
        tuple(
            span(n, n + 1, path_of(op)[-1], color_of(names.index(_kind(op))))
            for n, op in enumerate(profile.ops)
        )
    )
    return tuple(rows)


def color_of(number: int) -> int:
    """Return the number of a kind's colour, by its place among the slowest."""
    return min(number, OTHERS)


def _part(length: int, numbered: tuple[int, OpTime]) -> tuple[str, ...]:
    return path_of(numbered[1])[:length]


def _words(path: tuple[str, ...], level: int) -> str:
    return path[level] if len(path) > level else ""


def kinds(ops: Sequence[OpTime]) -> list[KindTime]:
    """Return kinds of operations, the slowest first. Products are told apart by their matrix."""
    found: dict[str, KindTime] = {}
    for op in ops:
        words = _kind(op)
        was = found.get(words, KindTime(words, 0, 0.0, 0))
        seconds, read = was.seconds + op.seconds, was.read_bytes + op.read_bytes
        found[words] = KindTime(words, was.count + 1, seconds, read)
    return sorted(found.values(), key=lambda kind: -kind.seconds)


def _kind(op: OpTime) -> str:
    return f"product {path_of(op)[-1]}" if op.name == "matmul" else op.name.replace("_", " ")


def shown(words: str) -> str:
    """Return the words of a span or a kind in the language in use; names of operations stay."""
    first, _, rest = words.partition(" ")
    if first == "layer" and rest:
        return tr("layer {name}").format(name=rest)
    return tr("product {name}").format(name=rest) if first == "product" and rest else tr(words)


def path_of(op: OpTime) -> tuple[str, ...]:
    """Return the parts of an operation's path: layers.3.attention.q has layer 3, attention and
    q."""
    parts = op.label.split(".")
    if parts[0] == "layers" and len(parts) > 1:
        return (f"layer {parts[1]}", *(part.replace("_", " ") for part in parts[2:]))
    return tuple(part.replace("_", " ") for part in parts)


def shared_parts(ops: Sequence[OpTime]) -> int:
    """Return how many parts at the beginning of their paths the operations share, at least one."""
    paths = [path_of(op) for op in ops]
    shared = 0
    while all(len(p) > shared and p[shared] == paths[0][shared] for p in paths):
        shared += 1
    return max(1, shared)
