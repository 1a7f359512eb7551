"""Presets: everything about how answers are made, kept under a name. `host` keeps their files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from llm_lite.core.messages import NO_CHANGES, Interventions, Mode, SamplingOptions
from llm_lite.core.messages.gains import fit_heads
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.model import SetOptions, set_options
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.model import sampler
from llm_lite.desktop.features.steer.model import Steer, steer
from llm_lite.desktop.language.translate import tr

LONGEST_NAME = 60  # characters


class Preset(Struct, frozen=True):
    name: str
    system_prompt: str = ""
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    mode: Mode = "as-stored"
    interventions: Interventions = NO_CHANGES


class SavePreset(HostAction, frozen=True):
    """Keep what is set now under a name; one of that name is replaced."""

    name: str


class ChoosePreset(HostAction, frozen=True):
    name: str


class DeletePreset(HostAction, frozen=True):
    name: str


class ImportPreset(HostAction, frozen=True):
    path: str


class ExportPreset(HostAction, frozen=True):
    """Write what is set now to a file."""

    path: str


class ListPresets(Action, frozen=True):
    """The names that there are now, and the one in use."""

    names: tuple[str, ...]
    used: str


class UsePreset(Action, frozen=True):
    preset: Preset


PresetFileAction = SavePreset | ChoosePreset | DeletePreset | ImportPreset | ExportPreset


def preset_of(state: AppState, name: str) -> Preset:
    """Return a preset of the current settings."""
    changes = state.steering.interventions
    return Preset(name, state.system_prompt, sampler(state), state.options.mode, changes)


def _list(action: ListPresets, state: AppState, now: float) -> Result:
    return replace(state, presets=action.names, preset=action.used), ()


def _use(action: UsePreset, state: AppState, now: float) -> Result:
    """Set what a preset holds, except interventions for another model."""
    preset = action.preset
    state = replace(
        state,
        sampling=preset.sampling,
        sampling_chosen=frozenset(OPTIONS),
        system_prompt=preset.system_prompt,
    )
    options = replace(state.options, mode=preset.mode)
    state, commands = set_options(SetOptions(options), state, now)
    if not _fit(preset, state):
        problem = tr(
            "The interventions of {name} are for another model: those here stay as they are."
        ).format(name=preset.name)
        return notify(state, "warning", problem, now), commands
    state, more = steer(Steer(preset.interventions), state, now)
    return state, (*commands, *more)


def _fit(preset: Preset, state: AppState) -> bool:
    changes, model = preset.interventions, state.model
    if not changes or model is None:
        return not changes
    if changes.model:
        return changes.model == model.name
    return fit_heads(changes, model)  # an older preset names no model


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    ListPresets: _list,
    UsePreset: _use,
}
