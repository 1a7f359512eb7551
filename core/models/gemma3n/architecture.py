"""Gemma 3n (text), under the names of GGUF files and of transformers' checkpoints."""

from __future__ import annotations

from typing import Any

from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.tensors import of_layer, of_model
from llm_lite.core.models.gemma3n.config import DEFAULTS, PER_LAYER_TABLE, Gemma3nConfig
from llm_lite.core.models.gemma3n.cut import draft_slice
from llm_lite.core.models.gemma3n.graph import plan
from llm_lite.core.records import replace


def _unused(config: Any, layer: int) -> bool:
    """Layers that share keys and values may have matrices for them, which are not used."""
    return bool(layer >= config.own_caches)


_TENSORS = (
    of_model(shared.EMBEDDING, "embed_tokens.weight", "vocabulary", "width"),
    of_model(PER_LAYER_TABLE, "embed_tokens_per_layer.weight", "table_rows", "table_columns"),
    of_model(
        "per_layer_model_proj.weight", "per_layer_model_projection.weight", "layers_width", "width"
    ),
    of_model("per_layer_proj_norm.weight", "per_layer_projection_norm.weight", "layer_width"),
    of_model("output_norm.weight", "norm.weight", "width"),
    of_model(
        "altup_proj.{i}.weight",
        "altup_projections.{i}.weight",
        *("width", "width"),
        count="more_streams",
    ),
    of_model(
        "altup_unembd_proj.{i}.weight",
        "altup_unembed_projections.{i}.weight",
        *("width", "width"),
        count="more_streams",
    ),
    shared.ATTENTION_NORM,
    of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
    of_layer("ffn_norm.weight", "pre_feedforward_layernorm.weight", "width"),
    of_layer("post_ffw_norm.weight", "post_feedforward_layernorm.weight", "width"),
    of_layer("post_norm.weight", "post_per_layer_input_norm.weight", "width"),
    of_layer("laurel_post_norm.weight", "laurel.post_laurel_norm.weight", "width"),
    of_layer("altup_router_norm.weight", "altup.router_norm.weight", "width"),
    of_layer("altup_correct_scale.weight", "altup.correct_output_scale", "width"),
    shared.QUERY,
    replace(shared.KEY, optional=_unused),
    replace(shared.VALUE, optional=_unused),
    shared.ATTENTION_OUTPUT,
    shared.QUERY_NORM,
    replace(shared.KEY_NORM, optional=_unused),
    of_layer("laurel_l.weight", "laurel.linear_left.weight", "laurel_rank", "width"),
    of_layer("laurel_r.weight", "laurel.linear_right.weight", "width", "laurel_rank"),
    *shared.GATED,
    of_layer("altup_router.weight", "altup.modality_router.weight", "streams", "width"),
    of_layer(
        "altup_predict_coef.weight", "altup.prediction_coefs.weight", "coefficients", "streams"
    ),
    of_layer("altup_correct_coef.weight", "altup.correction_coefs.weight", "streams", "streams"),
    of_layer("inp_gate.weight", "per_layer_input_gate.weight", "layer_width", "width"),
    of_layer("proj.weight", "per_layer_projection.weight", "width", "layer_width"),
)

GEMMA_3N = Architecture(
    title="Gemma 3n",
    gguf="gemma3n",
    model_types=("gemma3n", "gemma3n_text"),
    config=Gemma3nConfig,
    tensors=_TENSORS,
    graph=plan,
    must_be=(
        ("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("tie_word_embeddings", True, "a head of its own is"),
    ),
    refused=(),
    defaults=DEFAULTS,
    vocabularies=(
        ("vocab_size", shared.EMBEDDING),
        ("vocab_size_per_layer_input", PER_LAYER_TABLE),
    ),
    tied=True,
    on_disk=frozenset({PER_LAYER_TABLE}),
    draft_slice=draft_slice,
    of_config=lambda config, known: [],
    of_fields=lambda config: [],
    modules={
        "embed_tokens": ("embedding.scaled",),
        "layers.{i}": (),  # whose streams lie behind each other
        "layers.{i}.altup.router_norm": (),  # which run twice
        "layers.{i}.altup.modality_router": (),
    },
)
