"""Gemma 3n (text), under the names of GGUF files.

Four residual streams that a layer updates together (AltUp, Baykal et al. 2023), a low-rank residual
beside attention (LAuReL, Menghani et al. 2024), an embedding of the token for every layer, which
stays on disk, sparse activations in the first layers, and two kinds of attention: full and sliding.
The last layers have no keys and values of their own, but read those of the last layer
before them that has, of their kind. Norms are x / rms(x) * weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llm_lite.core.errors import FileError
from llm_lite.core.formats import ranges
from llm_lite.core.models.blocks import cached_attention, residual_stream
from llm_lite.core.models.fields import Fields, KnownShape, check_shapes
from llm_lite.core.models.model import BuildOptions, Model, ModelShape
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor

PER_LAYER_TABLE = "per_layer_token_embd.weight"
_VECTORS = (
    *("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"),
    *("laurel_post_norm", "altup_router_norm", "altup_correct_scale"),
)
_UNUSED = ("attn_k", "attn_v", "attn_k_norm")  # of layers that share those of another
_STREAM_EPS = 1e-5  # of the streams' mean square, where they are brought to the first one's size


@dataclass(frozen=True, slots=True)
class Gemma3nConfig:
    shape: ModelShape
    eps: float
    sliding: tuple[bool, ...]  # by layer
    window: int  # positions that a sliding layer sees
    theta: float  # rotary base of full layers
    sliding_theta: float
    own_caches: int  # layers from here on read a cache of an earlier one
    feed_forward: tuple[int, ...]  # width by layer
    sparsity: tuple[float, ...]  # by layer, in standard deviations; -inf: dense
    streams: int
    active: int  # the stream that layers work on
    correct_scale: bool
    layer_width: int  # of a token's embedding for one layer
    table_layers: tuple[int, ...]  # by layer, which part of a row of the table is its embedding
    table_columns: int
    laurel_rank: int
    softcap: float  # of logits

    def cache_of(self, layer: int) -> int:
        """The layer whose keys and values this one reads."""
        if layer < self.own_caches:
            return layer
        kind = self.sliding[layer]
        return max(i for i in range(self.own_caches) if self.sliding[i] == kind)


def read(metadata: Mapping[str, object], weights: Mapping[str, WeightSpec], path: Path) -> Model:
    config = config_of(metadata, weights, path)
    return Model(config.shape, partial(_plan, config, weights), frozenset({PER_LAYER_TABLE}))


def config_of(
    metadata: Mapping[str, object], weights: Mapping[str, WeightSpec], path: Path
) -> Gemma3nConfig:
    """The fields, checked, and every tensor's shape against them."""
    config = _config(Fields(metadata, path, "gemma3n."), weights, path)
    check_shapes("Gemma 3n", _shapes(config, weights), weights, path)
    return config


def shapes_of(
    metadata: Mapping[str, object], path: Path, *, rows: int, table_rows: int, rank: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Every tensor of a model of these fields: `rows` and `table_rows` are the vocabularies of the
    embedding and of the per-layer one, `rank` LAuReL's. With the keys and values of layers that
    share others', which checkpoints have and nobody uses."""
    sizes = {"token_embd.weight": rows, PER_LAYER_TABLE: table_rows, "blk.0.laurel_l.weight": rank}
    known = {name: KnownShape(name, "f32", (size, 1)) for name, size in sizes.items()}
    config = _config(Fields(metadata, path, "gemma3n."), known, path)
    for layer in range(config.own_caches, config.shape.layers):
        names = (f"blk.{layer}.{stem}.weight" for stem in _UNUSED)
        known |= {name: KnownShape(name, "f32", ()) for name in names}
    return _shapes(config, known)


def _plan(
    config: Gemma3nConfig, weights: Mapping[str, WeightSpec], options: BuildOptions, bucket: Bucket
) -> Plan:
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    embedded = b.embed(b.weight("token_embd.weight"), "embedding")
    x = b.scale(embedded, "embedding.scaled", factor=math.sqrt(config.shape.width))
    per_layer = _per_layer_inputs(b, config, x)
    x = _streams(b, config, x)
    layer = partial(_layer, b, config, options, per_layer)
    x = residual_stream(b, config.shape, x, layer)
    x = b.output_rows(x, "output.rows")
    x = _joined(b, config, x)
    x = b.rms_norm(x, b.weight("output_norm.weight"), config.eps, "output.norm")
    logits = b.matmul(x, b.weight("token_embd.weight"), "logits", float_inputs=True)
    if config.softcap:
        logits = b.softcap(logits, "logits.cap", scale=1 / config.softcap, cap=config.softcap)
    return b.finish(logits)


def _per_layer_inputs(b: PlanBuilder, config: Gemma3nConfig, x: Tensor) -> Tensor:
    """[T, layers * layer_width]: of the token's identity and of its embedding, half each."""
    rows = _table_rows(b, config)
    rows = b.scale(rows, "per_layer.scaled", factor=math.sqrt(config.layer_width))
    h = b.matmul(x, b.weight("per_layer_model_proj.weight"), "per_layer.project")
    h = b.scale(h, "per_layer.project_scaled", factor=config.shape.width**-0.5)
    h = b.rms_norm(h, b.weight("per_layer_proj_norm.weight"), config.eps, "per_layer.norm")
    return b.scale(b.add(h, rows, "per_layer.sum"), "per_layer.inputs", factor=math.sqrt(0.5))


def _table_rows(b: PlanBuilder, config: Gemma3nConfig) -> Tensor:
    """[T, layers * layer_width]: of rows of the table what belongs to the layers that there are."""
    rows, n = b.table_rows(b.table(PER_LAYER_TABLE), "per_layer.rows"), config.layer_width
    found: Tensor | None = None
    for first, count in _runs(config.table_layers):
        if count * n == rows.shape[1]:
            return rows
        at = f"per_layer.rows.{first}"
        part = b.columns(rows, at, first=first * n, count=count * n)
        found = part if found is None else b.concat(found, part, at + ".joined")
    assert found is not None
    return found


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First number and count of each run of numbers that follow each other."""
    for _, group in itertools.groupby(enumerate(numbers), lambda item: item[1] - item[0]):
        run = [number for _, number in group]
        yield run[0], len(run)


def _streams(b: PlanBuilder, config: Gemma3nConfig, x: Tensor) -> Tensor:
    """[T, streams * width]: the embedding, and projections of it of the same size."""
    streams = x
    for i in range(config.streams - 1):
        at = f"streams.{i + 1}"
        h = b.matmul(x, b.weight(f"altup_proj.{i}.weight"), at + ".project")
        h = b.match_rms(h, x, _STREAM_EPS, at + ".match")
        streams = b.concat(streams, h, at)
    return streams


def _joined(b: PlanBuilder, config: Gemma3nConfig, streams: Tensor) -> Tensor:
    """[O, width]: the mean of the streams, each projected back and of the first one's size."""
    first = total = b.columns(streams, "join.0", first=0, count=config.shape.width)
    for i in range(1, config.streams):
        at = f"join.{i}"
        h = b.columns(streams, at, first=i * config.shape.width, count=config.shape.width)
        h = b.matmul(h, b.weight(f"altup_unembd_proj.{i - 1}.weight"), at + ".project")
        total = b.add(total, b.match_rms(h, first, _STREAM_EPS, at + ".match"), at + ".sum")
    return b.scale(total, "join.mean", factor=1 / config.streams)


def _layer(
    b: PlanBuilder,
    config: Gemma3nConfig,
    options: BuildOptions,
    per_layer: Tensor,
    streams: Tensor,
    layer: int,
) -> Tensor:
    at, w, width = f"layers.{layer}", f"blk.{layer}.", config.shape.width
    active = partial(b.columns, first=config.active * width, count=width)
    routed = _route(b, config, active(streams, at + ".predict.active"), layer, "predict")
    coefs = b.matmul(routed, b.weight(w + "altup_predict_coef.weight"), at + ".predict.coefs")
    predicted = b.altup_predict(streams, coefs, at + ".predict")
    x = active(predicted, at + ".active")
    x = _attention_block(b, config, options, x, layer)
    x = _feed_forward_block(b, config, x, layer)
    routed = _route(b, config, x, layer, "correct")
    coefs = b.matmul(routed, b.weight(w + "altup_correct_coef.weight"), at + ".correct.coefs")
    y = b.altup_correct(predicted, x, coefs, at + ".correct", active=config.active)
    first = active(y, at + ".corrected")
    return b.add_streams(y, _per_layer_block(b, config, first, per_layer, layer), at, first=1)


def _route(b: PlanBuilder, config: Gemma3nConfig, x: Tensor, layer: int, stage: str) -> Tensor:
    """[T, streams]: how much each stream is like the active one, -1 to 1."""
    at, w = f"layers.{layer}.{stage}", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "altup_router_norm.weight"), config.eps, at + ".norm")
    h = b.matmul(h, b.weight(w + "altup_router.weight"), at + ".router")
    return b.softcap(h, at + ".routed", scale=1 / config.shape.width, cap=1.0)


def _attention_block(
    b: PlanBuilder, config: Gemma3nConfig, options: BuildOptions, x: Tensor, layer: int
) -> Tensor:
    """Attention and the low-rank residual, both of the normed input, join the residual."""
    at, w, eps = f"layers.{layer}.attention", f"blk.{layer}.", config.eps
    h = b.rms_norm(x, b.weight(w + "attn_norm.weight"), eps, at + ".norm")
    low = b.matmul(h, b.weight(w + "laurel_l.weight"), at + ".laurel.left")
    low = b.matmul(low, b.weight(w + "laurel_r.weight"), at + ".laurel.right")
    low = b.rms_norm(low, b.weight(w + "laurel_post_norm.weight"), eps, at + ".laurel.norm")
    low = b.add(h, low, at + ".laurel")
    y = _attention(b, config, options, h, layer)
    y = b.matmul(y, b.weight(w + "attn_output.weight"), at + ".output")
    y = b.rms_norm(y, b.weight(w + "post_attention_norm.weight"), eps, at + ".post_norm")
    y = b.add(b.add(x, y, at + ".gated"), low, at + ".sum")
    return b.scale(y, at + ".residual", factor=math.sqrt(0.5))


def _attention(
    b: PlanBuilder, config: Gemma3nConfig, options: BuildOptions, h: Tensor, layer: int
) -> Tensor:
    shape, at, w = config.shape, f"layers.{layer}.attention", f"blk.{layer}."
    d, sliding = shape.head_dim, config.sliding[layer]
    theta = config.sliding_theta if sliding else config.theta
    rope = partial(b.rope, head_dim=d, rotary_dim=d, theta=theta, half_split=True)
    q = b.matmul(h, b.weight(w + "attn_q.weight"), at + ".q")
    q = b.rms_norm(q, b.weight(w + "attn_q_norm.weight"), config.eps, at + ".q_norm")
    q = rope(q, at + ".q_rope")
    owner, kv = config.cache_of(layer), None
    if owner == layer:
        k = b.matmul(h, b.weight(w + "attn_k.weight"), at + ".k")
        k = b.rms_norm(k, b.weight(w + "attn_k_norm.weight"), config.eps, at + ".k_norm")
        v = b.matmul(h, b.weight(w + "attn_v.weight"), at + ".v")
        v = b.rms_norm(v, None, config.eps, at + ".v_norm", width=d)
        kv = rope(k, at + ".k_rope"), v
    window = config.window if sliding else 0
    return cached_attention(
        b, shape, options, q, kv, at, layer=layer, owner=owner, window=window, scale=1.0
    )


def _feed_forward_block(b: PlanBuilder, config: Gemma3nConfig, x: Tensor, layer: int) -> Tensor:
    at, w = f"layers.{layer}.feed_forward", f"blk.{layer}."
    h = b.rms_norm(x, b.weight(w + "ffn_norm.weight"), config.eps, at + ".norm")
    gate = b.matmul(h, b.weight(w + "ffn_gate.weight"), at + ".gate")
    up = b.matmul(h, b.weight(w + "ffn_up.weight"), at + ".up")
    if config.sparsity[layer] > -math.inf:
        gate = b.sparsify(gate, at + ".sparse_gate", deviations=config.sparsity[layer])
    h = b.gelu_mul(gate, up, at + ".gelu_mul")
    y = b.matmul(h, b.weight(w + "ffn_down.weight"), at + ".down")
    y = b.rms_norm(y, b.weight(w + "post_ffw_norm.weight"), config.eps, at + ".post_norm")
    return b.add(x, y, at + ".residual")


def _per_layer_block(
    b: PlanBuilder, config: Gemma3nConfig, x: Tensor, per_layer: Tensor, layer: int
) -> Tensor:
    """What the token's embedding for this layer adds to the streams behind the first."""
    at, w, n = f"layers.{layer}.per_layer", f"blk.{layer}.", config.layer_width
    if config.correct_scale:
        x = b.scale(x, at + ".scaled", weight=b.weight(w + "altup_correct_scale.weight"))
    gate = b.matmul(x, b.weight(w + "inp_gate.weight"), at + ".gate")
    h = b.columns(per_layer, at + ".input", first=layer * n, count=n)
    h = b.gelu_mul(gate, h, at + ".gelu_mul")
    h = b.matmul(h, b.weight(w + "proj.weight"), at + ".project")
    return b.rms_norm(h, b.weight(w + "post_norm.weight"), config.eps, at + ".norm")


def _config(fields: Fields, weights: Mapping[str, WeightSpec], path: Path) -> Gemma3nConfig:
    for name in ("token_embd.weight", "blk.0.laurel_l.weight", PER_LAYER_TABLE):
        if name not in weights:
            raise FileError(path, f"tensor {name} is missing")
    layers = fields.integer("block_count", at_most=ranges.LARGEST_COUNT)
    feed_forward = fields.integers("feed_forward_length", layers)
    heads = fields.integer("attention.head_count", at_most=ranges.LARGEST_COUNT)
    kv_heads = fields.integer("attention.head_count_kv", at_most=heads)
    head_dim = fields.integer("attention.key_length", at_most=ranges.LARGEST_COUNT)
    if heads % kv_heads:
        raise fields.error("attention.head_count_kv", f"{kv_heads} does not divide {heads} heads")
    if head_dim % 2:
        raise fields.error("attention.key_length", f"expected an even number, found {head_dim}")
    streams = fields.integer("altup.num_inputs", at_least=2, at_most=16)
    table = weights[PER_LAYER_TABLE].shape
    return Gemma3nConfig(
        shape=ModelShape(
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            width=fields.integer("embedding_length"),
            feed_forward=max(feed_forward),
            vocabulary=weights["token_embd.weight"].shape[0],
            trained_context=fields.integer("context_length", at_most=ranges.LARGEST_CONTEXT),
        ),
        eps=fields.number("attention.layer_norm_rms_epsilon", within=ranges.EPSILON),
        sliding=(sliding := fields.flags("attention.sliding_window_pattern", layers)),
        window=fields.integer("attention.sliding_window"),
        theta=fields.number("rope.freq_base", 1e6, within=ranges.ROPE_BASE),
        sliding_theta=fields.number("rope.freq_base_swa", 1e4, within=ranges.ROPE_BASE),
        own_caches=_own_caches(fields, sliding),
        feed_forward=feed_forward,
        sparsity=fields.numbers(
            "activation_sparsity_scale", layers, -math.inf, within=ranges.DEVIATIONS
        ),
        streams=streams,
        active=fields.integer("altup.active_idx", 0, at_least=0, at_most=streams - 1),
        correct_scale=fields.flag("altup.correct_scale", True),
        layer_width=(n := fields.integer("embedding_length_per_layer_input")),
        table_layers=_table_layers(fields, layers, table[-1], n),
        table_columns=table[-1] if fields.has("table_layers") else layers * n,
        laurel_rank=weights["blk.0.laurel_l.weight"].shape[0],
        softcap=fields.number_or_zero("final_logit_softcapping", 30.0, within=ranges.SOFTCAP),
    )


def _table_layers(fields: Fields, layers: int, columns: int, width: int) -> tuple[int, ...]:
    """As a view of a larger model says; else the table has the model's layers in order."""
    if not fields.has("table_layers"):
        return tuple(range(layers))
    found = fields.integers("table_layers", layers, at_least=0)
    if (max(found) + 1) * width > columns:
        raise fields.error("table_layers", f"layer {max(found)} is not in {columns} columns")
    return found


def _own_caches(fields: Fields, sliding: tuple[bool, ...]) -> int:
    """Layers with keys and values of their own; there is one of each kind that others read."""
    layers = len(sliding)
    shared = fields.integer("attention.shared_kv_layers", 0, at_least=0, at_most=layers - 1)
    own = layers - shared
    if not set(sliding[own:]) <= set(sliding[:own]):
        raise fields.error(
            "attention.shared_kv_layers",
            f"{shared} of {layers} layers share keys and values, but among the first {own} there "
            "is none of their kind of attention to share with",
        )
    return own


def _shapes(
    config: Gemma3nConfig, weights: Mapping[str, WeightSpec]
) -> list[tuple[str, tuple[int, ...]]]:
    s, n = config.shape, config.layer_width
    table = weights[PER_LAYER_TABLE].shape  # has a vocabulary of its own
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (s.vocabulary, s.width)),
        (PER_LAYER_TABLE, (table[0], config.table_columns)),
        ("per_layer_model_proj.weight", (s.layers * n, s.width)),
        ("per_layer_proj_norm.weight", (n,)),
        ("output_norm.weight", (s.width,)),
    ]
    for i in range(config.streams - 1):
        shapes.append((f"altup_proj.{i}.weight", (s.width, s.width)))
        shapes.append((f"altup_unembd_proj.{i}.weight", (s.width, s.width)))
    for layer in range(s.layers):
        of_layer = _layer_shapes(config, layer)
        if layer >= config.own_caches:  # checkpoints may have them, unused
            unused = {stem for stem in _UNUSED if f"blk.{layer}.{stem}.weight" not in weights}
            of_layer = {stem: shape for stem, shape in of_layer.items() if stem not in unused}
        shapes += [(f"blk.{layer}.{stem}.weight", shape) for stem, shape in of_layer.items()]
    return shapes


def _layer_shapes(config: Gemma3nConfig, layer: int) -> dict[str, tuple[int, ...]]:
    s, n, streams = config.shape, config.layer_width, config.streams
    q, kv, ffn = s.heads * s.head_dim, s.kv_heads * s.head_dim, config.feed_forward[layer]
    return {
        **dict.fromkeys(_VECTORS, (s.width,)),
        "attn_q": (q, s.width),
        "attn_k": (kv, s.width),
        "attn_v": (kv, s.width),
        "attn_output": (s.width, q),
        "attn_q_norm": (s.head_dim,),
        "attn_k_norm": (s.head_dim,),
        "laurel_l": (config.laurel_rank, s.width),
        "laurel_r": (s.width, config.laurel_rank),
        "ffn_gate": (ffn, s.width),
        "ffn_up": (ffn, s.width),
        "ffn_down": (s.width, ffn),
        "altup_router": (streams, s.width),
        "altup_predict_coef": (streams * streams, streams),
        "altup_correct_coef": (streams, streams),
        "inp_gate": (n, s.width),
        "proj": (s.width, n),
    }
