"""Qwen3-Next (80B-A3B, Qwen3-Coder-Next): Qwen3.5-MoE, but for files that have the projections of a
state in turns, those of a key head each (https://huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct).
"""

from __future__ import annotations

from llm_lite.core.models import qwen3_5 as dense
from llm_lite.core.models.description.rows import row, rows_of
from llm_lite.core.models.description.tensors import FusedRow, in_groups
from llm_lite.core.models.qwen3_5_moe import QWEN3_5_MOE, Qwen35MoeConfig
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace


class Qwen3NextConfig(Qwen35MoeConfig, frozen=True, kw_only=True):
    """Value heads of a key head are neighbours in all files."""

    tiled: bool = row(replace(rows_of(dense.Qwen35Config)["tiled"], default=False))


def _queries_to_gates(tensor: TensorData, c: Qwen3NextConfig) -> TensorData:
    """Return rows of queries, keys, values and gates, those of each kind together."""
    values = c.inner // c.key_heads
    return in_groups(tensor, c.key_heads, (c.key_dim, c.key_dim, values, values))


def _writes_and_decays(tensor: TensorData, c: Qwen3NextConfig) -> TensorData:
    """Return rows that say how much is written and how much decays, those of each kind together."""
    each = c.state_heads // c.key_heads
    return in_groups(tensor, c.key_heads, (each, each))


_ROWS = {one.gguf: replace(one, checkpoint=None) for one in QWEN3_5_MOE.tensors}
_BLOCK = "blk.{i}."
_PROJECTIONS = tuple(
    _BLOCK + f"{name}.weight" for name in ("attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha")
)
_QKV, _GATE, _BETA, _ALPHA = (_ROWS[name] for name in _PROJECTIONS)
_LINEAR = "layers.{i}.linear_attn."

QWEN3_NEXT = replace(
    QWEN3_5_MOE,
    title="Qwen3-Next",
    gguf="qwen3next",
    model_types=("qwen3_next",),
    config=Qwen3NextConfig,
    fused=(
        *QWEN3_5_MOE.fused,
        FusedRow(
            _BLOCK + "ssm_in.weight",
            _LINEAR + "in_proj_qkvz.weight",
            (_QKV, _GATE),
            ordered=_queries_to_gates,
        ),
        FusedRow(
            _BLOCK + "ssm_ba.weight",
            _LINEAR + "in_proj_ba.weight",
            (_BETA, _ALPHA),
            ordered=_writes_and_decays,
        ),
    ),
    must_be=(
        *QWEN3_5_MOE.must_be,
        ("decoder_sparse_step", 1, "layers without experts are"),
        ("mlp_only_layers", [], "layers without experts are"),
        ("norm_topk_prob", True, "shares that do not add up to 1 are"),
    ),
)
