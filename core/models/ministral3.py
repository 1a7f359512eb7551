"""Ministral 3, and the Mistral that a multimodal checkpoint of this kind holds: llama with YaRN.

Beyond the context before YaRN, queries are multiplied by 1 + beta * log(1 + floor(position /
context)), which no op does: the model is opened with at most that context, where the factor is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_lite.core.formats.huggingface.config import CheckpointConfig
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import DECODER_TENSORS
from llm_lite.core.models.description.rows import FieldRow, Known, number, row
from llm_lite.core.models.llama import LLAMA, LlamaConfig
from llm_lite.core.models.model import ModelShape


def _temperature(config: CheckpointConfig, known: Known) -> float | None:
    part, _ = config.rope()
    if part.get("llama_4_scaling_beta") is None:
        return None
    return part.number("llama_4_scaling_beta", within=(0.0, 1e3))


@dataclass(frozen=True, kw_only=True)
class Ministral3Config(LlamaConfig):
    temperature: float = row(
        FieldRow("attention.temperature_scale", _temperature, number((0.0, 1e3)), default=0.0)
    )

    @property
    def shape(self) -> ModelShape:
        shape = super().shape
        most = self.original_context if self.temperature else shape.trained_context
        return replace(shape, trained_context=min(shape.trained_context, most))


MINISTRAL_3 = Architecture(
    title="Ministral 3",
    gguf="mistral3",
    model_types=("ministral3", "mistral3"),
    config=Ministral3Config,
    tensors=DECODER_TENSORS,
    graph=LLAMA.graph,
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
)
