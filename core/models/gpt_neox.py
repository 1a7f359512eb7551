"""GPT-NeoX, as Pythia is: LayerNorm, a quarter of each head that rotates, and a feed-forward that
stands beside attention, not behind it (https://arxiv.org/abs/2204.06745,
https://arxiv.org/abs/2304.01373). Checkpoints have queries, keys and values in one matrix, head by
head.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import ROPE_BASE
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, plain_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import FieldRow, Known, flag, row
from llm_lite.core.models.description.tensors import (
    FusedRow,
    NameRow,
    bias_of,
    of_layer,
    of_model,
    with_bias,
)
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_ROTATED = 0.25  # of a head, where a config.json does not say it


def _rotary(config: CheckpointConfig, known: Known) -> int:
    holder = config.rope()[0]
    key = "partial_rotary_factor"
    if holder.get(key) is None:
        holder, key = config, "rotary_pct"
    return int(known["head_dim"] * holder.number(key, _ROTATED, within=(1e-3, 1.0)))


def _theta(config: CheckpointConfig, known: Known) -> float:
    base = config.rope()[1]
    return config.number("rotary_emb_base", 10000.0, within=ROPE_BASE) if base is None else base


class GptNeoxConfig(shared.DecoderConfig, frozen=True, kw_only=True):
    eps: float = row(replace(shared.LAYER_NORM_EPS, checkpoint="layer_norm_eps"))
    rotary_dim: int = row(replace(shared.ROTARY_DIM, checkpoint=_rotary))
    theta: float = row(replace(shared.THETA, checkpoint=_theta))
    parallel: bool = row(
        FieldRow("use_parallel_residual", "use_parallel_residual", flag, default=True, assumed=True)
    )


def _layer(d: Decoder[GptNeoxConfig], x: Tensor, layer: int) -> Tensor:
    attended = attention_block(d, x, layer)
    return plain_block(d, attended, layer, reads=x if d.config.parallel else None, exact=True)


def _both(gguf: str, checkpoint: str, *shape: str) -> tuple[NameRow, NameRow]:
    """Return the rows of a matrix (or a norm) and its bias."""
    return with_bias(of_layer(gguf + ".weight", checkpoint + ".weight", *shape))


_QKV = tuple(replace(one, checkpoint=None) for one in (shared.QUERY, shared.KEY, shared.VALUE))
_QKV_BIASES = tuple(map(bias_of, _QKV))


def _fused(kind: str, parts: tuple[NameRow, ...]) -> FusedRow:
    checkpoint = f"layers.{{i}}.attention.query_key_value.{kind}"
    return FusedRow(f"blk.{{i}}.attn_qkv.{kind}", checkpoint, parts, interleaved=True)


GPT_NEOX = Architecture(
    title="GPT-NeoX",
    gguf="gptneox",
    model_types=("gpt_neox",),
    config=GptNeoxConfig,
    tensors=(
        of_model(shared.EMBEDDING, "embed_in.weight", "vocabulary", "width"),
        *with_bias(of_model("output_norm.weight", "final_layer_norm.weight", "width")),
        of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
        *_both("attn_norm", "input_layernorm", "width"),
        *_QKV,
        *_QKV_BIASES,
        *_both("attn_output", "attention.dense", "width", "q_width"),
        *_both("ffn_norm", "post_attention_layernorm", "width"),
        *_both("ffn_up", "mlp.dense_h_to_4h", "feed_forward", "width"),
        *_both("ffn_down", "mlp.dense_4h_to_h", "width", "feed_forward"),
    ),
    fused=(_fused("weight", _QKV), _fused("bias", _QKV_BIASES)),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "gelu", "such a feed-forward is"),
        ("attention_bias", True, "attention without biases is"),
    ),
    defaults={"attention_bias": True},
    unused=("attention.bias", "attention.masked_bias", "rotary_emb.inv_freq"),
    module=lambda name: (f"gpt_neox.{name}",),
)
