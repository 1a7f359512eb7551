"""The checks of the builder: a ValueError for operands and parameters that do not fit each other,
an UnsupportedError if a person's choice does not fit the model."""

from __future__ import annotations

from collections.abc import Mapping

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.formats import FORMATS

Cut = tuple[int, int] | None  # of a weight: its first rows and columns that a product uses


def expect(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


WHOLE_WORDS = {"i8": 4, "i4": 8}  # values of 32 bits, of types with scales


def expect_blocks(name: str, dtype: str, block: int, shape: tuple[int, ...]) -> None:
    """Raise UnsupportedError if the blocks, which are a model's heads, are no whole words."""
    expect(block > 0 and shape[-1] % block == 0, f"{name}: blocks of {block} do not divide {shape}")
    if block % WHOLE_WORDS[dtype]:
        bits = dtype.removeprefix("i")
        raise UnsupportedError(
            f"an int{bits} cache needs heads whose number of values is a multiple of "
            f"{WHOLE_WORDS[dtype]}, and this model's have {block}: choose fp16 for keys and values"
        )


def expect_alike(a: Tensor, b: Tensor, label: str) -> None:
    expect(
        (a.shape, a.rows) == (b.shape, b.rows),
        f"{label}: {a.shape} of {a.rows} does not fit {b.shape} of {b.rows}",
    )


def expect_product(label: str, x: Tensor, weight: Tensor, cut: Cut) -> int:
    """Check a product of x and all of the weight, or its first rows and columns, in whole blocks;
    return its outputs."""
    (rows, columns), block = weight.shape, FORMATS[weight.dtype].block_size
    outputs, inputs = cut or (rows, columns)
    expect(inputs == x.shape[1], f"{label}: {weight.shape} does not fit {x.shape}")
    whole = inputs == columns or (0 < inputs < columns and inputs % block == 0)
    sentence = f"{label}: {outputs} x {inputs} of {weight.shape} in blocks of {block}"
    expect(0 < outputs <= rows and whole, sentence)
    return outputs


def expect_attention(
    label: str,
    q: Tensor,
    caches: tuple[Tensor, Tensor],
    sinks: Tensor | None,
    bias: Tensor | None,
    params: Mapping[str, float],
) -> None:
    """Check the operands of attention. `params`: the op's."""
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
    """Check which positions are seen, and what is added to their scores."""
    cross, bidirectional = bool(params["cross"]), bool(params["bidirectional"])
    if bias is not None:
        before = int(params["bias_before"])
        fits = bias.shape[0] == heads and 0 <= before < bias.shape[1]
        expect(fits, f"{label}: {bias.shape} is no bias of {heads} heads at {before}")
        expect(bias.dtype == "f32", f"{label}: a bias of {bias.dtype}, expected f32")
    around = (bidirectional or cross) and bool(params["window"] or params["first"])
    expect(not around, f"{label}: a window of attention that is not causal")
    expect(params["first"] >= 0, f"{label}: seen from {params['first']} on")
    expect(not (cross and bidirectional), f"{label}: both of the source and of the sequence")
    expect(not (cross and bias is not None), f"{label}: distances to another sequence")
