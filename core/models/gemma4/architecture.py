"""Gemma 4 (text, dense), under the names of GGUF files and of transformers' checkpoints."""

from __future__ import annotations

from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.tensors import NameRow, of_layer, of_model
from llm_lite.core.models.gemma3n.config import PER_LAYER_TABLE
from llm_lite.core.models.gemma4.config import Gemma4Config, factors_of_full_layers
from llm_lite.core.models.gemma4.graph import plan
from llm_lite.core.records import replace


def _shares(config: Gemma4Config, layer: int) -> bool:
    return layer >= config.own_caches


def _may_lack_values(config: Gemma4Config, layer: int) -> bool:
    return _shares(config, layer) or not config.sliding[layer]


def _none_of_layers(config: Gemma4Config, layer: int) -> bool:
    return not config.layer_width


def _of_inputs(*rows: NameRow) -> tuple[NameRow, ...]:
    """Mark rows of the embedding for every layer as optional, as larger models lack it."""
    return tuple(replace(row, optional=_none_of_layers) for row in rows)


_TENSORS = (
    *shared.MODEL_TENSORS,
    of_model(rope.FACTORS, None, "rotary_pairs"),
    *_of_inputs(
        of_model(PER_LAYER_TABLE, "embed_tokens_per_layer.weight", "table_rows", "layers_width"),
        of_model(
            "per_layer_model_proj.weight",
            "per_layer_model_projection.weight",
            *("layers_width", "width"),
        ),
        of_model("per_layer_proj_norm.weight", "per_layer_projection_norm.weight", "layer_width"),
        of_layer("inp_gate.weight", "per_layer_input_gate.weight", "layer_width", "width"),
        of_layer("proj.weight", "per_layer_projection.weight", "width", "layer_width"),
        of_layer("post_norm.weight", "post_per_layer_input_norm.weight", "width"),
    ),
    shared.ATTENTION_NORM,
    shared.QUERY,
    replace(shared.KEY, optional=_shares),
    replace(shared.VALUE, optional=_may_lack_values),
    shared.ATTENTION_OUTPUT,
    replace(shared.QUERY_NORM, shape=("head_dims",)),
    replace(shared.KEY_NORM, shape=("head_dims",), optional=_shares),
    of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
    of_layer("ffn_norm.weight", "pre_feedforward_layernorm.weight", "width"),
    *shared.GATED,
    of_layer("post_ffw_norm.weight", "post_feedforward_layernorm.weight", "width"),
    replace(of_layer("layer_output_scale.weight", "layer_scalar", "width"), spread=True),
)

GEMMA_4 = Architecture(
    title="Gemma 4",
    gguf="gemma4",
    model_types=("gemma4_text", "gemma4"),
    config=Gemma4Config,
    tensors=_TENSORS,
    graph=plan,
    must_be=(
        ("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("enable_moe_block", False, "mixtures of experts are"),
    ),
    defaults={
        "hidden_size": 2304,
        "hidden_size_per_layer_input": 256,
        "intermediate_size": 9216,
        "num_hidden_layers": 30,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "num_kv_shared_layers": 0,
        "head_dim": 256,
        "global_head_dim": 512,
        "max_position_embeddings": 131072,
        "sliding_window": 512,
    },
    vocabularies=(
        ("vocab_size", shared.EMBEDDING),
        ("vocab_size_per_layer_input", PER_LAYER_TABLE),
    ),
    tied=True,
    on_disk=frozenset({PER_LAYER_TABLE}),
    of_config=factors_of_full_layers,
    of_fields=lambda config: [],
)
