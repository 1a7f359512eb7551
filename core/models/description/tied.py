"""Copies of the embedding in a checkpoint: the head where both are tied, and the tables of the
stacks of an encoder-decoder.

As transformers has it since its fifth version, the file decides and not its config.json: a copy
that is equal is the embedding, one that differs is a matrix of its own, whatever
`tie_word_embeddings` says, and where the embedding is missing a copy is it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

_PIECE = 1 << 24  # bytes that are compared at once


def without_copies(
    tensors: Mapping[str, TensorData], embedding: str, copies: tuple[str, ...]
) -> Mapping[str, TensorData]:
    """Return the tensors without those of `copies` that are equal to the embedding; without an
    embedding, with the first of them in its place."""
    present = [name for name in copies if name in tensors]
    if not present:
        return tensors
    result = dict(tensors)
    if embedding not in result:
        result[embedding] = replace(result.pop(present.pop(0)), name=embedding)
    for name in present:
        if are_equal(result[embedding], result[name]):
            del result[name]
    return result


def are_equal(one: TensorData, other: TensorData) -> bool:
    """Return whether two tensors have the same values."""
    if one.shape != other.shape:
        return False
    if one.dtype != other.dtype:
        return bool(np.array_equal(one.dequantize(), other.dequantize()))
    starts = range(0, one.nbytes, _PIECE)
    return all(
        np.array_equal(one.data[at : at + _PIECE], other.data[at : at + _PIECE]) for at in starts
    )
