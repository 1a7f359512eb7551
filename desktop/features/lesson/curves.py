"""The activation of a feed-forward network: its name, and its curve."""

from __future__ import annotations

import math

from llm_lite.core.messages.inspecting.lesson import Curve

NAMES: dict[Curve, str] = {"silu": "SiLU", "gelu": "GELU", "relu": "ReLU"}


def activation(curve: Curve, x: float) -> float:
    """SiLU, ReLU, or GELU by its tanh approximation, as `core.exec.reference` defines them; by the
    error function GELU differs by 0.0005 at most."""
    match curve:
        case "silu":
            return x / (1.0 + math.exp(-x)) if x > -700.0 else 0.0
        case "relu":
            return max(x, 0.0)
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
