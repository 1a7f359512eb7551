"""Qwen2 and Qwen2.5 (dense): llama whose queries, keys and values have biases
(https://arxiv.org/abs/2407.10671)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    ATTENTION_BIASES,
    DECODER_TENSORS,
    DecoderConfig,
)
from llm_lite.core.plan.plan import Tensor


def _layer(d: Decoder[DecoderConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer)


# Qwen's windows, which are off unless the config switches them on, and its length.
DEFAULTS = {
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "max_position_embeddings": 32768,
}
QWEN2 = Architecture(
    title="Qwen2",
    gguf="qwen2",
    model_types=("qwen2",),
    config=DecoderConfig,
    tensors=(*DECODER_TENSORS, *ATTENTION_BIASES),
    graph=partial(decoder_plan, _layer),
    must_be=(("hidden_act", "silu", "such a feed-forward is"),),
    defaults=DEFAULTS,
)
