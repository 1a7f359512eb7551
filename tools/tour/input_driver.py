"""Uses the interface as a person does: moves the mouse, presses keys, waits and reads the state.

Everything goes through Dear ImGui's input queue, aimed at the rectangles of named widgets that the
last frame left behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from imgui_bundle import imgui

from llm_lite.core.errors import LlmLiteError
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.features.program.notices import defects
from llm_lite.desktop.features.program.state import AppState

AWAY = (-1.0e6, -1.0e6)
SETTLING = 5  # times that the pointer follows what moves
FRAME = 1 / 30  # seconds between two frames while waiting
# Seconds until something is taken never to happen: on a busy machine a driver in software compiles
# for minutes.
PATIENCE = 600.0


class InputDriverError(LlmLiteError):
    """The interface did not do what was expected of it."""


class InputDriver:
    """Drives `program` by ImGui's input queue; `draw` draws one frame of it."""

    def __init__(self, program: Program, draw: Callable[[], None]) -> None:
        self.program = program
        self.tolerant = False  # of parts of the interface that raise
        self._draw = draw

    @property
    def state(self) -> AppState:
        return self.program.state

    def frames(self, count: int = 1) -> None:
        for _ in range(count):
            self.program.update()
            self._draw()
            if (found := defects(self.state)) and not self.tolerant:
                raise InputDriverError(found[-1])

    @property
    def rects(self) -> dict[str, tuple[float, float, float, float]]:
        """Return the named widgets' rectangles in the last frame, in pixels."""
        return self.program.interface.ui.rects

    def rect(self, name: str) -> tuple[float, float, float, float]:
        if name not in self.rects:
            raise InputDriverError(f"the interface shows nothing called {name!r}")
        return self.rects[name]

    def shows(self, name: str) -> bool:
        return name in self.rects

    def point(self, name: str) -> None:
        """Point at a widget's middle, and follow a panel that takes some frames to find its
        place."""
        for _ in range(SETTLING):
            x0, y0, x1, y1 = place = self.rect(name)
            imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
            self.frames(2)
            if self.rects.get(name, place) == place:  # or it is gone
                return

    def click(self, name: str) -> None:
        self.point(name)
        for down in (True, False):
            imgui.get_io().add_mouse_button_event(0, down)
            self.frames()
        self.frames(2)

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer to a place in pixels."""
        imgui.get_io().add_mouse_pos_event(x, y)
        self.frames(2)

    def press_button(self, which: int) -> None:
        """Send a click of a mouse button at the pointer's place."""
        for down in (True, False):
            imgui.get_io().add_mouse_button_event(which, down)
            self.frames()
        self.frames(2)

    def leave(self) -> None:
        imgui.get_io().add_mouse_pos_event(*AWAY)
        self.frames(2)

    def type(self, text: str) -> None:
        imgui.get_io().add_input_characters_utf8(text)
        self.frames(2)

    def press(self, *keys: Any) -> None:
        """Send presses of keys, modifiers first, and then their releases."""
        io = imgui.get_io()
        for key in keys:
            io.add_key_event(key, True)
        self.frames()
        for key in reversed(keys):
            io.add_key_event(key, False)
        self.frames(2)

    def wheel(self, lines: float) -> None:
        imgui.get_io().add_mouse_wheel_event(0.0, lines)
        self.frames(2)

    def wait(
        self,
        what: str,
        until: Callable[[AppState], bool],
        limit: float = PATIENCE,
        pace: float = FRAME,
    ) -> None:
        """Draw like the window does until `until` holds; InputDriverError after `limit` s."""
        end = time.monotonic() + limit
        while not until(self.state):
            start = time.monotonic()
            if start > end:
                raise InputDriverError(f"waited {limit:.0f} s for {what}")
            self.frames()
            time.sleep(max(0.0, start + pace - time.monotonic()))
