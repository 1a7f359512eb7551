"""The op table: every operation a model may use, once, by name.

A row here, a method in `builder.py`, a function in `exec/reference.py`, a file in kernels_cpp/ops/
and one in kernels_glsl/ share the op's name. `exec/reference.py` defines what an op computes; this
table defines its operands and parameters. From it the build generates what C++ and GLSL need of
them (tools/kernel_schema.py), so this module imports nothing but the standard library.

Shapes: T tokens of the step, O the last tokens whose logits are asked for, K inputs, N outputs, C
positions of the cache, H query heads, G key/value heads, d head width, S streams of a residual
(AltUp), which lie side by side in a row, E experts, k that are chosen for a token. A tensor with
k rows a token, [T*k,N], has them in the order of their experts. A recurrent state is a state tensor
with a part for each slot: a sequence goes on from the part of one slot, or from zeros, and leaves
that of another, or of the same (`Segment.states` in `core/plan/step.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

# float64 where float32 would lose digits before the kernel has done with them.
ParamType = Literal["int", "flag", "float32", "float64"]
# elementwise: a value of y is of those at its place in the inputs, which have y's size.
# rowwise: a row of y is of those rows of the inputs, which have y's size.
# custom: as its builder method, its check in C++ and its dispatch in Vulkan say.
Form = Literal["custom", "elementwise", "rowwise"]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """The row of an op: operands in order. One whose name ends in `?` may be left out; where a
    later one is there, its tensor id is LEFT_OUT (`core.plan.plan`)."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    meaning: str
    params: Mapping[str, ParamType] = field(default_factory=dict)
    form: Form = "custom"


_TABLE = (
    OpSpec("embed", ("table",), ("x",), "x[T,K] = table[token of the step]"),
    OpSpec(
        "table_rows",
        ("table",),
        ("x",),
        "x[T,K] = table[token], row 0 for tokens beyond it; the host reads the rows where they lie",
    ),
    OpSpec(
        "position_rows",
        ("table",),
        ("x",),
        "x[T,K] = table[first + position of the token], the last row for positions beyond it",
        {"first": "int"},
    ),
    OpSpec(
        "type_rows",
        ("table",),
        ("x",),
        "x[T,K] = table[how many separators its sequence has before the token], the last row for "
        "types beyond it",
        {"separator": "int"},
    ),
    OpSpec(
        "rms_norm",
        ("x", "weight?"),
        ("y",),
        "y = x / sqrt(mean(x^2) + eps) * weight[width], over each `width` values of a row",
        {"eps": "float32", "width": "int"},
    ),
    OpSpec(
        "layer_norm",
        ("x", "weight", "bias?"),
        ("y",),
        "y = (x - mean(x)) / sqrt(var(x) + eps) * weight[K] + bias[K], over each row",
        {"eps": "float32"},
    ),
    OpSpec("quantize", ("x",), ("y",), "y = x in int8 blocks of 32 (dtype a8)"),
    OpSpec(
        "matmul",
        ("x", "weight"),
        ("y",),
        "y[T,N] = x[T,K] . weight[:N,:K]^T, x f32 or a8; N and K may be the first rows and the "
        "first columns, in whole blocks, of a larger weight",
    ),
    OpSpec(
        "rope",
        ("x", "factors?"),
        ("y",),
        "y = x[T,H*d] rotated by its position; half_split pairs (i, i+dim/2), else (2i, 2i+1); "
        "with temperature > 0 times 1 + temperature * log(1 + floor(position / its length))",
        {
            "head_dim": "int",
            "rotary_dim": "int",
            "theta": "float64",
            "scale": "float64",
            "half_split": "flag",
            "temperature": "float32",
            "temperature_length": "int",
        },
    ),
    OpSpec(
        "store",
        ("rows", "rows?", "rows?"),
        ("cache", "cache?", "cache?"),
        "cache[position of t mod its R rows] = rows[t], T <= R, for keys, values and queries",
    ),
    OpSpec(
        "attention",
        ("q", "k_cache", "v_cache", "gains", "sinks?", "bias?"),
        ("y",),
        "y[T,H*d] = gains[layer,h] * softmax(q.k * scale) . v, causal; the last `window` positions "
        "only if > 0; C < context is a ring and holds window + T - 1 positions or more; scores "
        "become softcap * tanh(score / softcap) if it is > 0; sinks[H] count as a score more, "
        "whose share is dropped; bias[H,N] at column bias_before + (key's position - query's), "
        "the nearest column there is, is added to q.k * scale; bidirectional: every position of "
        "the sequence is seen; cross: every position of the step's source, in row p of the caches; "
        "of causal attention, positions before `first` are not seen",
        {
            "heads": "int",
            "kv_heads": "int",
            "head_dim": "int",
            "scale": "float32",
            "window": "int",
            "layer": "int",
            "softcap": "float32",
            "bias_before": "int",
            "bidirectional": "flag",
            "cross": "flag",
            "first": "int",
        },
    ),
    OpSpec(
        "causal_conv",
        ("x", "weight"),
        ("y", "state"),
        "y[t,C] = sum over j < taps of weight[C,j] * x[t - taps + 1 + j]; before the tokens of a "
        "sequence stand the taps - 1 rows of its state, which then has the last ones",
        {"taps": "int"},
    ),
    OpSpec(
        "delta_rule",
        ("qkv", "decay", "beta", "rate", "bias"),
        ("y", "state"),
        "the gated delta rule (Yang et al. 2024, https://arxiv.org/abs/2412.06464): for each of H "
        "heads a state S[key_dim,value_dim], for each token S = S * exp(rate * softplus(decay + "
        "bias)); S = S + k (v - k.S) sigmoid(beta); y = q.S / sqrt(key_dim). qkv has G heads of "
        "queries, G of keys, both divided by their lengths, and H of values; head h reads the keys "
        "of h / (H / G), or if tiled of h mod G",
        {
            "heads": "int",
            "key_heads": "int",
            "key_dim": "int",
            "value_dim": "int",
            "tiled": "flag",
        },
    ),
    OpSpec(
        "route",
        ("logits", "bias?", "gains?", "switches?"),
        ("experts", "shares"),
        "experts[T,k], shares[T,k]: the k experts with the highest scores, the highest first, of "
        "equals the first, and what each weighs. Scores are softmax(logits[T,E]), or if sigmoid "
        "sigmoid(logits); shares are the scores of the chosen, or if late softmax(their logits), "
        "divided by their sum if normalized, times factor and the gains[E] of the chosen. bias[E] "
        "counts in the choice only. With groups > 1 experts are chosen from the chosen_groups "
        "groups with the highest sums of their two highest scores. switches[layer,2*E] of the "
        "token's sequence: E factors of shares, and E that are 1 where scores decide, above 1 "
        "where an expert is chosen before others, below 1 where after all others",
        {
            "layer": "int",
            "sigmoid": "flag",
            "late": "flag",
            "normalized": "flag",
            "factor": "float32",
            "groups": "int",
            "chosen_groups": "int",
        },
    ),
    OpSpec(
        "expert_places",
        ("experts",),
        ("places", "starts"),
        "the T*k choices in the order of their experts, those of one expert as they come: "
        "places[T,k] of each, and starts[1,E+1], where each expert begins, and the last ends",
    ),
    OpSpec(
        "expert_rows",
        ("x", "places"),
        ("y",),
        "y[T*k,K]: row places[t,i] = x[t], x f32 or a8",
    ),
    OpSpec(
        "expert_matmul",
        ("x", "weight", "starts"),
        ("y",),
        "y[T*k,N]: row r = x[r] . weight[e*N:(e+1)*N,K]^T, x f32 or a8, e the expert that has the "
        "row by its starts, the weights of E experts one behind the other",
    ),
    OpSpec(
        "expert_bias",
        ("x", "bias", "starts"),
        ("y",),
        "y[T*k,N]: row r = x[r] + bias[e*N:(e+1)*N], e as of expert_matmul",
    ),
    OpSpec(
        "expert_sum",
        ("x", "places", "shares"),
        ("y",),
        "y[T,N] = sum over i < k of shares[t,i] * x[places[t,i]]",
    ),
    OpSpec(
        "token_gate",
        ("x", "h", "weight"),
        ("y",),
        "y[T,N] = sigmoid(h[T,K] . weight[K]) * x[T,N], a gate for each token",
    ),
    OpSpec("silu_mul", ("gate", "up"), ("y",), "y = gate * sigmoid(gate) * up", form="elementwise"),
    OpSpec(
        "clamped_silu_mul",
        ("gate", "up"),
        ("y",),
        "y = g * sigmoid(alpha * g) * (u + 1), g the gate up to limit, u from -limit to limit",
        {"alpha": "float32", "limit": "float32"},
        "elementwise",
    ),
    OpSpec("sigmoid_mul", ("gate", "x"), ("y",), "y = sigmoid(gate) * x", form="elementwise"),
    OpSpec("gelu_mul", ("gate", "up"), ("y",), "y = gelu(gate) * up, by tanh", form="elementwise"),
    OpSpec("gelu", ("x",), ("y",), "y = gelu(x), by tanh", form="elementwise"),
    OpSpec("gelu_erf", ("x",), ("y",), "y = x * (1 + erf(x / sqrt(2))) / 2", form="elementwise"),
    OpSpec("silu", ("x",), ("y",), "y = x * sigmoid(x)", form="elementwise"),
    OpSpec("relu", ("x",), ("y",), "y = max(x, 0)", form="elementwise"),
    OpSpec("add", ("a", "b"), ("y",), "y = a + b", form="elementwise"),
    OpSpec("mul", ("a", "b"), ("y",), "y = a * b", form="elementwise"),
    OpSpec(
        "shift",
        ("x", "shifts"),
        ("y",),
        "y[T,N] = x[T,N] + shifts[layer,N] of the token's sequence",
        {"layer": "int"},
    ),
    OpSpec("add_bias", ("x", "bias"), ("y",), "y[T,N] = x[T,N] + bias[N]"),
    OpSpec("scale", ("x", "weight?"), ("y",), "y = x * factor * weight[K]", {"factor": "float32"}),
    OpSpec(
        "softcap",
        ("x",),
        ("y",),
        "y = cap * tanh(x * scale)",
        {"scale": "float32", "cap": "float32"},
        "elementwise",
    ),
    OpSpec(
        "sparsify",
        ("x",),
        ("y",),
        "y = relu(x - mean(x) - deviations * std(x))",
        {"deviations": "float32"},
        "rowwise",
    ),
    OpSpec(
        "columns",
        ("x",),
        ("y",),
        "y[T,N] = x[T, first : first + N], or of every `stride` columns from there the first `run`",
        {"first": "int", "run": "int", "stride": "int"},
    ),
    OpSpec("concat", ("a", "b"), ("y",), "y[T,K+N] = a[T,K] beside b[T,N]"),
    OpSpec(
        "match_rms",
        ("x", "target"),
        ("y",),
        "y = x * sqrt(mean(target^2) / max(mean(x^2), eps))",
        {"eps": "float32"},
        "rowwise",
    ),
    OpSpec(
        "altup_predict",
        ("x", "coefs"),
        ("y",),
        "y[T,i,K] = x[T,i,K] + sum over j of coefs[T,i,j] * x[T,j,K], of S streams",
    ),
    OpSpec(
        "altup_correct",
        ("x", "activated", "coefs"),
        ("y",),
        "y[T,i,K] = x[T,i,K] + (coefs[T,i] + 1) * (activated[T,K] - x[T,active,K])",
        {"active": "int"},
    ),
    OpSpec(
        "add_streams",
        ("x", "a"),
        ("y",),
        "y[T,i,K] = x[T,i,K] + a[T,K] for i >= first",
        {"first": "int"},
    ),
    OpSpec("output_rows", ("x",), ("y",), "y[O,K] = the last O rows of x[T,K]"),
)

OPS: Mapping[str, OpSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})
STATEFUL = frozenset(spec.name for spec in _TABLE if "state" in spec.outputs)
STORES = ("store",)  # left out where tokens run again, so that nothing kept is written again
# Of the arrays in which plans are handed to C++.
MOST_INPUTS = max(len(spec.inputs) for spec in _TABLE)
MOST_OUTPUTS = max(len(spec.outputs) for spec in _TABLE)
MOST_PARAMS = max(len(spec.params) for spec in _TABLE)
