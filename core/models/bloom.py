"""BLOOM (BigScience 2022): positions are known by ALiBi alone, scores that fall in a line with
distance, each head's at a slope of its own (Press et al. 2022). The embedding has a norm.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_COUNT, LARGEST_WIDTH
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, plain_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture, Tensors
from llm_lite.core.models.description.modules import of_transformer
from llm_lite.core.models.description.rows import Known, integer, row
from llm_lite.core.models.description.tensors import FusedRow, NameRow, bias_of, of_model, with_bias
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import replace

_SLOPES = MADE + "position_bias"
_FARTHEST = 1 << 15  # positions; such models read far more than they were trained with
_MOST_POSITIONS = 1 << 17  # each is a column of a table; BLOOM has 2048


def _width(config: CheckpointConfig, known: Known) -> int:
    key = "hidden_size" if config.get("hidden_size") is not None else "n_embed"
    return config.integer(key, at_most=LARGEST_WIDTH)


def _heads(config: CheckpointConfig, known: Known) -> int:
    key = "n_head" if config.get("n_head") is not None else "num_attention_heads"
    return config.integer(key, at_most=LARGEST_COUNT)


def _inner(config: CheckpointConfig, known: Known) -> int:
    return 4 * int(known["width"])


class BloomConfig(shared.DecoderConfig, frozen=True, kw_only=True):
    layers: int = row(replace(shared.LAYERS, checkpoint="n_layer"))
    context: int = row(
        replace(
            shared.CONTEXT,
            checkpoint="seq_length",
            check=integer(most=_MOST_POSITIONS),
            assumed=2048,
        )
    )
    width: int = row(replace(shared.WIDTH, checkpoint=_width))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint=_inner))
    heads: int = row(replace(shared.HEADS, checkpoint=_heads))
    eps: float = row(shared.LAYER_NORM_EPS)

    @property
    def columns(self) -> int:
        return max(self.context, _FARTHEST)


def slopes(heads: int) -> NDArray[np.float64]:
    """[heads], a geometric sequence; what is beyond a power of two comes from between the next's
    (https://github.com/ofirpress/attention_with_linear_biases)."""
    count = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-8 / count * np.arange(1, count + 1))
    between = 2.0 ** (-4 / count * np.arange(1, 2 * (heads - count), 2))
    return np.concatenate([first, between])


def _biases(config: BloomConfig, tensors: Tensors) -> list[TensorData]:
    """[heads, columns] for keys before a query; the last column is the query's own position."""
    distances = np.arange(config.columns) - (config.columns - 1)
    return [float_tensor(_SLOPES, slopes(config.heads)[:, None] * distances)]


def _layer(d: Decoder[BloomConfig], x: Tensor, layer: int) -> Tensor:
    bias = d.b.weight(_SLOPES), d.config.columns - 1
    return plain_block(d, attention_block(d, x, layer, rotary=False, bias=bias), layer)


def _of(gguf: str, checkpoint: str | None, *shape: str) -> NameRow:
    full = None if checkpoint is None else f"h.{{i}}.{checkpoint}"
    return NameRow(f"blk.{{i}}.{gguf}", full, shape, "layers")


def _both(gguf: str, checkpoint: str, *shape: str) -> tuple[NameRow, NameRow]:
    """Return the rows of a matrix (or a norm) and its bias."""
    return with_bias(_of(gguf + ".weight", checkpoint + ".weight", *shape))


_QKV = tuple(
    _of(f"attn_{one}.weight", None, size, "width")
    for one, size in (("q", "q_width"), ("k", "kv_width"), ("v", "kv_width"))
)
_QKV_BIASES = tuple(map(bias_of, _QKV))


def _fused(kind: str, parts: tuple[NameRow, ...]) -> FusedRow:
    checkpoint = f"h.{{i}}.self_attention.query_key_value.{kind}"
    return FusedRow(f"blk.{{i}}.attn_qkv.{kind}", checkpoint, parts, interleaved=True)


BLOOM = Architecture(
    title="BLOOM",
    gguf="bloom",
    model_types=("bloom",),
    config=BloomConfig,
    tensors=(
        of_model(shared.EMBEDDING, "word_embeddings.weight", "vocabulary", "width"),
        *with_bias(of_model("token_embd_norm.weight", "word_embeddings_layernorm.weight", "width")),
        of_model(_SLOPES, None, "heads", "columns"),
        *with_bias(of_model("output_norm.weight", "ln_f.weight", "width")),
        of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
        *_both("attn_norm", "input_layernorm", "width"),
        *_QKV,
        *_QKV_BIASES,
        *_both("attn_output", "self_attention.dense", "width", "q_width"),
        *_both("ffn_norm", "post_attention_layernorm", "width"),
        *_both("ffn_up", "mlp.dense_h_to_4h", "feed_forward", "width"),
        *_both("ffn_down", "mlp.dense_4h_to_h", "width", "feed_forward"),
    ),
    fused=(_fused("weight", _QKV), _fused("bias", _QKV_BIASES)),
    graph=partial(decoder_plan, _layer),
    sees_all=False,  # distances are those to earlier positions
    derived=_biases,
    must_be=(("apply_residual_connection_post_layernorm", False, "residuals behind norms are"),),
    tied=True,
    module=of_transformer,
    modules={  # which add to the residual stream themselves
        "h.{i}.self_attention": ("attention.residual",),
        "h.{i}.mlp": ("feed_forward.residual",),
    },
)
