"""A preset: everything about how answers are made, under a name."""

from __future__ import annotations

from msgspec import Struct, field

from llm_lite.core.messages import Gains, Mode, SamplingOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.model import sampler

LONGEST_NAME = 60  # characters


class Preset(Struct, frozen=True):
    name: str
    system_prompt: str = ""
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    mode: Mode = "as-stored"
    gains: Gains | None = None  # None: 1 for every head


def preset_of(state: AppState, name: str) -> Preset:
    """What is set now."""
    gains = state.steering.gains
    return Preset(name, state.system_prompt, sampler(state), state.options.mode, gains)
