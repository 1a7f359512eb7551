"""What is remembered between runs, in one record; each feature keeps and restores its part."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from llm_lite.core.messages import EngineOptions, Overflow, SamplingOptions
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.chat.state import Effort
from llm_lite.desktop.features.layouts.state import KeptSides, LayoutName
from llm_lite.desktop.features.program.state import MAX_FONT, MIN_FONT
from llm_lite.desktop.features.program.switches import Switches
from llm_lite.desktop.features.remote.state import KeptAddress
from llm_lite.desktop.features.resume.state import BUDGET, ResumeMode
from llm_lite.desktop.features.serving.state import ServingChoice
from llm_lite.desktop.features.tokens.state import LookBy
from llm_lite.desktop.language.catalogues import SYSTEM
from llm_lite.desktop.language.incoming import TYPED
from llm_lite.desktop.system_theme import Appearance, ThemeName

_CHOICE = AttentionChoice()
_Place = Annotated[int, Meta(ge=-32768, le=32767)]  # screen units
_Typed = Annotated[str, Meta(max_length=TYPED)]


class WindowPlace(Struct, frozen=True):
    """The place of the window in screen units; None lets the system choose."""

    x: _Place | None = None
    y: _Place | None = None
    width: Annotated[int, Meta(ge=480, le=16384)] = 1280
    height: Annotated[int, Meta(ge=320, le=16384)] = 800
    maximized: bool = False


class Looks(Struct, frozen=True):
    """The appearance of attention: what the X-ray asks, and the colours of maps and text."""

    by: LookBy = "layer"
    reverse: bool = False
    probabilities: bool = False
    drafts: bool = False
    colors: str = _CHOICE.colors
    logarithmic: bool = _CHOICE.logarithmic
    high: Annotated[float, Meta(ge=0.02, le=1)] = _CHOICE.high
    exclude_first: bool = _CHOICE.exclude_first


class Settings(Switches, frozen=True):
    """Texts that are read are limited; a value out of its range falls back to its default."""

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
    effort: Effort = ""
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
