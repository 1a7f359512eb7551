"""EmbeddingGemma (https://arxiv.org/abs/2509.20354): Gemma 3 as an encoder, whose tokens see those
behind them too. Sliding layers see half a window on either side. The mean of the hidden states goes
through two dense layers, which GGUF files may lack.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from llm_lite.core.models.blocks import Decoder, attention_block, gated_block, residual_stream
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import pooling
from llm_lite.core.models.description.architecture import (
    Architecture,
    Metadata,
    Tensors,
    Weights,
)
from llm_lite.core.models.description.rows import FieldRow, integer, row
from llm_lite.core.models.description.tensors import of_model
from llm_lite.core.models.gemma3 import GEMMA_3, TENSORS, Gemma3Config
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Plan, Tensor
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.tensor import TensorData, float_tensor
from llm_lite.core.records import replace

_WINDOW = MADE + "window"
_WIDEST = 1 << 16  # positions of a window: each is a column of a table
_UNSEEN = -1e6  # added to a score: its share is 0
# Of GGUF's dense layers, which are called after the folders of sentence-transformers.
_DENSE = ("dense_2", "dense_3")


class EmbeddingGemmaConfig(Gemma3Config, frozen=True, kw_only=True):
    window: int = row(FieldRow("attention.sliding_window", "sliding_window", integer(most=_WIDEST)))
    poolings: tuple[str, ...] = row(pooling.POOLINGS_OF_ENCODERS)

    @property
    def reach(self) -> int:
        """Return how far a sliding layer's tokens see on either side."""
        return self.window // 2

    @property
    def columns(self) -> int:
        """Return the columns of the table by distance: one is out of reach on either side."""
        return 2 * self.reach + 3


def _sees_all(config: EmbeddingGemmaConfig, layer: int) -> bool:
    return config.reach + 1 >= config.context


def _window(config: EmbeddingGemmaConfig, tensors: Tensors) -> list[TensorData]:
    """[heads, columns]: what distances add to the scores of sliding layers."""
    if _sees_all(config, 0):
        return []
    added = np.zeros((config.heads, config.columns))
    added[:, [0, -1]] = _UNSEEN
    return [float_tensor(_WINDOW, added)]


def _plan(
    config: EmbeddingGemmaConfig, weights: Weights, options: BuildOptions, bucket: Bucket
) -> Plan:
    """Build the plan from tokens to hidden states [T, width]."""
    b = PlanBuilder(weights, bucket, integer_activations=options.integer_activations)
    d = Decoder(b, config, options)
    x = b.embed(b.weight(shared.EMBEDDING), "embedding")
    x = b.scale(x, "embedding.scaled", factor=math.sqrt(config.width))
    return b.finish(residual_stream(b, config.shape, x, partial(_layer, d)))


def _layer(d: Decoder[EmbeddingGemmaConfig], x: Tensor, layer: int) -> Tensor:
    """[T, width] -> [T, width]; the last layer's are hidden states, behind the model's norm."""
    c, b = d.config, d.b
    bias = (b.weight(_WINDOW), c.reach + 1) if c.sliding[layer] and b.has(_WINDOW) else None
    x = attention_block(
        d,
        x,
        layer,
        post_norm="post_attention_norm",
        qk_norm=True,
        theta=c.sliding_theta if c.sliding[layer] else None,
        scale=c.attention_scale,
        bias=bias,
        bidirectional=True,
    )
    x = gated_block(d, x, layer, post_norm="post_ffw_norm", gelu=True)
    return d.norm(x, "output_norm", "output.norm") if layer == c.layers - 1 else x


class _EmbeddingArchitecture(Architecture, frozen=True, kw_only=True):
    """Gemma 3 that makes vectors of texts."""

    def read(self, metadata: Metadata, weights: Weights, path: Path) -> Model:
        config = self.config_of(metadata, weights, path)
        plan = partial(self.graph, config, weights)
        embedding = config.embedding
        return Model(
            config.shape,
            plan,
            bidirectional=True,
            embedding=embedding,
            has_head=False,
            names=self._names(config, weights),
        )

    def complete(self, metadata: Metadata, tensors: Tensors, path: Path) -> Tensors:
        named = {f"{old}.weight": f"dense.{i}.weight" for i, old in enumerate(_DENSE)}
        if not named.keys().isdisjoint(tensors):
            renamed = {named.get(name, name): tensor for name, tensor in tensors.items()}
            tensors = MappingProxyType(
                {name: replace(tensor, name=name) for name, tensor in renamed.items()}
            )
        return super().complete(metadata, tensors, path)

    def _config(self, metadata: Metadata, weights: Weights, path: Path) -> Any:
        given = [metadata.get(f"{self.gguf}.{one}_feat_out") for one in _DENSE]
        widths = [width for width in given if width is not None]
        own = {f"{self.gguf}.dense.widths": widths} if widths else {}
        return super()._config({**own, **metadata}, weights, path)


EMBEDDING_GEMMA = _EmbeddingArchitecture(
    title="EmbeddingGemma",
    gguf="gemma-embedding",
    model_types=(),  # it is gemma3_text with use_bidirectional_attention
    config=EmbeddingGemmaConfig,
    tensors=(
        *(one for one in TENSORS if one.gguf != shared.HEAD),
        of_model(_WINDOW, None, "heads", "columns", optional=_sees_all),
    ),
    graph=_plan,
    must_be=(
        ("hidden_activation", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("attention_bias", False, "biases are"),
        ("attn_logit_softcapping", None, "caps of scores of an encoder are"),
    ),
    defaults=GEMMA_3.defaults,
    derived=_window,
    tied=True,
    module=lambda name: (name,),
    modules=GEMMA_3.modules,
)
