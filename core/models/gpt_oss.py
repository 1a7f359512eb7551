"""gpt-oss: experts whose gates are clamped, attention with sinks and biases, windows in every other
layer (https://arxiv.org/abs/2508.10925).

Checkpoints have the gate and the up of experts in one tensor, in turns; GGUF files have one each.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.experts import (
    EXPERT_TENSORS,
    EXPERT_WIDTH,
    NORMALIZED,
    ROUTER,
    ExpertsConfig,
)
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.models.description.tensors import (
    FusedRow,
    NameRow,
    bias_of,
    of_layer,
    with_bias,
)
from llm_lite.core.models.expert_blocks import expert_block
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

ALPHA, LIMIT = 1.702, 7.0  # of the gates of all that are published


def _every_other(known: Known) -> tuple[bool, ...]:
    return tuple(known["window"] > 0 and i % 2 == 0 for i in range(known["layers"]))


class GptOssConfig(ExpertsConfig, frozen=True, kw_only=True):
    """Every other layer slides, the first among them."""

    sliding: tuple[bool, ...] = row(replace(shared.SLIDING, default=_every_other))
    whole_pairs: bool = row(replace(shared.WHOLE_PAIRS, default=False))
    expert_width: int = row(replace(EXPERT_WIDTH, checkpoint="intermediate_size"))
    normalized: bool = row(replace(NORMALIZED, checkpoint=None, default=False))


def _layer(d: Decoder[GptOssConfig], x: Tensor, layer: int) -> Tensor:
    x = attention_block(d, x, layer, sinks="attn_sinks")
    clamp = ALPHA, LIMIT
    return expert_block(d, x, layer, pre_norm="post_attention_norm", late=True, clamp=clamp)


def _values(tensor: TensorData, *shape: int) -> tuple[np.ndarray, int]:
    """Return the bytes of each value, in an array of this shape, and how many a value has."""
    size = tensor.nbytes // int(np.prod(shape))
    return tensor.data.reshape(*shape, size), size


def _made(tensor: TensorData, values: np.ndarray, *shape: int) -> TensorData:
    data = np.ascontiguousarray(values).reshape(-1)
    data.flags.writeable = False
    return replace(tensor, shape=shape, data=data)


def _rows_of_experts(tensor: TensorData) -> TensorData:
    """[E, inputs, outputs] -> [E * outputs, inputs]; what was packed has rows of outputs. One of
    another shape stays, and is refused by it."""
    if len(tensor.shape) != 3:
        return tensor
    if tensor.dtype == "mxfp4":
        experts, outputs, inputs = tensor.shape
        return replace(tensor, shape=(experts * outputs, inputs))
    experts, inputs, outputs = tensor.shape
    values, _ = _values(tensor, experts, inputs, outputs)
    return _made(tensor, values.swapaxes(1, 2), experts * outputs, inputs)


def _gates_then_ups(tensor: TensorData) -> TensorData:
    """[E, inputs, 2 * outputs], gate and up in turns -> [2 * E * outputs, inputs]: the gates of all
    experts, then what they gate. What was packed has rows of outputs."""
    if len(tensor.shape) != 3 or tensor.shape[1 if tensor.dtype == "mxfp4" else 2] % 2:
        return tensor
    if tensor.dtype == "mxfp4":
        experts, both, inputs = tensor.shape
        rows, _ = _values(tensor, experts, both // 2, 2)
        return _made(tensor, rows.transpose(2, 0, 1, 3), experts * both, inputs)
    experts, inputs, both = tensor.shape
    values, _ = _values(tensor, experts, inputs, both // 2, 2)
    return _made(tensor, values.transpose(3, 0, 2, 1, 4), experts * both, inputs)


def _biases_of_both(tensor: TensorData) -> TensorData:
    """[E, 2 * outputs], likewise -> [2 * E * outputs]"""
    if len(tensor.shape) != 2 or tensor.shape[1] % 2:
        return tensor
    experts, both = tensor.shape
    values, _ = _values(tensor, experts, both // 2, 2)
    return _made(tensor, values.transpose(2, 0, 1, 3), experts * both)


def _bias_of_experts(matrix: NameRow, checkpoint: str | None, rows: str) -> NameRow:
    stem = matrix.gguf.removesuffix("weight")
    return NameRow(stem + "bias", checkpoint, (rows,), "layers", flat=True)


_GATE, _UP, _DOWN = (replace(one, checkpoint=None) for one in EXPERT_TENSORS)
_GATE_BIAS, _UP_BIAS = (_bias_of_experts(one, None, "inner_rows") for one in (_GATE, _UP))
_EXPERTS = "layers.{i}.mlp.experts."
_ROUTER = of_layer(ROUTER.gguf.removeprefix("blk.{i}."), "mlp.router.weight", "experts", "width")

GPT_OSS = Architecture(
    title="gpt-oss",
    gguf="gpt-oss",
    model_types=("gpt_oss",),
    config=GptOssConfig,
    tensors=(
        *(*shared.MODEL_TENSORS, *shared.ROPE_TENSORS, shared.ATTENTION_NORM),
        *(one for matrix in shared.ATTENTION for one in with_bias(matrix)),
        of_layer("attn_sinks.weight", "self_attn.sinks", "heads"),
        of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
        *(_ROUTER, bias_of(_ROUTER)),
        *(_GATE, _GATE_BIAS, _UP, _UP_BIAS),
        replace(_DOWN, checkpoint=_EXPERTS + "down_proj", changed=_rows_of_experts),
        _bias_of_experts(_DOWN, _EXPERTS + "down_proj_bias", "outer_rows"),
    ),
    fused=(
        FusedRow(
            "blk.{i}.ffn_gate_up_exps.of_checkpoint",
            _EXPERTS + "gate_up_proj",
            (_GATE, _UP),
            changed=_gates_then_ups,
        ),
        FusedRow(
            "blk.{i}.ffn_gate_up_exps_bias.of_checkpoint",
            _EXPERTS + "gate_up_proj_bias",
            (_GATE_BIAS, _UP_BIAS),
            changed=_biases_of_both,
        ),
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "silu", "such a feed-forward is"),
        ("attention_bias", True, "attention without biases is"),
        ("swiglu_alpha", ALPHA, "such gates are"),
        ("swiglu_limit", LIMIT, "such gates are"),
    ),
    refused=(),
    defaults={
        "attention_bias": True,
        "head_dim": 64,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5,
        "sliding_window": 128,
        "max_position_embeddings": 131072,
        "rope_theta": 150000.0,
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
    },
    modules={"layers.{i}.mlp.experts": ("feed_forward.sum",)},
)
