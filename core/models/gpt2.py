"""GPT-2 (Radford et al. 2019): LayerNorm, learned positions, biases, an ungated feed-forward.

Checkpoints store matrices as [inputs, outputs], and queries, keys and values in one.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_WIDTH
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, plain_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.modules import of_transformer
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.models.description.tensors import FusedRow, NameRow, bias_of, of_model, with_bias
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


def _inner(config: CheckpointConfig, known: Known) -> int:
    return config.integer("n_inner", 4 * known["width"], at_most=LARGEST_WIDTH)


class Gpt2Config(shared.DecoderConfig, frozen=True, kw_only=True):
    layers: int = row(replace(shared.LAYERS, checkpoint="n_layer"))
    context: int = row(replace(shared.CONTEXT, checkpoint="n_positions", assumed=1024))
    width: int = row(replace(shared.WIDTH, checkpoint="n_embd"))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint=_inner))
    heads: int = row(replace(shared.HEADS, checkpoint="n_head"))
    eps: float = row(shared.LAYER_NORM_EPS)


def _layer(d: Decoder[Gpt2Config], x: Tensor, layer: int) -> Tensor:
    return plain_block(d, attention_block(d, x, layer, rotary=False), layer)


def _of(gguf: str, checkpoint: str | None, *shape: str, transposed: bool = False) -> NameRow:
    full = None if checkpoint is None else f"h.{{i}}.{checkpoint}"
    return NameRow(f"blk.{{i}}.{gguf}", full, shape, "layers", transposed=transposed)


def _both(gguf: str, checkpoint: str, *shape: str) -> tuple[NameRow, NameRow]:
    """Return the rows of a matrix (or a norm) and its bias."""
    one = _of(gguf + ".weight", checkpoint + ".weight", *shape, transposed=len(shape) == 2)
    return with_bias(one)


_QKV = tuple(
    _of(f"attn_{one}.weight", None, size, "width")
    for one, size in (("q", "q_width"), ("k", "kv_width"), ("v", "kv_width"))
)
_QKV_BIASES = tuple(map(bias_of, _QKV))

GPT_2 = Architecture(
    title="GPT-2",
    gguf="gpt2",
    model_types=("gpt2",),
    config=Gpt2Config,
    tensors=(
        of_model(shared.EMBEDDING, "wte.weight", "vocabulary", "width"),
        of_model(shared.POSITIONS, "wpe.weight", "context", "width"),
        *with_bias(of_model("output_norm.weight", "ln_f.weight", "width")),
        of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
        *_both("attn_norm", "ln_1", "width"),
        *_QKV,
        *_QKV_BIASES,
        *_both("attn_output", "attn.c_proj", "width", "q_width"),
        *_both("ffn_norm", "ln_2", "width"),
        *_both("ffn_up", "mlp.c_fc", "feed_forward", "width"),
        *_both("ffn_down", "mlp.c_proj", "width", "feed_forward"),
    ),
    fused=(
        FusedRow("blk.{i}.attn_qkv.weight", "h.{i}.attn.c_attn.weight", _QKV, True),
        FusedRow("blk.{i}.attn_qkv.bias", "h.{i}.attn.c_attn.bias", _QKV_BIASES),
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("activation_function", "gelu_new", "such a feed-forward is"),
        ("scale_attn_by_inverse_layer_idx", False, "scores that layers scale are"),
        ("scale_attn_weights", True, "unscaled scores are"),
    ),
    tied=True,
    module=of_transformer,
)
