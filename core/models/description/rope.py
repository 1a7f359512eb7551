"""Rotary positions: bases, scalings, and the factors that frequencies are divided by.

Sources: Su et al. 2021 (RoPE); Chen et al. 2023 (linear); Peng et al. 2023 (YaRN); Ding et al. 2024
(LongRoPE); for Llama 3 and for what each config says, `modeling_rope_utils.py` of transformers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import (
    LARGEST_CONTEXT,
    ROPE_FACTOR,
)
from llm_lite.core.models.description.rows import Known
from llm_lite.core.plain_text import quote
from llm_lite.core.quant.tensor import TensorData, float_tensor

FACTORS, SHORT, LONG, MAGNITUDE = (
    f"rope_{stem}.weight" for stem in ("freqs", "factors_short", "factors_long", "magnitude")
)
SCALINGS = ("none", "linear", "yarn", "longrope")
_KNOWN = ("default", "linear", "llama3", "yarn", "longrope")
# Other names: LongRoPE's first; positions of pictures, which texts have none of; and what raises
# the base for texts longer than the model's context, which nothing here opens.
_SAME = {"su": "longrope", "mrope": "default", "dynamic": "default"}
# The fields of each kind, those that any may have under "".
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "": (
        *("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section"),
        *("original_max_position_embeddings", "max_position_embeddings", "llama_4_scaling_beta"),
    ),
    "dynamic": ("factor", "alpha"),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": (
        *("factor", "attention_factor", "beta_fast", "beta_slow"),
        *("mscale", "mscale_all_dim", "truncate"),
    ),
    "longrope": ("factor", "attention_factor", "short_factor", "long_factor"),
}
# Keys of GGUF that are not read, and their values that change nothing.
NEUTRAL: Mapping[str, tuple[float, ...]] = {
    "rope.scaling.alpha": (0.0, 1.0),
    "rope.scaling.yarn_ext_factor": (1.0, -1.0),
    "rope.scaling.yarn_attn_factor": (1.0, -1.0),
}
_MOST_PAIRS = 1 << 16


def kind_of(config: CheckpointConfig) -> str:
    name = _kind_name(config.rope()[0])
    kind = _SAME.get(name, name)
    if kind == "yarn" and config.get("model_type") == "phi3":  # Phi-3's first name for it
        kind = "longrope"
    if kind not in _KNOWN:
        raise UnsupportedError(
            f"{config.path}: rotary scaling {quote(kind)} is not known here; "
            f"known are {', '.join((*_KNOWN, *_SAME))}"
        )
    return kind


def _kind_name(part: CheckpointConfig) -> str:
    return part.text("rope_type", part.text("type", "default"))


def is_plain(part: CheckpointConfig) -> bool:
    """Return whether rotary fields scale nothing."""
    kind = _kind_name(part)
    if kind == "linear":
        return bool(part.get("factor") == 1)
    return _SAME.get(kind, kind) == "default"


def check_plain(part: CheckpointConfig) -> None:
    """Raise UnsupportedError if rotary fields of layers with windows scale something."""
    if not is_plain(part):
        part.must_be("rope_type", "default", "such a rotary scaling of windows is")
        part.must_be("type", "default", "such a rotary scaling of windows is")


def unread(config: CheckpointConfig) -> list[str]:
    """Return the rotary fields that nothing is made of, and that say something."""
    part, _ = config.rope()
    read = {*_FIELDS[""], *_FIELDS.get(_kind_name(part), ()), *_FIELDS.get(kind_of(config), ())}
    return [key for key in part.keys() - read if part.get(key) not in (None, 1, False, True)]


def base(config: CheckpointConfig, known: Known) -> float:
    theta = config.rope()[1]
    return 10000.0 if theta is None else theta


def scaling(config: CheckpointConfig, known: Known) -> str | None:
    """Return the kind of scaling, None if GGUF has no field for it: Llama 3's scaling is a tensor
    of factors there."""
    kind = kind_of(config)
    return None if kind in ("default", "llama3") else kind


def factor(config: CheckpointConfig, known: Known) -> float | None:
    kind, (part, _) = kind_of(config), config.rope()
    if kind == "yarn" and part.get("factor") is None:
        return float(known["context"] / _original(config, known))
    if kind in ("linear", "yarn"):
        return part.number("factor", within=ROPE_FACTOR)
    return None


def original_context(config: CheckpointConfig, known: Known) -> int | None:
    """Return the positions that the model was trained for before rotary scaling."""
    return _original(config, known) if kind_of(config) in ("yarn", "longrope") else None


def _original(config: CheckpointConfig, known: Known) -> int:
    part, _ = config.rope()
    key = "original_max_position_embeddings"
    holder = part if config.get(key) is None else config
    return holder.integer(key, known["context"], at_most=LARGEST_CONTEXT)


def whole_pairs(config: CheckpointConfig, known: Known) -> bool | None:
    return config.rope()[0].flag("truncate", True) if kind_of(config) == "yarn" else None


def beta(key: str) -> Any:
    def find(config: CheckpointConfig, known: Known) -> float | None:
        part, _ = config.rope()
        if kind_of(config) != "yarn" or not part.get(key):
            return None
        return part.number(key, within=ROPE_FACTOR)

    return find


def attention_factor(config: CheckpointConfig, known: Known) -> float | None:
    """Return the factor of rotated queries and keys, besides what YaRN's factor implies."""
    kind, (part, _) = kind_of(config), config.rope()
    if kind == "longrope":
        if part.get("attention_factor") is not None:
            return part.number("attention_factor", within=ROPE_FACTOR)
        ratio = known["context"] / known["original_context"]
        if part.get("factor") is not None:
            ratio = part.number("factor", within=ROPE_FACTOR)
        original = math.log(max(2, known["original_context"]))
        return math.sqrt(1 + math.log(ratio) / original) if ratio > 1 else 1.0
    if kind != "yarn":
        return None
    times = known["scaling_factor"]
    if part.get("attention_factor") is not None:
        total = part.number("attention_factor", within=ROPE_FACTOR)
    elif part.get("mscale") and part.get("mscale_all_dim"):
        one, all_dim = (
            part.number(key, within=ROPE_FACTOR) for key in ("mscale", "mscale_all_dim")
        )
        total = yarn_magnitude(times, one) / yarn_magnitude(times, all_dim)
    else:
        return None
    return total / yarn_magnitude(times)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """Return how much larger queries and keys become, so that attention is as sharp as before."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


class ScaledPositions(Protocol):
    """The fields that scaled rotary positions are computed from."""

    @property
    def scaling(self) -> str: ...
    @property
    def heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def rotary_magnitude(self) -> float: ...
    @property
    def theta(self) -> float: ...
    @property
    def rotary_dim(self) -> int: ...
    @property
    def scaling_factor(self) -> float: ...
    @property
    def original_context(self) -> int: ...
    @property
    def beta_fast(self) -> float: ...
    @property
    def beta_slow(self) -> float: ...
    @property
    def whole_pairs(self) -> bool: ...  # between which YaRN's ramp lies


def yarn_factors(c: ScaledPositions) -> NDArray[np.float64]:
    """[rotary_dim/2]: 1 for pairs that turn `beta_fast` times or more within the original context,
    the factor for those that turn `beta_slow` times or less, between them a ramp of inverses."""
    dims, log_base = c.rotary_dim, math.log(max(c.theta, 1.001))

    def pair_of(turns: float) -> float:
        return dims * math.log(c.original_context / (turns * 2 * math.pi)) / (2 * log_base)

    first, last = pair_of(c.beta_fast), pair_of(c.beta_slow)
    if c.whole_pairs:
        first, last = math.floor(first), math.ceil(last)
    low, high = max(first, 0), min(last, dims - 1)
    ramp = np.clip((np.arange(dims // 2) - low) / (high - low if high != low else 0.001), 0, 1)
    return np.asarray(1 / (ramp / c.scaling_factor + (1 - ramp)))


def scales_part(c: ScaledPositions) -> bool:
    """Return True if only a part of each query is multiplied, so that scores need more."""
    return c.rotary_dim < c.head_dim and c.rotary_magnitude != 1.0


def made_tensors(c: ScaledPositions) -> list[TensorData]:
    """Return the tensors that graphs read and no file has: YaRN's factors; and where only a part of
    a head rotates, the factors of queries, [heads * head_dim], for both queries and keys."""
    made = []
    if c.scaling == "yarn":
        made.append(float_tensor(FACTORS, yarn_factors(c)))
    if scales_part(c):
        head = np.ones(c.head_dim)
        head[: c.rotary_dim] = c.rotary_magnitude**2
        made.append(float_tensor(MAGNITUDE, np.tile(head, c.heads)))
    return made


def checkpoint_factors(config: CheckpointConfig, known: Known) -> list[TensorData]:
    """Return the tensors that GGUF files have for this scaling: of Llama 3 and of LongRoPE."""
    kind, (part, _) = kind_of(config), config.rope()
    if kind == "llama3":
        return [float_tensor(FACTORS, _llama3_factors(part, _original(config, known), known))]
    if kind != "longrope":
        return []
    pairs = known["rotary_dim"] // 2
    tensors = []
    for name, key in ((SHORT, "short_factor"), (LONG, "long_factor")):
        values = part.list_of(key, (int, float), pairs)
        if not all(ROPE_FACTOR[0] <= value <= ROPE_FACTOR[1] for value in values):
            raise part.error(key, f"numbers from {ROPE_FACTOR[0]:g} to {ROPE_FACTOR[1]:g}", values)
        tensors.append(float_tensor(name, np.array(values, np.float64)))
    return tensors


def _llama3_factors(part: CheckpointConfig, original: int, known: Known) -> NDArray[np.float64]:
    """Return the divisor of each frequency: 1 for short waves, `factor` for long ones, a blend
    between (transformers, `_compute_llama3_parameters`)."""
    times, low, high = (
        part.number(key, within=ROPE_FACTOR)
        for key in ("factor", "low_freq_factor", "high_freq_factor")
    )
    if not high > low:
        raise part.error("high_freq_factor", f"more than low_freq_factor, {low:g}", high)
    pairs = min(max(1, known["rotary_dim"] // 2), _MOST_PAIRS)
    wavelength = 2 * math.pi * np.float64(known["theta"]) ** (np.arange(pairs) / pairs)
    smooth = (original / wavelength - low) / (high - low)
    blend = 1 / ((1 - smooth) / times + smooth)
    return np.where(smooth > 1, 1.0, np.where(smooth < 0, times, blend))
