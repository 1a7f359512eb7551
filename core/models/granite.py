"""Granite 3: llama whose embedding, residuals, attention and logits are scaled by constants
(https://github.com/ibm-granite/granite-3.0-language-models)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.ranges import MULTIPLIER
from llm_lite.core.models.blocks import Decoder, Scales, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import DECODER_TENSORS
from llm_lite.core.models.description.rows import FieldRow, number, row
from llm_lite.core.models.llama import LlamaConfig
from llm_lite.core.plan.plan import Tensor


def _scale(gguf: str, checkpoint: str) -> FieldRow:
    return FieldRow(gguf, checkpoint, number(MULTIPLIER), default=1.0)


class GraniteConfig(LlamaConfig, frozen=True, kw_only=True):
    embedding_scale: float = row(_scale("embedding_scale", "embedding_multiplier"))
    residual_scale: float = row(_scale("residual_scale", "residual_multiplier"))
    attention_scale: float = row(_scale("attention.scale", "attention_multiplier"))
    logit_scale: float = row(_scale("logit_scale", "logits_scaling"))  # logits are divided by it


def _layer(d: Decoder[GraniteConfig], x: Tensor, layer: int) -> Tensor:
    c = d.config
    x = attention_block(d, x, layer, scale=c.attention_scale, factor=c.residual_scale)
    return gated_block(d, x, layer, factor=c.residual_scale)


def scales_of(config: GraniteConfig) -> Scales:
    return Scales(embedding=config.embedding_scale, logits=1 / config.logit_scale)


GRANITE = Architecture(
    title="Granite",
    gguf="granite",
    model_types=("granite",),
    config=GraniteConfig,
    tensors=DECODER_TENSORS,
    graph=partial(decoder_plan, _layer, scales_of=scales_of),
)
