"""Presets as files: one JSON file each in the data folder. Files from elsewhere are untrusted: what
is wrong with one is a sentence that names the file and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct

from llm_lite.core.checked import convert_in_file
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import found, read_object
from llm_lite.core.files.places import expanded, plain_name, user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.writing import reason, write_file
from llm_lite.core.messages import NO_CHANGES, Interventions, Mode, SamplingOptions
from llm_lite.core.messages.gains import from_old_gains
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.plain_text import lines, one_line
from llm_lite.core.records import asdict, replace
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.presets.model import (
    LONGEST_NAME,
    ChoosePreset,
    DeletePreset,
    ImportPreset,
    ListPresets,
    Preset,
    PresetFileAction,
    SavePreset,
    UsePreset,
    preset_of,
)
from llm_lite.desktop.features.presets.setting_values import values_of
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.lists import FIELDS, read_lists
from llm_lite.desktop.language.incoming import TYPED

LARGEST_FILE = 4 << 20  # bytes; a vector of a large model has some ten thousand numbers
MOST_PRESETS = 200
MOST_GAIN = 100.0


def presets_folder() -> Path:
    return user_folder("data") / "presets"


class PresetFiles(Host):
    """The folder of presets."""

    actions = get_args(PresetFileAction)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, without reading them."""
        try:
            found = sorted(path.stem for path in self.folder.glob("*.json"))
        except OSError:
            return ()
        return tuple(name for name in found[:MOST_PRESETS] if name == one_line(name))

    def do(self, action: PresetFileAction, state: AppState) -> list[Action]:
        """Carry out an action and return those that follow from it. Raise FileError where a file
        cannot be read or written."""
        used = state.preset
        follows: list[Action] = []
        if isinstance(action, SavePreset):
            used = file_name(action.name)
            private_folder(self.folder)
            write(self._path(used), preset_of(state, used), private=True)
        elif isinstance(action, ChoosePreset):
            used = action.name
            follows.append(UsePreset(read(self._path(used), private=True)))
        elif isinstance(action, DeletePreset):
            used = ""
            self._delete(action.name)
        elif isinstance(action, ImportPreset):
            preset = read(expanded(action.path))
            used = file_name(preset.name)
            private_folder(self.folder)
            write(self._path(used), preset, private=True)
            follows.append(UsePreset(preset))
        else:
            write(expanded(action.path), preset_of(state, used or "preset"))
        return [ListPresets(self.names(), used), *follows]

    def _path(self, name: str) -> Path:
        return self.folder / f"{file_name(name)}.json"

    def _delete(self, name: str) -> None:
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(self._path(name), f"cannot be deleted: {reason(error)}") from None


def file_name(name: str) -> str:
    """Return the name of the file, without its suffix, of a preset of this name."""
    return plain_name(name, LONGEST_NAME, "preset")


def write(path: Path, preset: Preset, *, private: bool = False) -> None:
    text = json.dumps(asdict(preset), ensure_ascii=False, indent=2)
    write_file(path, text.encode(errors="backslashreplace"), private=private)


class _PresetFile(Struct, forbid_unknown_fields=True):
    """A preset as it is written to a file; `_sampling` reads the options of the sampler."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=10 * LONGEST_NAME, extra={"expected": "a short text"}),
    ] = ""  # "": that of the file
    system_prompt: Annotated[str, Meta(max_length=TYPED)] = ""
    sampling: dict[str, Any] = {}
    mode: Mode = "as-stored"
    interventions: Interventions = NO_CHANGES
    # As older presets have them, in the place of interventions.
    gains: tuple[tuple[Annotated[float, Meta(ge=-MOST_GAIN, le=MOST_GAIN)], ...], ...] | None = None


def read(path: Path, *, private: bool = False) -> Preset:
    """Read a preset. Raise FileError with the name of a field that is not as `write` leaves it."""
    kept = convert_in_file(
        read_object(path, limit=LARGEST_FILE, private=private), _PresetFile, path
    )
    sampling = _sampling(path, kept.sampling)
    name = file_name(kept.name or path.stem)
    changes = kept.interventions or from_old_gains(kept.gains)
    return Preset(name, lines(kept.system_prompt), sampling, kept.mode, changes)


def _sampling(path: Path, data: dict[str, Any]) -> SamplingOptions:
    defaults = SamplingOptions()
    unknown = next((name for name in data if name not in OPTIONS), None)
    if unknown is not None:
        raise FileError(path, f"sampling has a field {one_line(unknown[:60])!r}: not a preset's")
    plain = {name: value for name, value in data.items() if name not in FIELDS}
    problems: list[str] = []
    values = values_of(plain, defaults, problems, "")
    for name in plain:
        if name not in values:
            raise FileError(path, f"sampling.{name}: cannot be {found(plain[name])}")
    lists, wrong = read_lists(data)
    if wrong:
        raise FileError(path, f"sampling.{wrong[0]}")
    return replace(defaults, **values, **lists)
