"""What the builder refuses, as a ValueError: operands and parameters that do not fit each other."""

from __future__ import annotations

from collections.abc import Mapping

from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.formats import FORMATS


def expect(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def expect_alike(a: Tensor, b: Tensor, label: str) -> None:
    expect(
        (a.shape, a.rows) == (b.shape, b.rows),
        f"{label}: {a.shape} of {a.rows} does not fit {b.shape} of {b.rows}",
    )


def expect_product(label: str, x: Tensor, weight: Tensor, outputs: int, inputs: int) -> None:
    """x [T, inputs] by the first rows and columns of the weight, columns in whole blocks."""
    rows, columns = weight.shape
    block = FORMATS[weight.dtype].block_size
    cut = inputs == columns or (0 < inputs < columns and inputs % block == 0)
    expect(inputs == x.shape[1], f"{label}: {weight.shape} does not fit {x.shape}")
    part = f"{label}: {outputs} x {inputs} of {weight.shape} in blocks of {block}"
    expect(0 < outputs <= rows and cut, part)


def expect_attention(
    label: str,
    q: Tensor,
    caches: tuple[Tensor, Tensor],
    sinks: Tensor | None,
    bias: Tensor | None,
    params: Mapping[str, float],
) -> None:
    """`params`: the op's."""
    heads, kv_heads, head_dim = (int(params[name]) for name in ("heads", "kv_heads", "head_dim"))
    _expect_seen(label, heads, bias, params)
    if sinks is not None:
        expect(sinks.shape == (heads,), f"{label}: sinks {sinks.shape} for {heads} heads")
    expect(params["softcap"] >= 0, f"{label}: a cap of {params['softcap']}")
    expect(q.shape[1] == heads * head_dim, f"{label}: {q.shape} is not {heads} x {head_dim}")
    expect(heads % kv_heads == 0, f"{label}: {kv_heads} does not divide {heads} heads")
    rows = [cache.shape[0] for cache in caches]
    expect(rows[0] == rows[1], f"{label}: {rows[0]} rows of keys, {rows[1]} of values")
    for cache in caches:
        fits = cache.shape[1] == kv_heads * head_dim
        expect(fits, f"{label}: {cache.shape} is not {kv_heads} x {head_dim}")
        expect(cache.block in (0, head_dim), f"{label}: {cache.name} is in other blocks")


def _expect_seen(label: str, heads: int, bias: Tensor | None, params: Mapping[str, float]) -> None:
    """Which positions are seen, and what is added to their scores."""
    cross, bidirectional = bool(params["cross"]), bool(params["bidirectional"])
    if bias is not None:
        before = int(params["bias_before"])
        fits = bias.shape[0] == heads and 0 <= before < bias.shape[1]
        expect(fits, f"{label}: {bias.shape} is no bias of {heads} heads at {before}")
        expect(bias.dtype == "f32", f"{label}: a bias of {bias.dtype}, expected f32")
    around = (bidirectional or cross) and bool(params["window"])
    expect(not around, f"{label}: a window of attention that is not causal")
    expect(not (cross and bidirectional), f"{label}: both of the source and of the sequence")
    expect(not (cross and bias is not None), f"{label}: distances to another sequence")
