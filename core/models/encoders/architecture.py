"""The architecture of an encoder's file in this folder, and the translation of its checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.blocks import Decoder, cached_attention, residual_stream
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import sentence_files
from llm_lite.core.models.description.architecture import (
    Architecture,
    Metadata,
    Tensors,
    Translated,
    Weights,
)
from llm_lite.core.models.description.decoder import EMBEDDING, HEAD, POSITIONS
from llm_lite.core.models.description.tensors import NameRow, of_model
from llm_lite.core.models.description.tied import without_copies
from llm_lite.core.models.encoders.config import (
    HEAD_BIAS,
    HEAD_DENSE,
    HEAD_NORM,
    TYPES,
    EncoderConfig,
)
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.plan.builder import Bucket, PlanBuilder, WeightSpec
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.records import replace

_Encoder = Decoder[EncoderConfig]


# What checkpoints of these years call the parameters of norms.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_MADE = ("embeddings.position_ids", "embeddings.token_type_ids")  # buffers that some keep


class EncoderArchitecture(Architecture, frozen=True, kw_only=True):
    """The architecture of an encoder. prefix: of all tensors, if the encoder is a part of the
    checkpoint.

    other_tasks: how names of tensors of other tasks begin, and what these tensors are. decoder: the
    last layer of the masked-token head. bias: its bias, where the layer has none of its own.
    """

    prefix: str
    other_tasks: Mapping[str, str]
    decoder: str
    bias: str

    def read(self, metadata: Metadata, weights: Weights, path: Path) -> Model:
        config = self.config_of(metadata, weights, path)
        return Model(
            config.shape,
            partial(self.graph, config, weights),
            self.on_disk,
            bidirectional=True,
            embedding=config.embedding,
            has_head=config.has_head,
            names=self._names(config, weights),
        )

    def translate(self, config: CheckpointConfig, tensors: Tensors) -> Translated:
        config = self.with_defaults(config)
        metadata, known = self._metadata(config)
        result = Translated(metadata, {})
        left_out: Counter[str] = Counter()
        names = {old: _renamed(old.removeprefix(self.prefix)) for old in tensors}
        tensors = self._once(tensors, config.flag("tie_word_embeddings", True))
        dropped = self._repeated(frozenset(names.values()))
        for old, tensor in tensors.items():
            own = names[old]
            other = self._other_task(own)
            left_out[other] += bool(other)
            if not other and own not in dropped and not own.endswith(_MADE):
                placed = self.bias if own == f"{self.decoder}.bias" else own
                self._add(result, config.path.parent, placed, tensor, known)
        self._check_vocabularies(config, result.tensors)
        result.tensors |= {tensor.name: tensor for tensor in self.of_config(config, known)}
        if sentence_files.is_normalized(config, known) is None:  # else it says what it is for
            result.notes += [
                f"{other} ({count} tensors) is not used: hidden states and masked tokens need none"
                for other, count in left_out.items()
                if count
            ]
        return result

    def _once(self, tensors: Tensors, tied: bool) -> Tensors:
        """Return the tensors without a matrix of the head that is the embedding."""
        own = {_renamed(name.removeprefix(self.prefix)): name for name in tensors}
        head, embedding = own.get(f"{self.decoder}.weight"), own.get(self._embedding)
        if not tied or head is None or embedding is None:
            return tensors
        return without_copies(tensors, embedding, (head,))

    @cached_property
    def _embedding(self) -> str:
        return next(row.checkpoint or "" for row in self.tensors if row.gguf == EMBEDDING)

    def _repeated(self, names: frozenset[str]) -> frozenset[str]:
        """Return the name of the head's bias if its layer has one of its own, which is used."""
        own = f"{self.decoder}.bias"
        return frozenset({self.bias} if self.bias != own and own in names else ())

    def _other_task(self, name: str) -> str:
        tasks = self.other_tasks.items()
        return next((what for begin, what in tasks if name.startswith(begin)), "")


def _renamed(name: str) -> str:
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _both(gguf: str, checkpoint: str, *shape: str) -> tuple[NameRow, NameRow]:
    """Return the rows of a matrix (or a norm) of a layer, and its bias."""
    weight = NameRow(
        f"blk.{{i}}.{gguf}.weight", f"encoder.layer.{{i}}.{checkpoint}.weight", shape, "layers"
    )
    bias = replace(
        weight,
        gguf=f"blk.{{i}}.{gguf}.bias",
        checkpoint=f"encoder.layer.{{i}}.{checkpoint}.bias",
        shape=shape[:1],
    )
    return weight, bias


def head_tensors(dense: str, norm: str, bias: str, decoder: str) -> tuple[NameRow, ...]:
    """Return the tensors of a masked-token head, by names in checkpoints: all or none."""

    def of_head(gguf: str, checkpoint: str, *shape: str) -> NameRow:
        return of_model(gguf, checkpoint, *shape, optional=lambda config, _: not config.has_head)

    return (
        of_head(f"{HEAD_DENSE}.weight", f"{dense}.weight", "width", "width"),
        of_head(f"{HEAD_DENSE}.bias", f"{dense}.bias", "width"),
        of_head(f"{HEAD_NORM}.weight", f"{norm}.weight", "width"),
        of_head(f"{HEAD_NORM}.bias", f"{norm}.bias", "width"),
        of_head(HEAD_BIAS, bias, "vocabulary"),
        of_model(shared.HEAD, decoder, "vocabulary", "width", optional=True),
    )


ENCODER_TENSORS: tuple[NameRow, ...] = (
    of_model(shared.EMBEDDING, "embeddings.word_embeddings.weight", "vocabulary", "width"),
    of_model(shared.POSITIONS, "embeddings.position_embeddings.weight", "position_rows", "width"),
    of_model(TYPES, "embeddings.token_type_embeddings.weight", "types", "width", optional=True),
    of_model("token_embd_norm.weight", "embeddings.LayerNorm.weight", "width"),
    of_model("token_embd_norm.bias", "embeddings.LayerNorm.bias", "width"),
    *_both("attn_q", "attention.self.query", "q_width", "width"),
    *_both("attn_k", "attention.self.key", "kv_width", "width"),
    *_both("attn_v", "attention.self.value", "kv_width", "width"),
    *_both("attn_output", "attention.output.dense", "width", "q_width"),
    *_both("attn_output_norm", "attention.output.LayerNorm", "width"),
    *_both("ffn_up", "intermediate.dense", "feed_forward", "width"),
    *_both("ffn_down", "output.dense", "width", "feed_forward"),
    *_both("layer_output_norm", "output.LayerNorm", "width"),
)
_ACTIVATED = tuple(f"feed_forward.{one}" for one in ("gelu", "gelu_new", "relu", "silu"))
# Modules of a layer, and before them, that hold others.
MODULES: Mapping[str, tuple[str, ...]] = {
    "embeddings": ("embedding.norm",),
    "encoder.layer.{i}.attention.self": ("attention.heads",),
    "encoder.layer.{i}.attention.output": ("attention.norm",),
    "encoder.layer.{i}.attention": ("attention.norm",),
    "encoder.layer.{i}.intermediate": _ACTIVATED,
    "encoder.layer.{i}.output": ("feed_forward.norm",),
}
MUST_BE = (
    ("position_embedding_type", "absolute", "relative positions are"),
    ("is_decoder", False, "such a decoder is"),
    ("add_cross_attention", False, "cross-attention is"),
)
dense_tensors = sentence_files.dense_tensors


# The graph of BERT's family: norms stand behind the residual, attention sees the whole text (Devlin
# et al. 2019, https://arxiv.org/abs/1810.04805).
def encoder_plan(
    config: EncoderConfig,
    weights: Mapping[str, WeightSpec],
    options: BuildOptions,
    bucket: Bucket,
) -> Plan:
    """Build the plan from tokens to hidden states [T, width], or to the logits of the masked-token
    head."""
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    d = Decoder(b, config, options)
    x = b.embed(b.weight(EMBEDDING), "embedding")
    if config.types:
        types = b.type_rows(b.weight(TYPES), "types", separator=config.separator)
        x = b.add(x, types, "embedding.typed")
    places = b.position_rows(b.weight(POSITIONS), "positions", first=config.first)
    x = d.norm(b.add(x, places, "embedding.placed"), "token_embd_norm", "embedding.norm")
    x = residual_stream(b, config.shape, x, partial(_layer, d))
    return b.finish(_head(d, x) if options.head and config.has_head else x)


def _layer(d: _Encoder, x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]"""
    w, at = f"blk.{layer}.", f"layers.{layer}.attention"
    q, k, v = (d.linear(x, f"{w}attn_{one}", f"{at}.{one}") for one in "qkv")
    y = cached_attention(
        d.b, d.config.shape, d.options, q, (k, v), at, layer=layer, bidirectional=True
    )
    y = d.residual(x, d.linear(y, w + "attn_output", at + ".output"), at, 1.0)
    x = d.norm(y, w + "attn_output_norm", at + ".norm")
    at = f"layers.{layer}.feed_forward"
    h = _activated(d, d.linear(x, w + "ffn_up", at + ".up"), at)
    y = d.residual(x, d.linear(h, w + "ffn_down", at + ".down"), at, 1.0)
    return d.norm(y, w + "layer_output_norm", at + ".norm")


def _activated(d: _Encoder, x: Tensor, at: str) -> Tensor:
    label = f"{at}.{d.config.activation}"
    match d.config.activation:
        case "gelu_new":
            return d.b.gelu(x, label)
        case "relu":
            return d.b.relu(x, label)
        case "silu":
            return d.b.silu(x, label)
    return d.b.gelu_erf(x, label)


def _head(d: _Encoder, x: Tensor) -> Tensor:
    """[T, width] -> [O, vocabulary]: logits of what could be in place of each output token."""
    x = d.b.output_rows(x, "output.rows")
    x = d.norm(_activated(d, d.linear(x, HEAD_DENSE, "head.dense"), "head"), HEAD_NORM, "head.norm")
    by = d.b.weight(HEAD if d.b.has(HEAD) else EMBEDDING)
    if not d.b.has(HEAD_BIAS):
        return d.b.matmul(x, by, "logits", float_inputs=True)
    y = d.b.matmul(x, by, "logits.unbiased", float_inputs=True)
    return d.b.add_bias(y, d.b.weight(HEAD_BIAS), "logits")
