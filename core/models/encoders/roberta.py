"""RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692) and XLM-R (Conneau et al. 2020).

Rows of positions begin behind the one that is kept for padding: `pad_token_id` + 1.
"""

from __future__ import annotations

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_CONTEXT
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.rows import FieldRow, Known, integer, row
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
from llm_lite.core.records import replace


def _first(config: CheckpointConfig, known: Known) -> int:
    return config.integer("pad_token_id", 1, at_least=0, at_most=LARGEST_CONTEXT) + 1


def _context(config: CheckpointConfig, known: Known) -> int:
    first = _first(config, known)
    rows = config.integer("max_position_embeddings", 512, at_least=first + 1)
    return rows - first


class RobertaConfig(EncoderConfig, frozen=True, kw_only=True):
    context: int = row(replace(shared.CONTEXT, checkpoint=_context))
    first: int = row(FieldRow("position_first", _first, integer(0, LARGEST_CONTEXT)))


ROBERTA = EncoderArchitecture(
    title="RoBERTa",
    gguf="roberta",  # a name of ours: GGUF files of RoBERTa are of architecture bert
    model_types=("roberta", "xlm-roberta", "camembert"),
    config=RobertaConfig,
    tensors=(
        *ENCODER_TENSORS,
        *head_tensors(
            "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder.weight"
        ),
    ),
    graph=encoder_plan,
    must_be=MUST_BE,
    of_config=dense_tensors,
    prefix="roberta.",
    other_tasks={"pooler.": "the pooler"},
    decoder="lm_head.decoder",
    bias="lm_head.bias",
    module=lambda name: (name, f"roberta.{name}"),
    modules={**MODULES, "lm_head.decoder": ("logits",)},
)
