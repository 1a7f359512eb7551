"""A defect of one part of the interface stays within it.

What a view began in Dear ImGui before it raised is ended for it, so that the rest of the frame and
the frames that follow are drawn as ever. A sentence stands in its place, and the log says what
happened. The part is tried again as soon as the state is another one.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from imgui_bundle import imgui, implot
from msgspec import Struct

from llm_lite.core.errors import DeviceError
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import ReportDefect
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui

SENTENCE = mark(
    "A defect of the program: this cannot be shown. Everything else goes on, and the conversation "
    "is kept. The log has the details; please report them."
)
Result = TypeVar("Result")


class Guard:
    """One for an interface. `draw` calls one of its parts."""

    def __init__(self) -> None:
        self._failed: dict[str, AppState] = {}  # part -> the state that it could not draw
        self._reported: dict[str, str] = {}  # part -> where it failed last

    def draw(
        self,
        name: str,
        part: Callable[[AppState, Ui], list[Action]],
        state: AppState,
        ui: Ui,
        instead: Callable[[Ui], None] = lambda ui: None,
    ) -> list[Action]:
        """Draw a part and return what the person did in it. Where it fails, or failed before, draw
        `instead`."""
        actions: list[Action] = []
        if self._failed.get(name) is not state:
            found = attempt(lambda: part(state, ui))
            if not isinstance(found, Failed):
                self._failed.pop(name, None)
                return found
            self._failed[name] = state
            actions = self._report(name, found)
        instead(ui)
        return actions

    def _report(self, name: str, failed: Failed) -> list[Action]:
        """Once for each place in the program; a part may fail in every frame."""
        if self._reported.get(name) == failed.place:
            return []
        self._reported[name] = failed.place
        return [ReportDefect(name, failed.text, time.time())]


class Failed(Struct, frozen=True):
    """An exception without its frames, which hold what they were about to draw."""

    error: Exception
    text: str
    place: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = "".join(traceback.format_exception(error))
        error.__context__ = error.__cause__ = error.__traceback__ = None
        return cls(error, text, f"{frame.filename}:{frame.lineno}")


def attempt(work: Callable[[], Result]) -> Result | Failed:
    """Return the result of `work`, which draws, or how it failed; Dear ImGui then is as it was
    before. A device that is lost is no defect: that goes on to the program, which opens another."""
    before = imgui.internal.ErrorRecoveryState()
    imgui.internal.error_recovery_store_state(before)
    try:
        return work()
    except Exception as error:
        _end_what_was_begun(before)
        if isinstance(error, DeviceError):
            raise
        return Failed.of(error)


def say_failed(ui: Ui) -> None:
    """Draw a sentence over the whole window, and over what was drawn of it before it failed."""
    imgui.set_cursor_screen_pos(imgui.get_window_pos())
    padded = imgui.ChildFlags_.always_use_window_padding
    with ui.styled(window_padding=(ui.u(4), ui.u(4))), ui.colored(child_bg="panel"):
        imgui.begin_child("failed", imgui.get_window_size(), padded)
    imgui.push_text_wrap_pos(0.0)
    with ui.font(), ui.colored(text="warning"):
        imgui.text_unformatted(tr(SENTENCE))
    ui.mark("failed")
    imgui.pop_text_wrap_pos()
    imgui.end_child()


def _end_what_was_begun(before: Any) -> None:
    """End plots, windows and popups, and pop what was pushed, that began since `before`. Dear ImGui
    would complain of each, in its log and in a tooltip."""
    io = imgui.get_io()
    settings = io.config_error_recovery_enable_debug_log, io.config_error_recovery_enable_tooltip
    io.config_error_recovery_enable_debug_log = False
    io.config_error_recovery_enable_tooltip = False
    try:
        if implot.internal.get_current_plot() is not None:
            implot.end_plot()
        imgui.internal.error_recovery_try_to_recover_state(before)
        if len(imgui.get_current_context().open_popup_stack) > 0:  # it would fail again
            imgui.internal.close_popup_to_level(0, False)
    finally:
        io.config_error_recovery_enable_debug_log = settings[0]
        io.config_error_recovery_enable_tooltip = settings[1]
