"""DistilBERT (Sanh et al. 2019, https://arxiv.org/abs/1910.01108): half of BERT's layers, without
types of tokens. Its GGUF files are of architecture bert.
"""

from __future__ import annotations

from llm_lite.core.formats.ranges import EPSILON
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.rows import FieldRow, number, row
from llm_lite.core.models.description.tensors import NameRow
from llm_lite.core.models.encoders.architecture import (
    ENCODER_TENSORS,
    MODULES,
    EncoderArchitecture,
    dense_tensors,
    encoder_plan,
    head_tensors,
)
from llm_lite.core.models.encoders.config import ACTIVATION, TYPES, EncoderConfig
from llm_lite.core.records import replace

_NAMES = {  # of parts of a layer: BERT's, and these
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


class DistilBertConfig(EncoderConfig, frozen=True, kw_only=True):
    layers: int = row(replace(shared.LAYERS, checkpoint="n_layers"))
    width: int = row(replace(shared.WIDTH, checkpoint="dim"))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint="hidden_dim"))
    heads: int = row(replace(shared.HEADS, checkpoint="n_heads"))
    eps: float = row(FieldRow("attention.layer_norm_epsilon", None, number(EPSILON), 1e-12, 1e-12))
    activation: str = row(replace(ACTIVATION, checkpoint="activation"))


def _full(name: str) -> tuple[str, ...]:
    own = f"transformer.{name}" if name.startswith("layer.") else name
    return own, f"distilbert.{own}"


def _named(one: NameRow) -> NameRow:
    """Return BERT's row of a tensor by its name here, behind "transformer."."""
    begin, _, rest = (one.checkpoint or "").partition("encoder.layer.{i}.")
    if begin or not rest:
        return one
    part, _, kind = rest.rpartition(".")
    return replace(one, checkpoint=f"layer.{{i}}.{_NAMES[part]}.{kind}")


DISTILBERT = EncoderArchitecture(
    title="DistilBERT",
    gguf="distilbert",  # a name of ours
    model_types=("distilbert",),
    config=DistilBertConfig,
    tensors=(
        *(_named(one) for one in ENCODER_TENSORS if one.gguf != TYPES),
        *head_tensors(
            "vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector.weight"
        ),
    ),
    graph=encoder_plan,
    must_be=(("sinusoidal_pos_embds", False, "positions that are computed are"),),
    of_config=dense_tensors,
    prefix="distilbert.",
    other_tasks={
        "pre_classifier.": "the head of a classifier",
        "classifier.": "a classifier",
        "qa_outputs.": "a head for answers in a text",
    },
    decoder="vocab_projector",
    bias="vocab_projector.bias",
    module=_full,
    modules={
        "embeddings": MODULES["embeddings"],
        "lm_head": (),
        "vocab_projector": ("logits",),
    },
)
