"""What one head makes of a token: its vectors, its scores, its output, and the other heads'."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.inspect.lesson.one_head import HeldKeys, look, scores_of
from llm_lite.core.inspect.lesson.vectors import part, rms
from llm_lite.core.messages.inspecting.lesson import HeadTrace
from llm_lite.core.records import dataclass

F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class HeadRows:
    """Of one token, of all heads side by side: float32 [heads * d], key_raw [kv_heads * d]."""

    query_raw: F32
    query: F32
    key_raw: F32 | None
    outputs: F32


def trace_head(held: HeldKeys, head: int, rows: HeadRows, seen: range, gain: float) -> HeadTrace:
    """`seen`: positions that are told, all of which the head sees. Key and value are the token's
    own, or of the last of these where it sees another text."""
    layer, d = held.layer, held.layer.head_dim
    own = slice(head * d, (head + 1) * d)
    group = head * layer.kv_heads // layer.heads
    view = look(held, head, rows.query[own])
    keys, values = (held.of_head(tensor, head, seen) for tensor in (held.keys, held.values))
    inside = slice(seen.start - view.first, seen.stop - view.first)
    at = held.position - seen.start if held.position in seen and not layer.cross else -1
    raw = None if rows.key_raw is None else rows.key_raw[group * d : (group + 1) * d]
    outputs = rows.outputs.reshape(layer.heads, d)
    return HeadTrace(
        part(rows.query_raw[own]),
        part(rows.query[own]),
        None if raw is None else part(raw),
        part(keys[at]),
        part(values[at]),
        scores_of(view, seen, keys, values),
        len(view.dots) - len(seen),
        _outside(view.probabilities, inside),
        _outside(view.unscaled, inside),
        view.sink,
        view.sink_unscaled,
        gain,
        part(outputs[head]),
        tuple(rms(output) for output in outputs),
    )


def _outside(shares: F32, inside: slice) -> float:
    """The sum of those that are not inside."""
    beyond = shares[: inside.start], shares[inside.stop :]
    return float(sum(some.sum(dtype=np.float64) for some in beyond))
