"""Llama, and all that is called so in GGUF files: Llama 2 and 3, SmolLM2, Mistral and Ministral.

Pre-norm decoder: RMSNorm, grouped-query attention with rotary positions, SwiGLU feed-forward.
GGUF keeps the rows of Q and K permuted so that rotary pairs are neighbours (2i, 2i+1); with
`rope.pairing` half_split they are (i, i+d/2), as Hugging Face's checkpoints have them.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import (
    DECODER_TENSORS,
    PAIRING_OF_LLAMA,
    DecoderConfig,
)
from llm_lite.core.models.description.rows import row
from llm_lite.core.plan.plan import Tensor


class LlamaConfig(DecoderConfig, frozen=True, kw_only=True):
    pairing: str = row(PAIRING_OF_LLAMA)


def _layer(d: Decoder[LlamaConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer)


_OF_MISTRAL = {
    "sliding_window": 4096,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
LLAMA = Architecture(
    title="llama",
    gguf="llama",
    model_types=("llama", "mistral", "ministral"),
    config=LlamaConfig,
    tensors=DECODER_TENSORS,
    graph=partial(decoder_plan, _layer),
    defaults_of={"mistral": _OF_MISTRAL, "ministral": _OF_MISTRAL},
)
