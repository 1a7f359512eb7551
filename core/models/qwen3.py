"""Qwen3 (dense): a pre-norm decoder whose queries and keys are normed, a head at a time, before
they are rotated (https://arxiv.org/abs/2505.09388)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    DECODER_TENSORS,
    KEY_NORM,
    QUERY_NORM,
    DecoderConfig,
)
from llm_lite.core.models.qwen2 import DEFAULTS
from llm_lite.core.plan.plan import Tensor


def _layer(d: Decoder[DecoderConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer, qk_norm=True), layer)


QWEN3 = Architecture(
    title="Qwen3",
    gguf="qwen3",
    model_types=("qwen3",),
    config=DecoderConfig,
    tensors=(*DECODER_TENSORS, QUERY_NORM, KEY_NORM),
    defaults={**DEFAULTS, "head_dim": 128},
    graph=partial(decoder_plan, _layer),
)
