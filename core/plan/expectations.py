"""What must hold of the operands of an op. ValueError where it does not: the graph has a defect."""

from __future__ import annotations

from collections.abc import Mapping

from llm_lite.core.plan.plan import Tensor


def expect(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def check_attention(
    params: Mapping[str, float],
    q: Tensor,
    caches: tuple[Tensor, Tensor],
    sinks: Tensor | None,
    bias: Tensor | None,
    label: str,
) -> None:
    """`params` are those of the op; `caches` hold keys and values."""
    heads, kv_heads, head_dim = (int(params[name]) for name in ("heads", "kv_heads", "head_dim"))
    expect(params["softcap"] >= 0, f"{label}: a cap of {params['softcap']}")
    expect(q.shape[1] == heads * head_dim, f"{label}: {q.shape} is not {heads} x {head_dim}")
    expect(heads % kv_heads == 0, f"{label}: {kv_heads} does not divide {heads} heads")
    keys, values = caches
    rows = keys.shape[0], values.shape[0]
    expect(rows[0] == rows[1], f"{label}: {rows[0]} rows of keys, {rows[1]} of values")
    for cache in caches:
        fits = cache.shape[1] == kv_heads * head_dim
        expect(fits, f"{label}: {cache.shape} is not {kv_heads} x {head_dim}")
        expect(cache.block in (0, head_dim), f"{label}: {cache.name} is in other blocks")
    if sinks is not None:
        expect(sinks.shape == (heads,), f"{label}: sinks {sinks.shape} for {heads} heads")
    _check_what_is_seen(params, bias, label)


def _check_what_is_seen(params: Mapping[str, float], bias: Tensor | None, label: str) -> None:
    bidirectional, cross = bool(params["bidirectional"]), bool(params["cross"])
    windowed = (bidirectional or cross) and params["window"] > 0
    expect(not windowed, f"{label}: a window of attention that is not causal")
    expect(not (cross and bidirectional), f"{label}: both of the source and of the sequence")
    if bias is None:
        return
    expect(not cross, f"{label}: distances to another sequence")
    heads, before = int(params["heads"]), int(params["bias_before"])
    fits = bias.shape[0] == heads and 0 <= before < bias.shape[1]
    expect(fits, f"{label}: {bias.shape} is no bias of {heads} heads at {before}")
    expect(bias.dtype == "f32", f"{label}: a bias of {bias.dtype}, expected f32")
