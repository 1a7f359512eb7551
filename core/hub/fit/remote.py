"""The estimate for a model that was not fetched: by its config.json if the hub gave it, else only
by how many weights there are in how many bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.hub.fit.description import ModelDescription, TensorSpec
from llm_lite.core.hub.fit.machine import Machine, program_bytes
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.library import Fit, HubFile, MemoryPart
from llm_lite.core.models.description.decoder import EMBEDDING, HEAD
from llm_lite.core.models.gemma3n.config import LAUREL, PER_LAYER_TABLE
from llm_lite.core.models.registry import architecture_by_config
from llm_lite.core.quant.registry import FORMATS

GUESSED_CONTEXT = 4096  # tokens, where nobody asks for others
_VOCABULARY = 151_936  # entries, as of a model of these years
_SCRATCH = 32 << 20
_QUERIES = 64 << 20
# Bytes of keys and values a token of a model of 4 billion weights, in float16; others by the root
# of their size. By their shapes SmolLM2 135M has 23 kB (rule: 17), Llama 3.2 1B 33 (46), Llama 3 8B
# 131 (130), but Qwen3 0.6B, whose heads are wide, 115 (36).
_CACHE_TOKEN, _CACHE_WEIGHTS = 90 << 10, 4e9

Name = Literal["weights", "cache", "scratch", "maps"]


def described_by_config(file: HubFile, config: Mapping[str, Any]) -> ModelDescription:
    """Describe every tensor by the fields of config.json, in the format of the file: what a mix of
    formats adds is not known. FileError, UnsupportedError if it is no model that this build runs.
    """
    whole = CheckpointConfig(config, Path(file.name).with_name("config.json"))
    architecture = architecture_by_config(whole)
    text = architecture.with_defaults(whole.part("text_config"))
    metadata = architecture.metadata_of(text)
    rows = text.integer("vocab_size", _VOCABULARY, at_most=1 << 24)
    table = text.integer("vocab_size_per_layer_input", rows, at_most=1 << 24)
    rank = text.integer("laurel_rank", 64)
    sizes = {EMBEDDING: (rows, 1), PER_LAYER_TABLE: (table, 1), LAUREL: (rank, 1)}
    tied = architecture.is_tied(whole, text)
    shapes = architecture.shapes_of(metadata, whole.path, sizes=sizes, optional=True)
    specs = {
        name: TensorSpec(name, _dtype(file.format, shape), shape)
        for name, shape in shapes
        if not (tied and name == HEAD) and not name.startswith("rope_factors")
    }
    note = "by its config.json, before anything was fetched"
    return ModelDescription(whole.path, metadata, specs, note=note)


def coarse_fit(
    file: HubFile, parameters: int, options: EngineOptions, machine: Machine, gb_s: float | None
) -> Fit:
    """Estimate by the size of a file alone: weights as they are stored, the cache as models of that
    size have it, which can be off by a factor of three. `Fit.instead` is empty then."""
    context = options.context or GUESSED_CONTEXT
    weights = parameters or file.size
    cache = int(context * _CACHE_TOKEN * (weights / _CACHE_WEIGHTS) ** 0.5)
    on_device = machine.device is not None and not machine.is_unified
    sizes: dict[Name, int] = {
        "weights": file.size,
        "cache": cache,
        "scratch": _SCRATCH,
        "maps": _QUERIES,
    }
    parts = [_part(name, size, on_device) for name, size in sizes.items()]
    own = program_bytes(_VOCABULARY, _VOCABULARY, machine.device, started=machine.started)
    free = machine.device.memory_bytes if on_device and machine.device else None
    return Fit(
        "as-stored",
        context,
        "cpu" if machine.device is None else "vulkan",
        (*parts, MemoryPart("program", own, 0)),
        machine.host_free,
        free,
        None if gb_s is None else gb_s * 1e9 / (file.size + cache // 2),
    )


def _part(name: Name, size: int, on_device: bool) -> MemoryPart:
    return MemoryPart(name, 0, size) if on_device else MemoryPart(name, size, 0)


def _dtype(format: str, shape: tuple[int, ...]) -> str:
    """Return the format of a file's matrices, by the name of its mix: "Q4_K_M" is mostly q4_k."""
    if len(shape) == 1:
        return "f32"
    words = re.sub(r"[^a-z0-9_]", "", format.lower())
    known = sorted((n for n in FORMATS if words.startswith(n)), key=len)
    dtype = known[-1] if known else "f16"
    return dtype if shape[-1] % FORMATS[dtype].block_size == 0 else "f16"
