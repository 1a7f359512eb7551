"""The least and largest values that numbers of a model's description can have, in any file."""

from __future__ import annotations

Range = tuple[float, float]  # both among them

EPSILON: Range = (1e-20, 1.0)  # added to a mean square
ROPE_BASE: Range = (1.0, 1e15)
ROPE_FACTOR: Range = (1e-3, 1e6)  # that positions are divided by
SOFTCAP: Range = (1e-3, 1e6)
MULTIPLIER: Range = (1e-6, 1e6)  # of activations, scores or logits
DEVIATIONS: Range = (-100.0, 100.0)

LARGEST_CONTEXT = 1 << 30  # tokens
LARGEST_COUNT = 4096  # of layers, heads, and values of a head
LARGEST_WIDTH = 1 << 24
LARGEST_VOCABULARY = 1 << 24


def text_of(limits: Range) -> str:
    return f"a number from {limits[0]:g} to {limits[1]:g}"
