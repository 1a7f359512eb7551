"""Ministral 3, and the Mistral that a multimodal checkpoint of this kind holds: llama with YaRN,
whose queries grow behind the context before YaRN
(https://huggingface.co/docs/transformers/model_doc/ministral3).
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import LARGEST_CONTEXT
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import DECODER_TENSORS, ORIGINAL_CONTEXT
from llm_lite.core.models.description.rope import original_context
from llm_lite.core.models.description.rows import FieldRow, Known, number, row
from llm_lite.core.models.llama import LlamaConfig
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


def _temperature(config: CheckpointConfig, known: Known) -> float | None:
    part, _ = config.rope()
    if part.get("llama_4_scaling_beta") is None:
        return None
    return part.number("llama_4_scaling_beta", within=(0.0, 1e3))


def _original(config: CheckpointConfig, known: Known) -> int | None:
    """Return the original context, by which queries grow whatever scales rotary positions."""
    part, _ = config.rope()
    if part.get("original_max_position_embeddings") is None:
        return original_context(config, known)
    return part.integer("original_max_position_embeddings", at_most=LARGEST_CONTEXT)


class Ministral3Config(LlamaConfig, frozen=True, kw_only=True):
    original_context: int = row(replace(ORIGINAL_CONTEXT, checkpoint=_original))
    temperature: float = row(
        FieldRow("attention.temperature_scale", _temperature, number((0.0, 1e3)), default=0.0)
    )


def _layer(d: Decoder[Ministral3Config], x: Tensor, layer: int) -> Tensor:
    return gated_block(d, attention_block(d, x, layer, temperature=d.config.temperature), layer)


MINISTRAL_3 = Architecture(
    title="Ministral 3",
    gguf="mistral3",
    model_types=("ministral3", "mistral3"),
    config=Ministral3Config,
    tensors=DECODER_TENSORS,
    graph=partial(decoder_plan, _layer),
    defaults={
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 34,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262144,
        "rms_norm_eps": 1e-5,
    },
    defaults_of={
        "ministral3": {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1000000.0,
                "factor": 16.0,
                "original_max_position_embeddings": 16384,
                "llama_4_scaling_beta": 0.1,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            }
        }
    },
)
