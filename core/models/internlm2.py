"""InternLM2 and 2.5 (https://arxiv.org/abs/2403.17297): llama whose checkpoints have queries, keys
and values in one matrix, those that share a key head together. In contexts that are longer than the
trained one the base of rotary positions would grow (dynamic NTK); here it stays.
"""

from __future__ import annotations

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import ROPE_FACTOR
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.models.description.tensors import FusedRow, of_layer
from llm_lite.core.models.llama import LLAMA
from llm_lite.core.plain_text import quote
from llm_lite.core.records import replace


def _scaling(config: CheckpointConfig, known: Known) -> str | None:
    kind = rope.kind_of(config)
    if kind not in ("default", "linear"):
        raise UnsupportedError(
            f"{config.path}: rotary scaling {quote(kind)} is not known here; "
            "known are default, linear, dynamic"
        )
    return kind if kind == "linear" else None


def _factor(config: CheckpointConfig, known: Known) -> float | None:
    if _scaling(config, known) is None:
        return None
    return config.rope()[0].number("factor", within=ROPE_FACTOR)


class InternLM2Config(shared.UnscaledConfig, frozen=True, kw_only=True):
    pairing: str = row(shared.PAIRING_OF_LLAMA)
    scaling: str = row(replace(shared.SCALING, checkpoint=_scaling))
    scaling_factor: float = row(replace(shared.SCALING_FACTOR, checkpoint=_factor))


_QKV = tuple(replace(one, checkpoint=None) for one in (shared.QUERY, shared.KEY, shared.VALUE))
_EMBEDDING, _NORM, _HEAD = shared.MODEL_TENSORS

INTERNLM_2 = Architecture(
    title="InternLM2",
    gguf="internlm2",
    model_types=("internlm2",),
    config=InternLM2Config,
    tensors=(
        replace(_EMBEDDING, checkpoint="tok_embeddings.weight"),
        _NORM,
        _HEAD,
        *shared.ROPE_TENSORS,
        of_layer("attn_norm.weight", "attention_norm.weight", "width"),
        *_QKV,
        of_layer("attn_output.weight", "attention.wo.weight", "width", "q_width"),
        of_layer("ffn_norm.weight", "ffn_norm.weight", "width"),
        of_layer("ffn_gate.weight", "feed_forward.w1.weight", "feed_forward", "width"),
        of_layer("ffn_up.weight", "feed_forward.w3.weight", "feed_forward", "width"),
        of_layer("ffn_down.weight", "feed_forward.w2.weight", "width", "feed_forward"),
    ),
    fused=(
        FusedRow("blk.{i}.attn_qkv.weight", "layers.{i}.attention.wqkv.weight", _QKV, grouped=True),
    ),
    graph=LLAMA.graph,
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("bias", False, "biases are"),
    ),
    of_config=lambda config, known: [],
)
