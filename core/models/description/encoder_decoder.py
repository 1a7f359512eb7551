"""The fields of encoder-decoders: two stacks of layers, of equal or unequal depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_CONTEXT, LARGEST_VOCABULARY
from llm_lite.core.models.description.decoder import (
    CONTEXT,
    EMBEDDING,
    EPS,
    FEED_FORWARD,
    HEADS,
    LAYERS,
    WIDTH,
    size_of,
)
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    flag,
    integer,
    number,
    row,
)
from llm_lite.core.models.description.tensors import NameRow
from llm_lite.core.models.model import DecodingDefaults, ModelShape
from llm_lite.core.plan.builder import WeightSpec
from llm_lite.core.records import FieldNotesMeta

MOST_BEAMS = 64
MOST_PREFIXES, LONGEST_PREFIX = 16, 100  # characters
LONGEST_RUN = 1 << 10  # tokens that may not come twice

# The tables that both stacks may have of the one embedding.
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
DECODER_LAYERS = FieldRow(
    "decoder_block_count",
    "decoder_layers",
    LAYERS.check,
    default=lambda known: known["encoder_layers"],
)
# The token that a decoder begins with, before it has said anything.
START = FieldRow(
    "decoder_start_token_id",
    "decoder_start_token_id",
    integer(0, LARGEST_VOCABULARY),
    default=0,
)


def _banned(config: CheckpointConfig, known: Known) -> list[int] | None:
    """Return the words of `bad_words_ids` that are one token."""
    words = config.get("bad_words_ids")
    if not isinstance(words, list):
        return None
    return [word[0] for word in words if isinstance(word, list) and len(word) == 1]


def _tokens(value: Any, known: Known) -> tuple[int, ...]:
    check = integer(0, LARGEST_VOCABULARY)
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise UnfitError("a list of token ids", value)
    return tuple(check(one, known) for one in value)


def _is_early(config: CheckpointConfig, known: Known) -> bool | None:
    present = config.get("early_stopping") is not None
    return config.flag("early_stopping", False) if present else None


def _prefixes(config: CheckpointConfig, known: Known) -> list[str] | None:
    """Return the prefixes of the sources of a checkpoint's tasks."""
    tasks = config.get("task_specific_params")
    if not isinstance(tasks, Mapping):
        return None
    listed = [task.get("prefix") for task in tasks.values() if isinstance(task, Mapping)]
    known_ones = [one for one in listed if isinstance(one, str) and 0 < len(one) <= LONGEST_PREFIX]
    return list(dict.fromkeys(known_ones))[:MOST_PREFIXES]


def _texts(value: Any, known: Known) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise UnfitError("a list of texts", value)
    if not all(isinstance(one, str) and len(one) <= LONGEST_PREFIX for one in value):
        raise UnfitError(f"texts of at most {LONGEST_PREFIX} characters", value)
    return tuple(value)[:MOST_PREFIXES]


BANNED = FieldRow("generation.banned_token_ids", _banned, _tokens, default=())
FORCED_END = FieldRow(
    "generation.forced_eos_token_id",
    "forced_eos_token_id",
    integer(0, LARGEST_VOCABULARY),
    default=None,
)
FORCED_BEGIN = FieldRow(
    "generation.forced_bos_token_id",
    "forced_bos_token_id",
    integer(0, LARGEST_VOCABULARY),
    default=None,
)
SHORTEST = FieldRow("generation.min_length", "min_length", integer(0, LARGEST_CONTEXT), default=0)
NO_REPEAT = FieldRow(
    "generation.no_repeat_ngram_size", "no_repeat_ngram_size", integer(0, LONGEST_RUN), default=0
)
BEAMS = FieldRow("generation.beams", "num_beams", integer(1, MOST_BEAMS), default=1)
LENGTH_PENALTY = FieldRow(
    "generation.length_penalty", "length_penalty", number((-10.0, 10.0)), default=1.0
)
EARLY_STOPPING = FieldRow("generation.early_stopping", _is_early, flag, default=False)
PREFIXES = FieldRow("generation.task_prefixes", _prefixes, _texts, default=())


class EncoderDecoderConfig(Struct, metaclass=FieldNotesMeta, frozen=True, kw_only=True):
    encoder_layers: int = row(LAYERS)
    decoder_layers: int = row(DECODER_LAYERS)
    context: int = row(CONTEXT)  # positions of the source, and of the target
    width: int = row(WIDTH)
    feed_forward: int = row(FEED_FORWARD)
    heads: int = row(HEADS)
    eps: float = row(EPS)
    start: int = row(START)
    banned: tuple[int, ...] = row(BANNED)
    forced_end: int | None = row(FORCED_END)
    beams: int = row(BEAMS)
    length_penalty: float = row(LENGTH_PENALTY)
    early_stopping: bool = row(EARLY_STOPPING)
    prefixes: tuple[str, ...] = row(PREFIXES)
    forced_begin: int | None = row(FORCED_BEGIN)
    min_length: int = row(SHORTEST)
    no_repeat: int = row(NO_REPEAT)
    vocabulary: int

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        """Return the fields that tensors determine. FileError if these are not there."""
        return {"vocabulary": size_of(weights, EMBEDDING, path)[0]}

    @property
    def decoding(self) -> DecodingDefaults:
        return DecodingDefaults(
            self.start,
            self.banned,
            self.forced_end,
            self.beams,
            self.length_penalty,
            self.early_stopping,
            self.prefixes,
            self.forced_begin,
            self.min_length,
            self.no_repeat,
        )

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def layers(self) -> int:
        return self.decoder_layers

    @property
    def shape(self) -> ModelShape:
        """Return the shape of the decoder."""
        return self._stack(self.decoder_layers, cross_attention=True)

    @property
    def encoder_shape(self) -> ModelShape:
        return self._stack(self.encoder_layers, cross_attention=False)

    def _stack(self, layers: int, *, cross_attention: bool) -> ModelShape:
        return ModelShape(
            layers=layers,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=self.head_dim,
            width=self.width,
            feed_forward=self.feed_forward,
            vocabulary=self.vocabulary,
            trained_context=self.context,
            cross_attention=cross_attention,
        )


def of_stack(
    stack: str, gguf: str, checkpoint: str, *shape: str, optional: bool = False
) -> NameRow:
    """Return the row of a tensor of each layer of a stack: "enc.blk.{i}." or "dec.blk.{i}."."""
    return NameRow(
        f"{stack[:3]}.blk.{{i}}.{gguf}", checkpoint, shape, f"{stack}_layers", optional=optional
    )
