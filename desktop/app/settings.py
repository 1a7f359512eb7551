"""The settings that are remembered between runs: one JSON file in the user's configuration folder.

Reading never fails: a file that is not ours to understand is set aside as `settings.json.broken`
(with a number behind it where that is taken), a single value that is wrong falls back to its
default, keys we do not know are kept and written back. Writing never raises for a full disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct, field

from llm_lite.core.assets import ASSETS
from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT
from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import check_depth, found, read_bytes
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.renaming import rename_free
from llm_lite.core.files.writing import make_folder, reason, write_file
from llm_lite.core.messages import (
    EngineOptions,
    Overflow,
    SamplingOptions,
)
from llm_lite.core.plain_text import lines
from llm_lite.core.records import asdict, replace
from llm_lite.desktop.app.kept_layouts import (
    LAYOUT_VERSION,
    LAYOUTS,
    KeptSides,
    is_layout,
    kept_layouts,
    layouts_of,
)
from llm_lite.desktop.features.attachments.state import MOST_FILES, DraftFile, DraftFiles
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.chat.model import new_draft
from llm_lite.desktop.features.layouts.state import LayoutName, Panel
from llm_lite.desktop.features.palette.state import LONGEST_CHOICE, MOST_RECENT
from llm_lite.desktop.features.presets.setting_values import CHOICES, LONGEST_PATH, values_of
from llm_lite.desktop.features.program.model import MAX_FONT, MIN_FONT
from llm_lite.desktop.features.program.state import RECENT_FILES, AppState
from llm_lite.desktop.features.program.switches import Switches, switched
from llm_lite.desktop.features.remote.kept import (
    KeptAddress,
    kept_addresses,
    own,
    remembered,
    restored,
)
from llm_lite.desktop.features.resume.state import BUDGET, ResumeMode
from llm_lite.desktop.features.sampling.lists import read_chosen, read_lists
from llm_lite.desktop.features.sampling.model import to_keep
from llm_lite.desktop.features.serving.state import ServingChoice
from llm_lite.desktop.features.tokens.state import LookBy
from llm_lite.desktop.language.catalogues import SYSTEM
from llm_lite.desktop.language.incoming import TYPED, fit_line
from llm_lite.desktop.system_theme import Appearance, ThemeName

_CHOICE = AttentionChoice()
_XRAY = ("by", "reverse", "probabilities", "drafts")
_COLORS = ("colors", "logarithmic", "high", "exclude_first")
MOST_LEVELS = 64  # of objects and lists within each other
DEFAULTS = ASSETS / "settings.json"
DELAY = 2.0  # seconds between a change and its writing
_Place = Annotated[int, Meta(ge=-32768, le=32767)]  # screen units
_Typed = Annotated[str, Meta(max_length=TYPED)]
LARGEST_FILE = 32 << 20  # bytes; ours has thousands, and what was pasted into a draft


class WindowPlace(Struct, frozen=True):
    """The place of the window, in screen units; None lets the system choose."""

    x: _Place | None = None
    y: _Place | None = None
    width: Annotated[int, Meta(ge=480, le=16384)] = 1280
    height: Annotated[int, Meta(ge=320, le=16384)] = 800
    maximized: bool = False


class Looks(Struct, frozen=True):
    """The look of attention: the choices of the X-ray, and the colours of maps and text."""

    by: LookBy = "layer"
    reverse: bool = False
    probabilities: bool = False
    drafts: bool = False
    colors: str = _CHOICE.colors
    logarithmic: bool = _CHOICE.logarithmic
    high: Annotated[float, Meta(ge=0.02, le=1)] = _CHOICE.high
    exclude_first: bool = _CHOICE.exclude_first


class Settings(Switches, frozen=True):
    theme: ThemeName = "dark"  # what was shown last
    appearance: Appearance = "system"
    language: str = SYSTEM
    font_size: Annotated[float, Meta(ge=MIN_FONT, le=MAX_FONT)] = 15.0
    window: WindowPlace = field(default_factory=WindowPlace)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    sampling_chosen: tuple[str, ...] = ()  # fields of it that were set, whatever to
    options: EngineOptions = field(default_factory=EngineOptions)
    looks: Looks = field(default_factory=Looks)
    system_prompt: _Typed = ""
    overflow: Overflow = "stop"
    thinking: bool = True
    model_titles: bool = True
    resume: ResumeMode = "ask"
    resume_budget: Annotated[int, Meta(ge=0, le=1 << 44)] = BUDGET  # bytes of kept caches
    serving: ServingChoice = field(default_factory=ServingChoice)
    layout_name: LayoutName = "inspect"
    read: KeptSides = field(default_factory=KeptSides)
    inspect: KeptSides = field(default_factory=KeptSides)
    compare: KeptSides = field(default_factory=KeptSides)
    choices: tuple[str, ...] = ()  # of the command palette, the last one first
    draft: _Typed = ""  # of a chat that has not begun
    draft_files: tuple[str, ...] = ()  # paths of the files that go with it
    draft_texts: tuple[tuple[str, str], ...] = ()  # names and texts of what no file holds
    recent: tuple[str, ...] = ()
    addresses: tuple[KeptAddress, ...] = ()
    layout: Annotated[str, Meta(max_length=1 << 18)] = ""  # Dear ImGui's ini text
    layout_version: int = 0
    unknown: dict[str, Any] = field(default_factory=dict)


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
        data = json.loads(read_bytes(path, LARGEST_FILE).decode("utf-8"))
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
        make_folder(path.parent)
        if any(one.key for one in settings.addresses):
            own(path)
        write_file(path, text.encode(errors="backslashreplace"))
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


def _pasted(files: tuple[DraftFile, ...]) -> tuple[tuple[str, str], ...]:
    """Return names and whole texts of what no file holds, as many as `_texts` reads."""
    texts, room = [], LONGEST_TEXT
    for file in files:
        if file.path or file.attached is None or file.attached.kind == "picture":
            continue
        text = file.text or file.attached.text
        if len(text) <= room:
            texts.append((file.name, text))
            room -= len(text)
    return tuple(texts[:MOST_FILES])


def _draft_files(settings: Settings) -> DraftFiles:
    files = DraftFiles().with_paths(tuple((p, Path(p).name) for p in settings.draft_files))
    for name, text in settings.draft_texts:
        files = files.with_text(name, text)
    return files


def remember(state: AppState, settings: Settings) -> Settings:
    """Return `settings` with what the person changed in `state`; no system prompt of an old
    chat."""
    own, drafted = state.history.own_prompt, new_draft(state)
    looks = {name: getattr(state.xray, name) for name in _XRAY}
    looks |= {name: getattr(state.attention, name) for name in _COLORS}
    options = replace(
        to_keep(state, "options", settings.options), draft_model=""
    )  # of the model in use
    if options.speculate not in CHOICES["speculate"]:  # what few models can do
        options = replace(options, speculate=settings.options.speculate)
    return replace(
        settings,
        theme=state.theme,
        language=state.language,
        font_size=state.font_size,
        **switched(state),
        sampling=to_keep(state, "sampling", settings.sampling),
        sampling_chosen=tuple(sorted(state.sampling_chosen)),
        options=options,
        system_prompt=state.system_prompt if own is None else own,
        overflow=state.overflow,
        thinking=state.thinking,
        model_titles=state.history.titles,
        resume=state.resume.mode,
        resume_budget=state.resume.budget,
        serving=state.serving.choice,
        appearance=state.appearance,
        choices=state.palette.recent,
        **kept_layouts(state.layouts),
        draft=drafted.text,
        draft_files=tuple(file.path for file in drafted.files if file.path),
        draft_texts=_pasted(drafted.files),
        recent=state.recent,
        addresses=remembered(state.remote),
        looks=Looks(**looks),
    )


def restore(settings: Settings, state: AppState) -> AppState:
    """Return `state` as the person left it."""
    return replace(
        state,
        theme=settings.theme,
        language=settings.language,
        font_size=settings.font_size,
        **switched(settings),
        sampling=settings.sampling,
        sampling_chosen=frozenset(settings.sampling_chosen),
        options=settings.options,
        system_prompt=settings.system_prompt,
        overflow=settings.overflow,
        thinking=settings.thinking,
        history=replace(state.history, titles=settings.model_titles),
        resume=replace(state.resume, mode=settings.resume, budget=settings.resume_budget),
        serving=replace(state.serving, choice=settings.serving),
        appearance=settings.appearance,
        palette=replace(state.palette, recent=settings.choices),
        layouts=layouts_of(settings.layout_name, settings),
        draft=settings.draft,
        files=_draft_files(settings),
        recent=settings.recent,
        remote=restored(settings.addresses),
        xray=replace(state.xray, **{name: getattr(settings.looks, name) for name in _XRAY}),
        attention=replace(
            state.attention, **{name: getattr(settings.looks, name) for name in _COLORS}
        ),
    )


def _set_aside(path: Path) -> str:
    """Rename the unreadable file, so that nothing of it is lost; return what was done."""
    try:
        broken = rename_free(path, path.with_name(path.name + ".broken"))
    except OSError as error:
        return f"it could not be set aside either ({reason(error)}); the defaults are used."
    return f"it was set aside as {broken.name}; the defaults are used."
