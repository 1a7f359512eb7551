"""Traces of tokens that another llm-lite sends: they are checked before the lesson draws them."""

from __future__ import annotations

from typing import Any

from msgspec import ValidationError, convert

from llm_lite.core.messages import FollowToken, TokenTrace
from llm_lite.core.messages.inspecting.lesson import (
    MOST_LOGITS,
    MOST_NEURONS,
    MOST_TOKENS,
    MOST_VALUES,
    TEMPERATURES,
)

MOST_LAYERS = 1024


def trace_of(found: Any, asked: FollowToken) -> TokenTrace:
    """Return the trace of a token from JSON. ValidationError where it is none, or its parts do not
    belong together."""
    trace = convert(found, TokenTrace)
    shape, opened = trace.shape, trace.opened
    sizes = shape.layers, shape.width, shape.heads, shape.kv_heads, shape.head_dim
    vectors = trace.row, trace.embedded, trace.final, opened.head.query, opened.head.key
    for what, belongs in (
        ("sizes", all(0 < one < 1 << 24 for one in sizes) and shape.path == "decoder"),
        ("position", trace.position == asked.position and 0 <= trace.layer < shape.layers),
        ("head", 0 <= trace.head < shape.heads == len(opened.head.outputs)),
        ("tokens", 0 < len(trace.tokens) == len(trace.texts) <= MOST_TOKENS),
        ("scores", 0 < len(opened.head.scores) <= len(trace.tokens)),
        ("layers", len(trace.growth) == shape.layers <= MOST_LAYERS),
        ("logits", len(trace.distribution.tails) == len(TEMPERATURES)),
        ("logits", 0 < len(trace.distribution.top) <= MOST_LOGITS),
        ("neurons", 0 < len(opened.feed_forward.neurons) <= MOST_NEURONS),
        ("vectors", all(0 < len(one.values) <= MOST_VALUES for one in vectors)),
    ):
        if not belongs:
            raise ValidationError(f"its {what} do not belong together")
    return trace
