"""How a model is run and how an answer is chosen: what people set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Backend = Literal["auto", "vulkan", "cpu", "numpy"]
Mode = Literal["as-stored", "fp32", "fp16", "int8", "int4"]
Activations = Literal["auto", "a32", "a8"]
KvType = Literal["fp16", "fp32", "int8"]
BACKENDS: tuple[Backend, ...] = ("auto", "vulkan", "cpu", "numpy")
MODES: tuple[Mode, ...] = ("as-stored", "fp32", "fp16", "int8", "int4")
ACTIVATIONS: tuple[Activations, ...] = ("auto", "a32", "a8")
KV_TYPES: tuple[KvType, ...] = ("fp16", "fp32", "int8")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model is run. 0 means: let the program choose."""

    backend: Backend = "auto"
    device: int | None = None  # index of the Vulkan device for inference; None: the shared one
    mode: Mode = "as-stored"
    activations: Activations = "auto"
    keys: KvType = "fp16"  # of the cache
    values: KvType = "fp16"
    threads: int = 0
    context: int = 0  # tokens
    query_budget: int = 64 << 20  # bytes for the queries behind attention maps; 0 keeps none
    pool_budget: int = 256 << 20  # bytes for prefixes of recent conversations; 0 keeps none
    whole_caches: bool = False  # sliding layers keep all positions too, for maps of all rows


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is chosen; temperature 0 is greedy: only the penalty counts then."""

    temperature: float = 0.4
    top_k: int = 40  # 0: off
    top_p: float = 0.9  # 1: off
    min_p: float = 0.05  # 0: off
    repetition_penalty: float = 1.05  # 1: off
    penalty_window: int = 64  # how many last tokens the penalty looks at
    seed: int | None = None  # None: a new one each time
    max_new_tokens: int = 1024
