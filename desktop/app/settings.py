"""The settings that are remembered between runs: one JSON file in the user's configuration folder.

Reading never fails: a file that is not ours to understand is set aside as `settings.json.broken`
(with a number behind it where that is taken), a single value that is wrong falls back to its
default, keys we do not know are kept and written back. Writing never raises for a full disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from llm_lite.core.assets import ASSETS
from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import check_depth, found, read_bytes
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.private import private_folder
from llm_lite.core.files.renaming import rename_free
from llm_lite.core.files.writing import reason, write_file
from llm_lite.core.plain_text import lines
from llm_lite.core.records import asdict, replace
from llm_lite.desktop.app.layout_text import LAYOUT_VERSION, is_layout
from llm_lite.desktop.features.attachments.state import MOST_FILES
from llm_lite.desktop.features.layouts.state import LAYOUTS, KeptSides, Panel
from llm_lite.desktop.features.palette.state import LONGEST_CHOICE, MOST_RECENT
from llm_lite.desktop.features.presets.setting_values import LONGEST_PATH, values_of
from llm_lite.desktop.features.program.settings import Settings, WindowPlace
from llm_lite.desktop.features.program.state import RECENT_FILES, AppState
from llm_lite.desktop.features.registry import FEATURES
from llm_lite.desktop.features.remote.state import kept_addresses
from llm_lite.desktop.features.sampling.lists import read_chosen, read_lists
from llm_lite.desktop.language.incoming import fit_line

MOST_LEVELS = 64  # of objects and lists within each other
DEFAULTS = ASSETS / "settings.json"
DELAY = 2.0  # seconds between a change and its writing
LARGEST_FILE = 32 << 20  # bytes; ours has thousands, and what was pasted into a draft


class SettingsStore:
    """The settings and their file; `settings` is what the next start will find."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings, self.problems = load(path)
        self._written = self.settings
        self._changed_at: float | None = None
        self._failed = False

    def update(
        self,
        state: AppState,
        window: WindowPlace,
        now: float,
        complain: Callable[[str], None],
        *,
        layout: str | None = None,
        at_once: bool = False,
    ) -> None:
        """Note what is to be remembered; write it a moment after the last change."""
        wanted = replace(remember(state, self.settings), window=window)
        if layout is not None:
            wanted = replace(wanted, layout=layout, layout_version=LAYOUT_VERSION)
        if wanted != self.settings:
            self.settings, self._changed_at = wanted, now
        due = self._changed_at is not None and (at_once or now - self._changed_at >= DELAY)
        if due and self.settings != self._written:
            self._write(complain)
        if due:
            self._changed_at = None

    def _write(self, complain: Callable[[str], None]) -> None:
        problem = save(self.settings, self.path)
        if not problem:
            self._written, self._failed = self.settings, False
        elif not self._failed:
            self._failed = True
            complain(problem)


def settings_path() -> Path:
    return user_folder("config") / "settings.json"


def variants_folder() -> Path:
    """Return the folder of variants of models, those that the queue of models makes too."""
    return user_folder("data") / "models"


def history_file() -> Path:
    """Return the same as `core.history.history_path`, which is not imported before the first
    frame."""
    return user_folder("data") / "history.db"


def load(path: Path) -> tuple[Settings, list[str]]:
    """Read the settings in `path` over the defaults, with a sentence for each thing that was
    wrong."""
    problems: list[str] = []
    defaults = parse(json.loads(DEFAULTS.read_text("utf-8")), Settings(), [])
    if not path.exists():
        return defaults, problems
    try:
        data = json.loads(read_bytes(path, LARGEST_FILE, private=True).decode("utf-8"))
        if not isinstance(data, dict):
            raise ValueError(f"expected an object, found {found(data)}")
        check_depth(data, MOST_LEVELS)
    except FileError as error:
        large = path.is_file() and path.stat().st_size > LARGEST_FILE
        consequence = _set_aside(path) if large else "the defaults are used."
        problems.append(f"{path}: {error.problem}; {consequence}")
        return defaults, problems
    except (ValueError, RecursionError) as error:
        problems.append(f"{path}: not valid settings ({error}); {_set_aside(path)}")
        return defaults, problems
    return parse(data, defaults, problems), problems


def save(settings: Settings, path: Path) -> str:
    """Write `settings` to `path`. Return "" or, if that failed, a sentence; the old file then
    stays."""
    data = asdict(settings)
    data = {**data.pop("unknown"), **data}
    try:
        # A recent path may hold a lone surrogate, for a byte that is no UTF-8: JSON escapes it so.
        text = json.dumps(data, ensure_ascii=False, indent=2)
        private_folder(path.parent, shared=True)
        write_file(path, text.encode(errors="backslashreplace"), private=True)
    except FileError as error:
        return f"{path}: the settings could not be saved ({error.problem})."
    return ""


def parse(data: dict[str, Any], base: Settings, problems: list[str]) -> Settings:
    """Return `base` with the values of `data`; a value of the wrong kind is named in `problems`."""
    known = set(Settings.__struct_fields__) - {"unknown"}
    read = values_of(data, base, problems, "")
    for name in ("window", "sampling", "options", "looks", "serving", *LAYOUTS):
        inner = data.get(name, {})
        if isinstance(inner, dict):
            part = getattr(base, name)
            read[name] = replace(part, **values_of(inner, part, problems, f"{name}."))
        else:
            problems.append(f"settings: {name} is not an object; the default is used.")
    if isinstance(data.get("sampling"), dict):
        lists, wrong = read_lists(data["sampling"])
        read["sampling"] = replace(read["sampling"], **lists)
        problems += [f"settings: sampling.{sentence}; it is left out." for sentence in wrong]
    if not is_layout(read.get("layout", "")):
        problems.append("settings: layout is not as it was written; the default is used instead.")
        del read["layout"]
    _migrate(data, read)
    read["sampling_chosen"] = read_chosen(data.get("sampling_chosen", []), problems)
    read["choices"] = _choices(data.get("choices", []), problems)
    read["recent"] = _paths("recent", data, RECENT_FILES, problems)
    read["draft_files"] = _paths("draft_files", data, MOST_FILES, problems)
    read["draft_texts"] = _texts("draft_texts", data, MOST_FILES, problems)
    read["addresses"] = kept_addresses(data.get("addresses", []), problems)
    unknown = {key: value for key, value in data.items() if key not in known}
    return replace(base, **read, unknown={**base.unknown, **unknown})


def _migrate(data: dict[str, Any], read: dict[str, Any]) -> None:
    """Convert fields of files from before there were layouts or a choice of the system's theme:
    those who chose nothing had the dark theme."""
    if "appearance" not in data and data.get("theme") == "light":
        read["appearance"] = "light"
    if "inspect" not in data and data.get("conversations") in get_args(Panel):
        read["inspect"] = KeptSides(list=data["conversations"])


def _choices(found: Any, problems: list[str]) -> tuple[str, ...]:
    if not isinstance(found, list):
        problems.append("settings: choices is not a list; it is left empty.")
        return ()
    good = [c for c in found if isinstance(c, str) and len(c) <= LONGEST_CHOICE]
    return tuple(lines(choice) for choice in good[:MOST_RECENT])


def _paths(name: str, data: dict[str, Any], most: int, problems: list[str]) -> tuple[str, ...]:
    """Read paths that can be opened; what else is in the list is named and left out."""
    found = data.get(name, [])
    if not isinstance(found, list):
        problems.append(f"settings: {name} is not a list; it is left empty.")
        return ()
    paths = [p for p in found if isinstance(p, str) and len(p) <= LONGEST_PATH and "\0" not in p]
    if len(paths) < len(found):
        problems.append(f"settings: {name}: {len(found) - len(paths)} entries are no paths.")
    return tuple(paths[:most])


def _texts(
    name: str, data: dict[str, Any], most: int, problems: list[str]
) -> tuple[tuple[str, str], ...]:
    """Read pairs of a name and a text, LONGEST_TEXT characters of all; what else is in the list is
    named and left out."""
    found = data.get(name, [])
    if not isinstance(found, list):
        problems.append(f"settings: {name} is not a list; it is left empty.")
        return ()
    texts, room = [], LONGEST_TEXT
    for pair in found[:most]:
        match pair:
            case [str(title), str(text)] if len(text) <= room:
                texts.append((fit_line(title, LONGEST_NAME), lines(text)))
                room -= len(text)
    if len(texts) < len(found):
        problems.append(f"settings: {name}: {len(found) - len(texts)} entries are no texts.")
    return tuple(texts)


def remember(state: AppState, settings: Settings) -> Settings:
    """Return `settings` with what the person changed in `state`, as the features keep it."""
    kept: dict[str, Any] = {}
    for feature in FEATURES:
        kept |= {name: attrgetter(path)(state) for name, path in feature.settings.items()}
        if feature.remember is not None:
            kept |= feature.remember(state, settings)
    return replace(settings, **kept)


def restore(settings: Settings, state: AppState) -> AppState:
    """Return `state` as the person left it."""
    for feature in FEATURES:
        for name, path in feature.settings.items():
            state = _placed(state, path.split("."), getattr(settings, name))
        if feature.restore is not None:
            state = feature.restore(settings, state)
    return state


def _placed(record: Any, path: list[str], value: Any) -> Any:
    """Return `record` with `value` in the field of a field that `path` names."""
    name, *inner = path
    if inner:
        value = _placed(getattr(record, name), inner, value)
    return replace(record, **{name: value})


def _set_aside(path: Path) -> str:
    """Rename the unreadable file, so that nothing of it is lost; return what was done."""
    try:
        broken = rename_free(path, path.with_name(path.name + ".broken"))
    except OSError as error:
        return f"it could not be set aside either ({reason(error)}); the defaults are used."
    return f"it was set aside as {broken.name}; the defaults are used."
