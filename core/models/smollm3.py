"""SmolLM3: llama whose every fourth layer does not rotate queries and keys (Yang et al. 2025)."""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import DECODER_TENSORS, SLIDING, sliding_layers
from llm_lite.core.models.description.rows import FieldRow, Known, flags, row
from llm_lite.core.models.llama import LlamaConfig
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_INTERVAL = 4  # of GGUF's files, which do not say it


def _every(known: Known, interval: int = _INTERVAL) -> tuple[bool, ...]:
    return tuple((layer + 1) % interval != 0 for layer in range(known["layers"]))


def _rotary(config: CheckpointConfig, known: Known) -> tuple[bool, ...]:
    if config.get("no_rope_layers") is None:
        return _every(known, config.integer("no_rope_layer_interval", _INTERVAL))
    rotated = config.list_of("no_rope_layers", (int, bool), known["layers"])
    return tuple(bool(one) for one in rotated)


def _rotary_if_unusual(config: CheckpointConfig, known: Known) -> tuple[bool, ...] | None:
    rotary = _rotary(config, known)
    return None if rotary == _every(known) else rotary


def _sliding(config: CheckpointConfig, known: Known) -> list[bool] | None:
    """Return for each layer whether its attention slides: without a list, layers that do not rotate
    slide."""
    if not known["window"] or config.get("layer_types") is not None:
        return sliding_layers(config, known)
    return [not one for one in _rotary(config, known)]


class SmolLM3Config(LlamaConfig, frozen=True, kw_only=True):
    sliding: tuple[bool, ...] = row(replace(SLIDING, checkpoint=_sliding))
    rotary: tuple[bool, ...] = row(  # by layer; a key of our own
        FieldRow("rope.layer_pattern", _rotary_if_unusual, flags, default=_every)
    )


def _layer(d: Decoder[SmolLM3Config], x: Tensor, layer: int) -> Tensor:
    x = attention_block(d, x, layer, rotary=d.config.rotary[layer])
    return gated_block(d, x, layer)


SMOLLM3 = Architecture(
    title="SmolLM3",
    gguf="smollm3",
    model_types=("smollm3",),
    config=SmolLM3Config,
    tensors=DECODER_TENSORS,
    graph=partial(decoder_plan, _layer),
    defaults={
        "use_sliding_window": False,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "rope_theta": 2000000.0,
    },
    tied=True,
)
