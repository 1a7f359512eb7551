"""The fields of encoders of BERT's family, and what of them stands in files beside config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import EPSILON, LARGEST_CONTEXT, LARGEST_VOCABULARY
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.pooling import POOLINGS_OF_ENCODERS
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    choice,
    integer,
    number,
    row,
)
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.records import replace
from llm_lite.core.text.special_tokens import separator_of

TYPES = "token_types.weight"
HEAD_DENSE, HEAD_NORM, HEAD_BIAS = "mlm.dense", "mlm.norm", "output.bias"
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu")
# Other names that transformers has for the same functions.
_SAME = {"gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new", "swish": "silu"}
_NO_SEPARATOR = -1  # an id that no token has: every token is of the first type


def _activation(value: Any, known: Known) -> str:
    named = _SAME.get(value, value) if isinstance(value, str) else value
    found: str = choice(*ACTIVATIONS)(named, known)
    return found


def _of_folder(config: CheckpointConfig) -> Path:
    return config.path.parent


def _separator(config: CheckpointConfig, known: Known) -> int | None:
    return separator_of(_of_folder(config))


ACTIVATION = FieldRow("hidden_activation", "hidden_act", _activation, "gelu", "gelu")


class EncoderConfig(shared.DecoderConfig, frozen=True, kw_only=True):
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
    poolings: tuple[str, ...] = row(POOLINGS_OF_ENCODERS)
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
