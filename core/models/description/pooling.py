"""The fields that say how a model's hidden states become the vector of a text, as files of
sentence-transformers and of GGUF have them. A decoder that has some makes vectors and no texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_CONTEXT, LARGEST_WIDTH
from llm_lite.core.models.description import sentence_files
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    flag,
    integer,
)
from llm_lite.core.models.description.tensors import of_model
from llm_lite.core.models.model import POOLINGS, RANK, TextEmbedding
from llm_lite.core.records import replace

# GGUF's PoolingType, and its -1 of 32 bits: nothing is said.
_OF_NUMBER = {-1: (), (1 << 32) - 1: (), 0: (), 1: ("mean",), 2: ("cls",), 3: ("last",), 4: (RANK,)}
_MOST_PROMPTS, _LONGEST_PROMPT = 64, 1000  # texts; characters


def _poolings(value: Any, known: Known) -> tuple[str, ...]:
    """Return the poolings, which GGUF has as a number and our variants by names; (): none is
    said."""
    if type(value) is int:
        if value not in _OF_NUMBER:
            raise UnfitError("0 to 4 (none, mean, cls, last, rank)", value)
        return _OF_NUMBER[value]
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not names or not all(name in (*POOLINGS, RANK) for name in names):
        raise UnfitError(f"some of {', '.join(POOLINGS)}", value)
    return names


def _most_tokens(value: Any, known: Known) -> int:
    count: int = integer(most=LARGEST_CONTEXT)(value, known)
    return min(count, known["context"])


def _widths(value: Any, known: Known) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UnfitError("a list of widths", value)
    return tuple(integer(most=LARGEST_WIDTH)(one, known) for one in value)


def _dense_activations(value: Any, known: Known) -> tuple[str, ...]:
    layers, expected = len(known["dense_widths"]), ("tanh", "identity")
    is_fit = _is_list(value) and len(value) == layers and all(one in expected for one in value)
    if not is_fit:
        raise UnfitError(f"tanh or identity for {layers} layers", value)
    return tuple(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_pair(value: Any) -> bool:
    return _is_list(value) and len(value) == 2 and all(isinstance(one, str) for one in value)


def _prompts(value: Any, known: Known) -> tuple[tuple[str, str], ...]:
    if not _is_list(value) or not all(map(_is_pair, value)):
        raise UnfitError("pairs of a task and a text", value)
    if len(value) > _MOST_PROMPTS or any(max(map(len, pair)) > _LONGEST_PROMPT for pair in value):
        raise UnfitError(f"at most {_MOST_PROMPTS} texts of {_LONGEST_PROMPT} characters", value)
    return tuple((task, text) for task, text in value)


def _identities(known: Known) -> tuple[str, ...]:
    return ("identity",) * len(known["dense_widths"])


def _of_encoder(value: Any, known: Known) -> tuple[str, ...]:
    """Return the poolings of an encoder; a rank is none."""
    names = _poolings(value, known)
    if RANK in names:
        raise UnfitError("0 to 3 (none, mean, cls, last)", value)
    return names


def _causal(config: CheckpointConfig, known: Known) -> bool | None:
    """Return whether a token sees none of those behind it; None where the file does not say it."""
    return None if config.get("is_causal") is None else config.flag("is_causal", True)


CAUSAL = FieldRow("attention.causal", _causal, flag, default=True)
POOLINGS_ROW = FieldRow("pooling_type", sentence_files.poolings, _poolings, ())
POOLINGS_OF_ENCODERS = replace(POOLINGS_ROW, check=_of_encoder)
UNIT_LENGTH = FieldRow("pooling.normalized", sentence_files.is_normalized, flag, default=True)
MOST_TOKENS = FieldRow(
    "pooling.most_tokens",
    sentence_files.most_tokens,
    _most_tokens,
    lambda known: known["context"],
)
DENSE_WIDTHS = FieldRow("dense.widths", sentence_files.dense_widths, _widths, ())
DENSE_ACTIVATIONS = FieldRow(
    "dense.activations", sentence_files.dense_activations, _dense_activations, _identities
)
READS_PROMPT = FieldRow("pooling.reads_prompt", sentence_files.reads_prompt, flag, default=True)
PROMPTS = FieldRow("pooling.prompts", sentence_files.prompts, _prompts, ())
DENSE_TENSORS = (
    of_model("dense.{i}.weight", None, "dense_widths", "dense_inputs", count="dense_count"),
    of_model("dense.{i}.bias", None, "dense_widths", count="dense_count", optional=True),
)


class PooledConfig:
    """A config whose fields say how hidden states become the vector of a text. `poolings`: () where
    no file says it."""

    __slots__ = ()

    width: int
    causal: bool
    poolings: tuple[str, ...]
    unit_length: bool
    most_tokens: int
    dense_widths: tuple[int, ...]
    dense_activations: tuple[str, ...]
    prompts: tuple[tuple[str, str], ...]
    reads_prompt: bool

    @property
    def embeds(self) -> bool:
        """Return whether the model makes vectors of texts."""
        return self.says_vectors({"causal": self.causal, "poolings": self.poolings})

    @staticmethod
    def says_vectors(known: Known) -> bool:
        """Return whether the fields that were read are of a model that makes vectors of texts."""
        return not known["causal"] or known["poolings"] not in ((), (RANK,))

    @property
    def dense_count(self) -> int:
        return len(self.dense_widths)

    @property
    def dense_inputs(self) -> tuple[int, ...]:
        return (self.width * max(1, len(self.poolings)), *self.dense_widths)[: self.dense_count]

    @property
    def embedding(self) -> TextEmbedding:
        return TextEmbedding(
            self.poolings or ("mean",),
            self.unit_length,
            self.most_tokens,
            self.dense_activations,
            self.prompts,
            self.reads_prompt,
        )
