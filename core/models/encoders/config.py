"""The fields of encoders of BERT's family, and what of them stands in files beside config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import EPSILON, LARGEST_CONTEXT, LARGEST_VOCABULARY, LARGEST_WIDTH
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    choice,
    flag,
    integer,
    number,
    row,
)
from llm_lite.core.models.description.tensors import of_model
from llm_lite.core.models.encoders import sentence_files
from llm_lite.core.models.model import POOLINGS, TextEmbedding
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.records import replace
from llm_lite.core.text.special_tokens import separator_of

TYPES = "token_types.weight"
HEAD_DENSE, HEAD_NORM, HEAD_BIAS = "mlm.dense", "mlm.norm", "output.bias"
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu")
# Other names that transformers has for the same functions.
_SAME = {"gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new", "swish": "silu"}
# GGUF's PoolingType: none, mean, cls, last; a rank is no vector.
_OF_NUMBER = (("mean",), ("mean",), ("cls",), ("last",))
_MOST_PROMPTS, _LONGEST_PROMPT = 64, 1000  # texts; characters
_NO_SEPARATOR = -1  # an id that no token has: every token is of the first type


def _activation(value: Any, known: Known) -> str:
    named = _SAME.get(value, value) if isinstance(value, str) else value
    found: str = choice(*ACTIVATIONS)(named, known)
    return found


def _poolings(value: Any, known: Known) -> tuple[str, ...]:
    """Return the poolings, which GGUF has as a number and our variants by names."""
    if type(value) is int:
        if not 0 <= value < len(_OF_NUMBER):
            raise UnfitError(f"0 to {len(_OF_NUMBER) - 1} (none, mean, cls, last)", value)
        return _OF_NUMBER[value]
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not names or not all(name in POOLINGS for name in names):
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
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(names) != len(known["dense_widths"]) or not set(names) <= {"tanh", "identity"}:
        raise UnfitError(f"tanh or identity for {len(known['dense_widths'])} layers", value)
    return names


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


def _of_folder(config: CheckpointConfig) -> Path:
    return config.path.parent


def _separator(config: CheckpointConfig, known: Known) -> int | None:
    return separator_of(_of_folder(config))


ACTIVATION = FieldRow("hidden_activation", "hidden_act", _activation, "gelu", "gelu")
POOLINGS_ROW = FieldRow("pooling_type", sentence_files.poolings, _poolings, ("mean",))
NORMALIZED = FieldRow("pooling.normalized", sentence_files.is_normalized, flag, default=True)
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
PROMPTS = FieldRow("pooling.prompts", sentence_files.prompts, _prompts, ())
DENSE_TENSORS = (
    of_model("dense.{i}.weight", None, "dense_widths", "dense_inputs", count="dense_count"),
    of_model("dense.{i}.bias", None, "dense_widths", count="dense_count", optional=True),
)


class PooledConfig:
    """A config whose fields say how hidden states become the vector of a text."""

    __slots__ = ()

    width: int
    poolings: tuple[str, ...]
    normalized: bool
    most_tokens: int
    dense_widths: tuple[int, ...]
    dense_activations: tuple[str, ...]
    prompts: tuple[tuple[str, str], ...]

    @property
    def dense_count(self) -> int:
        return len(self.dense_widths)

    @property
    def dense_inputs(self) -> tuple[int, ...]:
        return (self.width * len(self.poolings), *self.dense_widths)[: self.dense_count]

    @property
    def embedding(self) -> TextEmbedding:
        return TextEmbedding(
            self.poolings,
            self.normalized,
            self.most_tokens,
            self.dense_activations,
            self.prompts,
        )


class EncoderConfig(PooledConfig, shared.DecoderConfig, frozen=True, kw_only=True):
    """The fields of an encoder. `first`: the row of the first position; checkpoints of RoBERTa have
    others before it.

    `separator`: the id of the token that ends a sentence, by which tokens get their types. `types`:
    rows of the table of types, 0 where there is none.
    """

    context: int = row(replace(shared.CONTEXT, assumed=512))
    eps: float = row(
        FieldRow("attention.layer_norm_epsilon", "layer_norm_eps", number(EPSILON), 1e-12, 1e-12)
    )
    activation: str = row(ACTIVATION)
    first: int = row(FieldRow("position_first", None, integer(0, LARGEST_CONTEXT), 0))
    separator: int = row(
        FieldRow(
            "tokenizer.ggml.seperator_token_id",  # as GGUF spells it
            _separator,
            integer(0, LARGEST_VOCABULARY),
            _NO_SEPARATOR,
        )
    )
    poolings: tuple[str, ...] = row(POOLINGS_ROW)
    normalized: bool = row(NORMALIZED)
    most_tokens: int = row(MOST_TOKENS)
    dense_widths: tuple[int, ...] = row(DENSE_WIDTHS)
    dense_activations: tuple[str, ...] = row(DENSE_ACTIVATIONS)
    prompts: tuple[tuple[str, str], ...] = row(PROMPTS)
    types: int
    has_head: bool

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        vocabulary = shared.size_of(weights, shared.EMBEDDING, path)[0]
        types = shared.size_of(weights, TYPES, path)[0] if TYPES in weights else 0
        has_head = f"{HEAD_DENSE}.weight" in weights
        return {"vocabulary": vocabulary, "types": types, "has_head": has_head}

    @property
    def position_rows(self) -> int:
        return self.context + self.first
