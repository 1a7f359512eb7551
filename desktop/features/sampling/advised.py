"""How answers are chosen: as the person set it, else as the model advises, else as the program does
it."""

from __future__ import annotations

from typing import Any

from llm_lite.core.messages import SamplingDefault, SamplingOptions, in_force
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import AppState


def differing(one: SamplingOptions, other: SamplingOptions) -> frozenset[str]:
    return frozenset(n for n in OPTIONS if getattr(one, n) != getattr(other, n))


def advice(state: AppState) -> tuple[SamplingDefault, ...]:
    """Of the model in use, what the person has not set: neither to something else than the
    program's default, nor to that on purpose."""
    if state.model is None:
        return ()
    mine = state.sampling_chosen | differing(state.sampling, SamplingOptions())
    chosen = {name: getattr(state.sampling, name) for name in mine}
    return in_force(state.model.sampling_defaults, chosen)


def sampler(state: AppState) -> SamplingOptions:
    """How answers are chosen now."""
    advised: dict[str, Any] = {default.name: default.value for default in advice(state)}
    return replace(state.sampling, **advised)
