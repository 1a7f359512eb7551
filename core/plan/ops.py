"""The op table: every operation a model may use, once, by name.

A row here, a method in `builder.py`, a function in `exec/reference.py`, a file in kernels_cpp/ops/
and one in kernels_glsl/ share the op's name. `exec/reference.py` defines what an op computes; this
table defines its operands. Shapes: T tokens of the step, O the last tokens whose logits are asked
for, K inputs, N outputs, C positions of the cache, H query heads, G key/value heads, d head width,
S streams of a residual (AltUp), which lie side by side in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class OpSpec:
    """Operands in order. One whose name ends in `?` may be left out, at the end only."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: tuple[str, ...]
    meaning: str


_TABLE = (
    OpSpec("embed", ("table",), ("x",), (), "x[T,K] = table[token of the step]"),
    OpSpec(
        "table_rows",
        ("table",),
        ("x",),
        (),
        "x[T,K] = table[token], row 0 for tokens beyond it; the host reads the rows where they lie",
    ),
    OpSpec(
        "rms_norm",
        ("x", "weight?"),
        ("y",),
        ("eps", "width"),
        "y = x / sqrt(mean(x^2) + eps) * weight[width], over each `width` values of a row",
    ),
    OpSpec("quantize", ("x",), ("y",), (), "y = x in int8 blocks of 32 (dtype a8)"),
    OpSpec("matmul", ("x", "weight"), ("y",), (), "y[T,N] = x[T,K] . weight[N,K]^T, x f32 or a8"),
    OpSpec(
        "rope",
        ("x", "factors?"),
        ("y",),
        ("head_dim", "rotary_dim", "theta", "scale", "half_split"),
        "y = x[T,H*d] turned by its position; half_split pairs (i, i+dim/2), else (2i, 2i+1)",
    ),
    OpSpec(
        "store",
        ("rows", "rows?", "rows?"),
        ("cache", "cache?", "cache?"),
        (),
        "cache[position of t mod its R rows] = rows[t], T <= R, for keys, values and queries",
    ),
    OpSpec(
        "attention",
        ("q", "k_cache", "v_cache", "gains"),
        ("y",),
        ("heads", "kv_heads", "head_dim", "scale", "window", "layer"),
        "y[T,H*d] = gains[layer,h] * softmax(q.k * scale) . v, causal; the last `window` positions "
        "only if > 0; C < context is a ring and holds window + T - 1 positions or more",
    ),
    OpSpec("silu_mul", ("gate", "up"), ("y",), (), "y = gate * sigmoid(gate) * up"),
    OpSpec("gelu_mul", ("gate", "up"), ("y",), (), "y = gelu(gate) * up, by tanh"),
    OpSpec("add", ("a", "b"), ("y",), (), "y = a + b"),
    OpSpec("scale", ("x", "weight?"), ("y",), ("factor",), "y = x * factor * weight[K]"),
    OpSpec("softcap", ("x",), ("y",), ("scale", "cap"), "y = cap * tanh(x * scale)"),
    OpSpec(
        "sparsify", ("x",), ("y",), ("deviations",), "y = relu(x - mean(x) - deviations * std(x))"
    ),
    OpSpec("columns", ("x",), ("y",), ("first",), "y[T,N] = x[T, first : first + N]"),
    OpSpec("concat", ("a", "b"), ("y",), (), "y[T,K+N] = a[T,K] beside b[T,N]"),
    OpSpec(
        "match_rms",
        ("x", "target"),
        ("y",),
        ("eps",),
        "y = x * sqrt(mean(target^2) / max(mean(x^2), eps))",
    ),
    OpSpec(
        "altup_predict",
        ("x", "coefs"),
        ("y",),
        (),
        "y[T,i,K] = x[T,i,K] + sum over j of coefs[T,i,j] * x[T,j,K], of S streams",
    ),
    OpSpec(
        "altup_correct",
        ("x", "activated", "coefs"),
        ("y",),
        ("active",),
        "y[T,i,K] = x[T,i,K] + (coefs[T,i] + 1) * (activated[T,K] - x[T,active,K])",
    ),
    OpSpec(
        "add_streams", ("x", "a"), ("y",), ("first",), "y[T,i,K] = x[T,i,K] + a[T,K] for i >= first"
    ),
    OpSpec("output_rows", ("x",), ("y",), (), "y[O,K] = the last O rows of x[T,K]"),
)

OPS: Mapping[str, OpSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})
