"""Qwen, the first (https://arxiv.org/abs/2309.16609): Qwen2 by other names, whose files count both
halves of a gated feed-forward. In contexts that are longer than the trained one, `seq_length`,
queries would grow and the base of rotary positions too; here both stay.
"""

from __future__ import annotations

from llm_lite.core.formats.ranges import LARGEST_WIDTH, ROPE_BASE
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.modules import of_transformer
from llm_lite.core.models.description.rows import integer, number, row
from llm_lite.core.models.description.tensors import FusedRow, NameRow, bias_of
from llm_lite.core.models.model import ModelShape
from llm_lite.core.models.qwen2 import QWEN2
from llm_lite.core.records import replace


class QwenConfig(shared.UnscaledConfig, frozen=True, kw_only=True):
    context: int = row(replace(shared.CONTEXT, checkpoint="seq_length"))
    feed_forward: int = row(  # of both halves
        replace(shared.FEED_FORWARD, check=integer(2, LARGEST_WIDTH, even=True))
    )
    eps: float = row(replace(shared.EPS, checkpoint="layer_norm_epsilon", default=1e-6))
    head_dim: int = row(replace(shared.HEAD_DIM, checkpoint="kv_channels"))
    theta: float = row(replace(shared.THETA, checkpoint="rotary_emb_base", check=number(ROPE_BASE)))

    @property
    def half(self) -> int:
        return self.feed_forward // 2

    @property
    def shape(self) -> ModelShape:
        return replace(super().shape, feed_forward=self.half)


def _of(one: NameRow, checkpoint: str | None, *shape: str) -> NameRow:
    """Return a row of Qwen2 under the name that it has here."""
    name = None if checkpoint is None else f"h.{{i}}.{checkpoint}.weight"
    return replace(one, checkpoint=name, shape=shape or one.shape)


_QKV = tuple(_of(one, None) for one in (shared.QUERY, shared.KEY, shared.VALUE))
_QKV_BIASES = tuple(map(bias_of, _QKV))
_EMBEDDING, _NORM, _HEAD = shared.MODEL_TENSORS

QWEN = Architecture(
    title="Qwen",
    gguf="qwen",
    model_types=("qwen",),
    config=QwenConfig,
    tensors=(
        replace(_EMBEDDING, checkpoint="wte.weight"),
        replace(_NORM, checkpoint="ln_f.weight"),
        _HEAD,
        *shared.ROPE_TENSORS,
        _of(shared.ATTENTION_NORM, "ln_1"),
        *_QKV,
        *_QKV_BIASES,
        _of(shared.ATTENTION_OUTPUT, "attn.c_proj"),
        _of(shared.FEED_FORWARD_NORM, "ln_2"),
        _of(shared.GATE, "mlp.w2", "half", "width"),
        _of(shared.UP, "mlp.w1", "half", "width"),
        _of(shared.DOWN, "mlp.c_proj", "width", "half"),
    ),
    fused=(
        FusedRow("blk.{i}.attn_qkv.weight", "h.{i}.attn.c_attn.weight", _QKV),
        FusedRow("blk.{i}.attn_qkv.bias", "h.{i}.attn.c_attn.bias", _QKV_BIASES),
    ),
    graph=QWEN2.graph,
    must_be=(
        ("no_bias", True, "biases behind attention are"),
        ("rotary_pct", 1.0, "heads that rotate in part are"),
        ("scale_attn_weights", True, "unscaled scores are"),
    ),
    of_config=lambda config, known: [],
    module=of_transformer,
)
