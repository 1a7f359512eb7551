"""BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805), MiniLM and sentence-transformers.

In GGUF the architecture `bert` is all of this family: files made of RoBERTa have their positions
from row 0 on, and one type.
"""

from __future__ import annotations

from llm_lite.core.models.encoders.architecture import (
    ENCODER_TENSORS,
    MODULES,
    MUST_BE,
    EncoderArchitecture,
    dense_tensors,
    encoder_plan,
    head_tensors,
)
from llm_lite.core.models.encoders.config import EncoderConfig

BERT = EncoderArchitecture(
    title="BERT",
    gguf="bert",
    model_types=("bert",),
    config=EncoderConfig,
    tensors=(
        *ENCODER_TENSORS,
        *head_tensors(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.bias",
            "cls.predictions.decoder.weight",
        ),
    ),
    graph=encoder_plan,
    must_be=MUST_BE,
    of_config=dense_tensors,
    prefix="bert.",
    other_tasks={
        "pooler.": "the pooler",
        "cls.seq_relationship.": "the head for the next sentence",
    },
    decoder="cls.predictions.decoder",
    bias="cls.predictions.bias",
    module=lambda name: (name, f"bert.{name}"),
    modules={
        **MODULES,
        "lm_head": (),
        "cls.predictions.decoder": ("logits",),
        "cls.predictions.transform": ("head.norm",),
        "cls.predictions": ("logits",),
        "cls": ("logits",),
    },
)
