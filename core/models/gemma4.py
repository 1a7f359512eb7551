"""Gemma 4 (text): its fields and names, of GGUF files and of transformers' checkpoints, and
its graph.

The graph is Gemma 3's layer with an embedding of the token for every layer, keys and values that
later layers share, and heads of two widths, of sliding and of full attention.

Full layers rotate a part of each head, whose pairs lie as far apart as those of the whole head: the
other pairs have factors that leave no angle (`rope_freqs`, as in GGUF's files). Where a full layer
has no matrix of values, they are its keys before their norm. Values are normed too; every layer's
output is multiplied by a number. The 26B has a mixture of experts beside each dense feed-forward.
Sources: transformers' `modeling_gemma4.py`, gguf-py's constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_COUNT, ROPE_BASE, ROPE_FACTOR, SOFTCAP
from llm_lite.core.models.blocks import (
    Decoder,
    cached_attention,
    residual_stream,
    through_head,
)
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.experts import (
    CHOSEN,
    EXPERT_WIDTH,
    EXPERTS,
    EXPERTS_OR_BOTH,
    ExpertRows,
    has_both,
    stacks_of_checkpoints,
    whole_tiles,
)
from llm_lite.core.models.description.rows import (
    FieldRow,
    Known,
    UnfitError,
    flags,
    integer,
    integers,
    number,
    row,
)
from llm_lite.core.models.description.tensors import NameRow, of_layer, of_model
from llm_lite.core.models.expert_blocks import mixture, router_logits
from llm_lite.core.models.gemma3n.config import PER_LAYER_TABLE, caches_to_share, owner_of
from llm_lite.core.models.gemma3n.graph import per_layer_inputs
from llm_lite.core.models.model import BuildOptions, ModelShape
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.quant.formats import TILE_ROWS
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import FieldNotesMeta, replace

_PERIOD = 6  # of layers; the last one sees all
_STILL = 1e30  # what frequencies of pairs that do not rotate are divided by


def _sliding(config: CheckpointConfig, known: Known) -> list[bool]:
    """Return for each layer whether its attention slides; the last layer always sees all."""
    if config.get("use_bidirectional_attention") == "all":
        raise UnsupportedError(f"{config.path}: attention to later tokens is not known here")
    layers = known["layers"]
    layout = shared.sliding_layers(config, known) or [(i + 1) % _PERIOD != 0 for i in range(layers)]
    return [*layout[:-1], False]


def _widths(config: CheckpointConfig, known: Known) -> list[int]:
    """Return the widths of feed-forwards, doubled in some layers that share keys and values."""
    width, layers = config.integer("intermediate_size"), known["layers"]
    double = config.flag("use_double_wide_mlp", False)
    own = layers - config.integer("num_kv_shared_layers", at_least=0, at_most=layers)
    return [width * (2 if double and i >= own else 1) for i in range(layers)]


def _of_full_layers(config: CheckpointConfig, known: Known, key: str, usual: str) -> int:
    """Return a field that full layers have a value of their own for: under a name of its own, or in
    `per_layer_config`, where transformers writes it."""
    full = known["sliding"].index(False)
    if isinstance(config.get("per_layer_config"), dict):
        own = config.part("per_layer_config")
        if isinstance(own.get(str(full)), dict):
            return own.part(str(full)).integer(key, config.integer(key), at_most=LARGEST_COUNT)
    return config.integer(usual, config.integer(key), at_most=LARGEST_COUNT)


def _head_dim(config: CheckpointConfig, known: Known) -> int:
    return _of_full_layers(config, known, "head_dim", "global_head_dim")


def _kv_heads(config: CheckpointConfig, known: Known) -> list[int]:
    sliding = config.integer("num_key_value_heads", at_most=LARGEST_COUNT)
    full = sliding
    if config.flag("attention_k_eq_v", False):
        full = _of_full_layers(config, known, "num_key_value_heads", "num_global_key_value_heads")
    return [sliding if slides else full for slides in known["sliding"]]


def _divisors(value: Any, known: Known) -> tuple[int, ...]:
    counts: tuple[int, ...] = integers(most=known["heads"])(value, known)
    for count in counts:
        if known["heads"] % count:
            raise UnfitError(f"divisors of the {known['heads']} heads", count)
    own = known["layers"] - known["shared_caches"]
    for layer, count in enumerate(counts):
        if count != counts[owner_of(layer, known["sliding"], own)]:
            raise UnfitError("as many heads as in the layer whose keys and values it reads", count)
    return counts


def _part_of(config: CheckpointConfig, kind: str) -> CheckpointConfig:
    own = config.get("rope_parameters")
    nested = isinstance(own, dict) and own.get(kind) is not None
    return (
        config.part("rope_parameters").part(kind) if nested else CheckpointConfig({}, config.path)
    )


def _theta(config: CheckpointConfig, known: Known) -> float:
    return _part_of(config, "full_attention").number("rope_theta", 1e6, within=ROPE_BASE)


def _sliding_theta(config: CheckpointConfig, known: Known) -> float:
    part = _part_of(config, "sliding_attention")
    rope.check_plain(part)
    return part.number("rope_theta", 1e4, within=ROPE_BASE)


def factors_of_full_layers(config: CheckpointConfig, known: Known) -> list[TensorData]:
    """Return the factors of full layers' pairs, [head_dim / 2], as GGUF's files have them."""
    part = _part_of(config, "full_attention")
    kind = part.text("rope_type", "proportional")
    if kind not in ("proportional", "default"):
        raise UnsupportedError(
            f"{config.path}: rotary scaling {quote(kind)} is not known here; "
            "known are default, proportional"
        )
    share = part.number("partial_rotary_factor", 0.25, within=(0.0, 1.0))
    share = 1.0 if kind == "default" else share
    pairs = known["head_dim"] // 2
    factors = np.full(pairs, _STILL)
    factors[: int(share * known["head_dim"] // 2)] = part.number("factor", 1.0, within=ROPE_FACTOR)
    return [float_tensor(rope.FACTORS, factors)]


def _of_mixture(key: str) -> Callable[[CheckpointConfig, Known], int | None]:
    """Return what finds a field of a config whose layers have experts."""

    def find(config: CheckpointConfig, known: Known) -> int | None:
        return config.integer(key) if config.flag("enable_moe_block", False) else None

    return find


def _some_of_experts(value: Any, known: Known) -> int:
    return int(integer(min(1, known["experts"]), "experts")(value, known))


class Gemma4Config(ExpertRows, Struct, metaclass=FieldNotesMeta, frozen=True, kw_only=True):
    layers: int = row(shared.LAYERS)
    context: int = row(shared.CONTEXT)
    width: int = row(shared.WIDTH)
    layer_width: int = row(  # of a token's embedding for one layer; 0: there is none
        FieldRow("embedding_length_per_layer_input", "hidden_size_per_layer_input", integer(0))
    )
    feed_forward: tuple[int, ...] = row(  # by layer
        replace(shared.FEED_FORWARD, checkpoint=_widths, check=integers())
    )
    heads: int = row(shared.HEADS)
    window: int = row(replace(shared.WINDOW, checkpoint="sliding_window", check=integer()))
    sliding: tuple[bool, ...] = row(FieldRow("attention.sliding_window_pattern", _sliding, flags))
    shared_caches: int = row(  # layers, the last ones, that read the cache of an earlier one
        FieldRow("attention.shared_kv_layers", "num_kv_shared_layers", caches_to_share, default=0)
    )
    kv_heads: tuple[int, ...] = row(FieldRow("attention.head_count_kv", _kv_heads, _divisors))
    head_dim: int = row(replace(shared.HEAD_DIM, checkpoint=_head_dim))  # of full layers
    sliding_head_dim: int = row(
        replace(
            shared.HEAD_DIM,
            gguf="attention.key_length_swa",
            checkpoint="head_dim",
            default=lambda known: known["head_dim"],
        )
    )
    eps: float = row(shared.EPS)
    theta: float = row(FieldRow("rope.freq_base", _theta, number(ROPE_BASE), default=1e6))
    sliding_theta: float = row(
        FieldRow("rope.freq_base_swa", _sliding_theta, number(ROPE_BASE), default=1e4)
    )
    softcap: float = row(  # of logits
        FieldRow(
            "final_logit_softcapping",
            "final_logit_softcapping",
            number(SOFTCAP, or_zero=True),
            default=0.0,
        )
    )
    experts: int = row(  # beside the dense feed-forward, all layers alike; 0: there are none
        replace(EXPERTS, checkpoint=_of_mixture("num_experts"), check=integer(0), default=0)
    )
    chosen: int = row(
        replace(
            CHOSEN,
            checkpoint=_of_mixture("top_k_experts"),
            check=_some_of_experts,
            default=lambda known: _some_of_experts(0, known),
        )
    )
    expert_width: int = row(
        replace(
            EXPERT_WIDTH,
            checkpoint=_of_mixture("moe_intermediate_size"),
            default=lambda known: whole_tiles(0, known) if known["experts"] else 0,
        )
    )
    vocabulary: int
    table_rows: int
    has_both: bool  # the gate and the up of experts are one matrix

    @classmethod
    def of_tensors(
        cls, known: Known, weights: Mapping[str, WeightSpec], path: Path
    ) -> dict[str, Any]:
        table = shared.size_of(weights, PER_LAYER_TABLE, path) if known["layer_width"] else (0,)
        rows = shared.size_of(weights, shared.EMBEDDING, path)[0]
        if known["experts"] and known["width"] % TILE_ROWS:
            expected = f"expected a multiple of {TILE_ROWS} of a mixture of experts"
            raise FileError(path, f"the model's width is {known['width']}, {expected}")
        return {"vocabulary": rows, "table_rows": table[0], "has_both": has_both(weights)}

    @property
    def normalized(self) -> bool:
        return True

    @property
    def shape(self) -> ModelShape:
        """Return the shape, with the widest and most heads and groups of any layer."""
        return ModelShape(
            layers=self.layers,
            heads=self.heads,
            kv_heads=max(self.kv_heads),
            head_dim=max(self.head_dim, self.sliding_head_dim),
            width=self.width,
            feed_forward=max(self.feed_forward),
            vocabulary=self.vocabulary,
            trained_context=self.context,
            query_widths=self.head_dims,
        )

    def shape_at(self, layer: int) -> ModelShape:
        width = self.head_dims[layer]
        return replace(self.shape, head_dim=width, kv_heads=self.kv_heads[layer])

    @property
    def head_dims(self) -> tuple[int, ...]:
        return tuple(self.sliding_head_dim if one else self.head_dim for one in self.sliding)

    @property
    def q_width(self) -> tuple[int, ...]:
        return tuple(self.heads * width for width in self.head_dims)

    @property
    def kv_width(self) -> tuple[int, ...]:
        return tuple(
            count * width for count, width in zip(self.kv_heads, self.head_dims, strict=True)
        )

    @property
    def rotary_pairs(self) -> int:
        return self.head_dim // 2

    @property
    def layers_width(self) -> int:
        return self.layers * self.layer_width

    @property
    def table_layers(self) -> tuple[int, ...]:
        return tuple(range(self.layers))

    @property
    def own_caches(self) -> int:
        return self.layers - self.shared_caches


def plan(
    config: Gemma4Config, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    x = b.embed(b.weight(shared.EMBEDDING), "embedding")
    x = b.scale(x, "embedding.scaled", factor=math.sqrt(config.width))
    inputs = per_layer_inputs(b, config, x) if config.layer_width else None
    x = residual_stream(b, config.shape, x, partial(_layer, Decoder(b, config, options), inputs))
    x = b.output_rows(x, "output.rows")
    x = b.rms_norm(x, b.weight("output_norm.weight"), config.eps, "output.norm")
    logits = through_head(b, x)
    if config.softcap:
        logits = b.softcap(logits, "logits.cap", scale=1 / config.softcap, cap=config.softcap)
    return b.finish(logits)


def _layer(d: Decoder[Gemma4Config], inputs: Tensor | None, x: Tensor, layer: int) -> Tensor:
    at, w, b, config = f"layers.{layer}", f"blk.{layer}.", d.b, d.config
    h = b.rms_norm(x, b.weight(w + "attn_norm.weight"), config.eps, at + ".attention.norm")
    y = _attention(d, h, layer)
    y = b.rms_norm(
        y, b.weight(w + "post_attention_norm.weight"), config.eps, at + ".attention.post_norm"
    )
    x = b.add(x, y, at + ".attention.residual")
    x = _feed_forward(d, x, layer)
    if inputs is not None:
        x = _per_layer(b, config, x, inputs, layer)
    return b.scale(x, at + ".scaled", weight=b.weight(w + "layer_output_scale.weight"))


def _attention(d: Decoder[Gemma4Config], h: Tensor, layer: int) -> Tensor:
    at, w, b, config = f"layers.{layer}.attention", f"blk.{layer}.", d.b, d.config
    shape, slides, eps = config.shape_at(layer), config.sliding[layer], config.eps
    width = shape.head_dim
    rotate = partial(
        b.rope,
        head_dim=width,
        rotary_dim=width,
        theta=config.sliding_theta if slides else config.theta,
        half_split=True,
        factors=None if slides else b.weight(rope.FACTORS),
    )
    q = b.matmul(h, b.weight(w + "attn_q.weight"), at + ".q")
    q = b.rms_norm(q, b.weight(w + "attn_q_norm.weight"), eps, at + ".q_norm")
    q = rotate(q, at + ".q_rope")
    owner, kv = owner_of(layer, config.sliding, config.own_caches), None
    if owner == layer:
        k = b.matmul(h, b.weight(w + "attn_k.weight"), at + ".k")
        v = k
        if b.has(w + "attn_v.weight"):
            v = b.matmul(h, b.weight(w + "attn_v.weight"), at + ".v")
        k = b.rms_norm(k, b.weight(w + "attn_k_norm.weight"), eps, at + ".k_norm")
        kv = rotate(k, at + ".k_rope"), b.rms_norm(v, None, eps, at + ".v_norm", width=width)
    window = config.window if slides else 0
    y = cached_attention(
        b, shape, d.options, q, kv, at, layer=layer, owner=owner, window=window, scale=1.0
    )
    return b.matmul(y, b.weight(w + "attn_output.weight"), at + ".output")


def _feed_forward(d: Decoder[Gemma4Config], x: Tensor, layer: int) -> Tensor:
    b, config = d.b, d.config
    at, w, dense = (
        f"layers.{layer}.feed_forward",
        f"blk.{layer}.",
        ".dense" if config.experts else "",
    )
    h = b.rms_norm(x, b.weight(w + "ffn_norm.weight"), config.eps, at + ".norm")
    gate = b.matmul(h, b.weight(w + "ffn_gate.weight"), f"{at}{dense}.gate")
    up = b.matmul(h, b.weight(w + "ffn_up.weight"), f"{at}{dense}.up")
    h = b.gelu_mul(gate, up, f"{at}{dense}.gelu_mul")
    y = b.matmul(h, b.weight(w + "ffn_down.weight"), f"{at}{dense}.down")
    if config.experts:
        y = _norm(b, config, y, layer, "post_ffw_norm_1")
        y = b.add(y, _mixture(d, x, layer), at + ".sum.dense")
    y = b.rms_norm(y, b.weight(w + "post_ffw_norm.weight"), config.eps, at + ".post_norm")
    return b.add(x, y, at + ".residual")


def _norm(b: PlanBuilder, config: Gemma4Config, x: Tensor, layer: int, name: str) -> Tensor:
    weight = b.weight(f"blk.{layer}.{name}.weight")
    return b.rms_norm(x, weight, config.eps, f"layers.{layer}.feed_forward.{name}")


def _mixture(d: Decoder[Gemma4Config], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]: what the chosen experts find beside the dense feed-forward. The
    router reads a norm of its own."""
    at, w, b, config = f"layers.{layer}.feed_forward", f"blk.{layer}.", d.b, d.config
    own = b.rms_norm(x, b.weight(w + "ffn_gate_inp.scale"), config.eps, at + ".router.norm")
    own = b.scale(own, at + ".router.scaled", factor=config.width**-0.5)
    logits = router_logits(b, own, w, at)
    h = _norm(b, config, x, layer, "pre_ffw_norm_2")
    gains = b.weight(w + "ffn_down_exps.scale")
    y = mixture(d, h, logits, layer, gains=gains, gelu=True)
    return _norm(b, config, y, layer, "post_ffw_norm_2")


def _per_layer(
    b: PlanBuilder, config: Gemma4Config, x: Tensor, inputs: Tensor, layer: int
) -> Tensor:
    """Return what the token's embedding for this layer adds."""
    at, w, n = f"layers.{layer}.per_layer", f"blk.{layer}.", config.layer_width
    gate = b.matmul(x, b.weight(w + "inp_gate.weight"), at + ".gate")
    h = b.columns(inputs, at + ".input", first=layer * n, count=n)
    h = b.gelu_mul(gate, h, at + ".gelu_mul")
    h = b.matmul(h, b.weight(w + "proj.weight"), at + ".project")
    h = b.rms_norm(h, b.weight(w + "post_norm.weight"), config.eps, at + ".norm")
    return b.add(x, h, at + ".residual")


def _shares(config: Gemma4Config, layer: int) -> bool:
    return layer >= config.own_caches


def _may_lack_values(config: Gemma4Config, layer: int) -> bool:
    return _shares(config, layer) or not config.sliding[layer]


def _none_of_layers(config: Gemma4Config, layer: int) -> bool:
    return not config.layer_width


def _of_experts(*rows: NameRow) -> tuple[NameRow, ...]:
    """Mark rows of experts as optional, as most models lack them."""

    def lacks(row: NameRow) -> Callable[[Gemma4Config, int], bool]:
        usual = row.optional if callable(row.optional) else lambda c, i: False
        return lambda c, i: not c.experts or usual(c, i)

    return tuple(replace(row, optional=lacks(row)) for row in rows)


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
    *_of_experts(
        of_layer("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight", "width"),
        of_layer("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight", "width"),
        of_layer("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight", "width"),
        of_layer("ffn_gate_inp.weight", "router.proj.weight", "experts", "width"),
        of_layer("ffn_gate_inp.scale", "router.scale", "width"),
        of_layer("ffn_down_exps.scale", "router.per_expert_scale", "experts"),
        *(
            replace(one, checkpoint=one.checkpoint and one.checkpoint.replace(".mlp.", "."))
            for one in EXPERTS_OR_BOTH
        ),
    ),
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
    ),
    fused=stacks_of_checkpoints("experts.gate_up_proj", "experts.down_proj"),
    refused=(),
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
    modules={
        "embed_tokens": ("embedding.scaled",),
        "embed_tokens_per_layer": ("per_layer.scaled",),
        "layers.{i}.self_attn.v_norm": ("attention.v_norm",),
        "layers.{i}.mlp": ("feed_forward.dense.down", "feed_forward.down"),
        "layers.{i}.experts": ("feed_forward.sum",),
    },
)
# The 12B takes pictures and sound without towers; its text model has no embeddings for every layer.
GEMMA_4_UNIFIED = replace(
    GEMMA_4,
    model_types=("gemma4_unified_text", "gemma4_unified"),
    defaults={
        **GEMMA_4.defaults,
        "hidden_size_per_layer_input": 0,
        "max_position_embeddings": 262144,
        "sliding_window": 1024,
    },
)
