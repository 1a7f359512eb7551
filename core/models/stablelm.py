"""StableLM 2 (1.6B) and StableLM 3B: llama with LayerNorm, and a quarter of each head that rotates
(https://arxiv.org/abs/2402.17834)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import row
from llm_lite.core.models.description.tensors import bias_of
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class StableLmConfig(shared.DecoderConfig, frozen=True, kw_only=True):
    eps: float = row(replace(shared.LAYER_NORM_EPS, checkpoint="layer_norm_eps"))


def _layer(d: Decoder[StableLmConfig], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer), layer)


STABLE_LM = Architecture(
    title="StableLM",
    gguf="stablelm",
    model_types=("stablelm",),
    config=StableLmConfig,
    tensors=(
        *shared.DECODER_TENSORS,
        bias_of(shared.OUTPUT_NORM),
        bias_of(shared.ATTENTION_NORM),
        *(replace(one, optional=True) for one in shared.ATTENTION_BIASES),
        bias_of(shared.FEED_FORWARD_NORM),
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("qk_layernorm", False, "norms of queries and keys are"),
        ("use_parallel_residual", False, "a feed-forward beside attention is"),
    ),
    refused=(
        ("expert_count", "mixtures of experts are"),
        ("use_parallel_residual", "a feed-forward beside attention is"),
    ),
    defaults={"partial_rotary_factor": 0.25, "max_position_embeddings": 4096},
)
