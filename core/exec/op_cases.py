"""Cases of ops for tests of an executor: each builds the op over inputs that embeddings supply. And
formulas of elementwise ops for single values, which `reference.py` is tested by."""

from __future__ import annotations

import math
from collections.abc import Callable

from llm_lite.core.plan.builder import PlanBuilder
from llm_lite.core.plan.plan import Tensor

# Of ops that neither multiply by a matrix nor read a cache: two inputs of the same size; the weight
# "w" is a vector of that width.
COLUMN_CASES: dict[str, Callable[[PlanBuilder, Tensor, Tensor], Tensor]] = {
    "silu_mul": lambda b, x, y: b.silu_mul(x, y, "out"),
    "sigmoid_mul": lambda b, x, y: b.sigmoid_mul(x, y, "out"),
    "gelu_mul": lambda b, x, y: b.gelu_mul(x, y, "out"),
    "clamped_silu_mul": lambda b, x, y: b.clamped_silu_mul(x, y, "out", alpha=1.7, limit=2.5),
    "token_gate": lambda b, x, y: b.token_gate(x, y, b.weight("w"), "out"),
    "gelu": lambda b, x, y: b.gelu(x, "out"),
    "gelu_erf": lambda b, x, y: b.gelu_erf(x, "out"),
    "silu": lambda b, x, y: b.silu(x, "out"),
    "relu": lambda b, x, y: b.relu(x, "out"),
    "add": lambda b, x, y: b.add(x, y, "out"),
    "mul": lambda b, x, y: b.mul(x, y, "out"),
    "add_bias": lambda b, x, y: b.add_bias(x, b.weight("w"), "out"),
    "add_bias of outputs": lambda b, x, y: b.add_bias(
        b.output_rows(x, "rows"), b.weight("w"), "out"
    ),
    "layer_norm": lambda b, x, y: b.layer_norm(x, b.weight("w"), None, 1e-5, "out"),
    "layer_norm with a bias": lambda b, x, y: b.layer_norm(
        y, b.weight("w"), b.weight("w"), 1e-5, "out"
    ),
    "layer_norm of outputs": lambda b, x, y: b.layer_norm(
        b.output_rows(x, "rows"), b.weight("w"), b.weight("w"), 0.5, "out"
    ),
    "scale": lambda b, x, y: b.scale(x, "out", factor=0.3),
    "weighted scale": lambda b, x, y: b.scale(x, "out", factor=0.3, weight=b.weight("w")),
    "softcap": lambda b, x, y: b.softcap(x, "out", scale=0.1, cap=30.0),
    "softcap of much": lambda b, x, y: b.softcap(
        b.scale(x, "big", factor=200.0), "out", scale=0.5, cap=9.0
    ),
    "sparsify": lambda b, x, y: b.sparsify(y, "out", deviations=0.7),
    "sparsify below the mean": lambda b, x, y: b.sparsify(x, "out", deviations=-0.5),
    "match_rms": lambda b, x, y: b.match_rms(y, x, 1e-5, "out"),
    "match_rms of little": lambda b, x, y: b.match_rms(
        b.scale(y, "little", factor=1e-8), x, 1e-5, "out"
    ),
    "concat": lambda b, x, y: b.concat(x, b.concat(y, x, "inner"), "out"),
    "first column": lambda b, x, y: b.columns(x, "out", first=0, count=1),
    "last columns": lambda b, x, y: b.columns(
        x, "out", first=x.shape[1] // 2, count=x.shape[1] - x.shape[1] // 2
    ),
    "runs of columns": lambda b, x, y: b.columns(
        b.concat(x, y, "both"), "out", first=0, count=2, run=1, stride=x.shape[1]
    ),
    "add_streams": lambda b, x, y: b.add_streams(b.concat(x, y, "both"), x, "out", first=1),
    "altup_correct": lambda b, x, y: b.altup_correct(
        b.concat(x, y, "both"),
        y,
        b.columns(b.concat(x, y, "c"), "two", first=0, count=2),
        "out",
        active=1,
    ),
    "altup_predict": lambda b, x, y: b.altup_predict(
        b.concat(x, y, "both"),
        b.columns(b.concat(b.concat(x, y, "f"), b.concat(y, x, "g"), "h"), "4", first=0, count=4),
        "out",
    ),
}

# Of other ops whose rows are those of one input: columns must be a multiple of 16.
ROW_CASES: dict[str, Callable[[PlanBuilder, Tensor, Tensor], Tensor]] = {
    "rms_norm": lambda b, x, y: b.rms_norm(x, b.weight("w"), 1e-5, "out"),
    "rms_norm without weights": lambda b, x, y: b.rms_norm(x, None, 1e-6, "out", width=16),
    "rope of halves": lambda b, x, y: b.rope(
        x, "out", head_dim=16, rotary_dim=16, theta=1e4, half_split=True
    ),
    "rope of pairs": lambda b, x, y: b.rope(x, "out", head_dim=16, rotary_dim=8, theta=5e5),
    "output_rows": lambda b, x, y: b.output_rows(x, "out"),
    "route": lambda b, x, y: b.route(x, "out", count=3, normalized=True)[1],
    "expert_sum": lambda b, x, y: _expert_sum(b, x, y),
    "shift": lambda b, x, y: b.shift(
        x, b.state("shifts", "f32", (3, x.shape[1]), fill=0.3), "out", layer=2
    ),
}


def _expert_sum(b: PlanBuilder, x: Tensor, y: Tensor) -> Tensor:
    """Return rows that experts have, added up again: their order, copies and sum."""
    experts, shares = b.route(y, "route", count=2)
    places, _ = b.expert_places(experts, "places", count=y.shape[1])
    return b.expert_sum(b.expert_rows(x, places, b.weight("x"), "rows"), places, shares, "out")


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Of an elementwise op: what one value of y is of those at its place, and parameters to try.
FORMULAS: dict[str, tuple[dict[str, float], Callable[..., float]]] = {
    "silu_mul": ({}, lambda gate, up: gate * _sigmoid(gate) * up),
    "sigmoid_mul": ({}, lambda gate, x: _sigmoid(gate) * x),
    "gelu_mul": ({}, lambda gate, up: _gelu(gate) * up),
    "clamped_silu_mul": (
        {"alpha": 1.7, "limit": 7.0},
        lambda gate, up: (
            min(gate, 7.0) * _sigmoid(1.7 * min(gate, 7.0)) * (1 + max(-7.0, min(up, 7.0)))
        ),
    ),
    "gelu": ({}, _gelu),
    "gelu_erf": ({}, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "silu": ({}, lambda x: x * _sigmoid(x)),
    "relu": ({}, lambda x: max(x, 0.0)),
    "add": ({}, lambda a, b: a + b),
    "mul": ({}, lambda a, b: a * b),
    "softcap": ({"scale": 1 / 30, "cap": 30.0}, lambda x: 30 * math.tanh(x / 30)),
}
