"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461): Marian's stacks with learned
positions, a table for each stack, and a norm behind the embedding. Rows of positions begin behind
two that are kept for padding.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.encoder_decoder import COPIES
from llm_lite.core.models.description.tensors import NameRow, of_model, with_bias
from llm_lite.core.models.encoder_decoder_plans import decoder_plan, encoder_plan
from llm_lite.core.models.marian import (
    LOGITS_BIAS,
    SUBLAYERS,
    MarianConfig,
    stack_rows,
)
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_FIRST = 2  # row of the first position


class BartConfig(MarianConfig, frozen=True, kw_only=True):
    @property
    def position_rows(self) -> int:
        return self.context + _FIRST


def _embedded(d: Decoder[BartConfig], stack: str) -> Tensor:
    b = d.b
    x = b.embed(b.weight(shared.EMBEDDING), "embedding")
    if d.config.scales_embedding:
        x = b.scale(x, "embedding.scaled", factor=d.config.width**0.5)
    places = b.position_rows(b.weight(f"{stack}.{shared.POSITIONS}"), "positions", first=_FIRST)
    x = b.add(x, places, "embedding.placed")
    return d.norm(x, f"{stack}.{shared.EMBEDDING_NORM}", "embedding.norm")


_SUBLAYERS = replace(SUBLAYERS, embedded=_embedded)


def _ends_of(stack: str) -> tuple[NameRow, ...]:
    """Return the tensors of a stack, "encoder" or "decoder", before its layers."""
    short = stack[:3]
    norm = f"{stack}.layernorm_embedding.weight"
    return (
        of_model(
            f"{short}.{shared.POSITIONS}",
            f"{stack}.embed_positions.weight",
            *("position_rows", "width"),
        ),
        *with_bias(of_model(f"{short}.{shared.EMBEDDING_NORM}.weight", norm, "width")),
    )


BART = Architecture(
    title="BART",
    gguf="bart",  # a name of ours
    model_types=("bart",),
    config=BartConfig,
    tensors=(
        of_model(shared.EMBEDDING, "shared.weight", "vocabulary", "width"),
        of_model(shared.HEAD, "lm_head.weight", "vocabulary", "width", optional=True),
        replace(of_model(LOGITS_BIAS, "final_logits_bias", "vocabulary", optional=True), flat=True),
        *_ends_of("encoder"),
        *_ends_of("decoder"),
        *stack_rows("encoder"),
        *stack_rows("decoder"),
    ),
    graph=partial(decoder_plan, _SUBLAYERS),
    encoder_graph=partial(encoder_plan, _SUBLAYERS),
    must_be=(
        ("normalize_before", False, "norms before sublayers are"),
        ("add_final_layer_norm", False, "norms behind stacks are"),
    ),
    tied=True,
    defaults={"max_position_embeddings": 1024},
    copies=COPIES,
    modules={
        "shared": (),  # each stack has a module of its own
        "encoder.embed_tokens": ("embedding.scaled", "embedding"),
        "decoder.embed_tokens": ("embedding.scaled", "embedding"),
    },
)
