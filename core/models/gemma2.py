"""Gemma 2: Gemma 3's norms without those of queries and keys; scores and logits are capped, and
every other layer has a window (https://arxiv.org/abs/2408.00118)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_CONTEXT, MULTIPLIER
from llm_lite.core.models.blocks import Decoder, Scales, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import FieldRow, Known, integer, number, row
from llm_lite.core.models.description.tensors import NameRow
from llm_lite.core.models.gemma3 import TENSORS, cap, window_or_none
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_LAYERS_OF_27B = 46  # whose queries are scaled otherwise; GGUF's files do not say it


def _every_other(known: Known) -> tuple[bool, ...]:
    return tuple(layer % 2 == 0 for layer in range(known["layers"]))


def _sliding(config: CheckpointConfig, known: Known) -> Any:
    return shared.sliding_layers(config, known) or _every_other(known)


def _scale(config: CheckpointConfig, known: Known) -> float:
    return float(config.number("query_pre_attn_scalar", 256, within=MULTIPLIER) ** -0.5)


def _scale_of_gguf(known: Known) -> float:
    largest = known["layers"] == _LAYERS_OF_27B
    return float((known["width"] / known["heads"] if largest else known["head_dim"]) ** -0.5)


class Gemma2Config(shared.DecoderConfig, frozen=True, kw_only=True):
    window: int = row(
        replace(
            shared.WINDOW,
            checkpoint=window_or_none,
            check=integer(0, LARGEST_CONTEXT),
            default=4096,
        )
    )
    sliding: tuple[bool, ...] = row(
        replace(shared.SLIDING, checkpoint=_sliding, default=_every_other)
    )
    attention_scale: float = row(
        FieldRow("attention.scale", _scale, number(MULTIPLIER), default=_scale_of_gguf)
    )
    score_cap: float = row(cap("attn_logit_softcapping", 50.0))
    softcap: float = row(cap("final_logit_softcapping", 30.0))


def _layer(d: Decoder[Gemma2Config], x: Tensor, layer: int) -> Tensor:
    c = d.config
    x = attention_block(
        d, x, layer, post_norm="post_attention_norm", scale=c.attention_scale, softcap=c.score_cap
    )
    return gated_block(d, x, layer, post_norm="post_ffw_norm", gelu=True)


def _scales(config: Gemma2Config) -> Scales:
    return Scales(embedding=math.sqrt(config.width), logit_cap=config.softcap)


def _of_gemma3_alone(one: NameRow) -> bool:
    """Return True for norms of queries and keys."""
    return "_norm" in one.gguf and "head_dim" in one.shape


GEMMA_2 = Architecture(
    title="Gemma 2",
    gguf="gemma2",
    model_types=("gemma2",),
    config=Gemma2Config,
    tensors=tuple(one for one in TENSORS if not _of_gemma3_alone(one)),
    graph=partial(decoder_plan, _layer, scales_of=_scales),
    must_be=(
        ("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("use_bidirectional_attention", False, "attention to later tokens is"),
    ),
    defaults={
        "sliding_window": 4096,
        "head_dim": 256,
        "num_key_value_heads": 4,
        "max_position_embeddings": 8192,
    },
    tied=True,
    modules={"embed_tokens": ("embedding.scaled",)},
)
