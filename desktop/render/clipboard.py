"""The system's clipboard as Dear ImGui asks for it: at once, though another program has to answer.

GLFW waits without an end for a program that hangs. Under X11 the text is read over a connection of
our own; under Wayland, where only the window's connection may, by GLFW on a thread that is waited
for no longer. Other systems hold the text themselves.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Literal

import glfw

from llm_lite.desktop.render.x11_clipboard import PATIENCE, NoAnswerError, X11Clipboard

Reading = Literal["x11", "thread", "plain"]
SILENT = "The program that holds the clipboard does not answer: nothing was pasted."


class Clipboard:
    """Reads the clipboard for a window of GLFW; `report` gets a sentence where nobody answers."""

    def __init__(self, handle: Any, report: Callable[[str], None], how: Reading) -> None:
        self._handle, self._report, self._how = handle, report, how
        self._patience = PATIENCE
        self._reading: threading.Thread | None = None
        self._x11: X11Clipboard | None = None
        if how == "x11":
            try:
                self._x11 = X11Clipboard()
            except OSError:
                self._how = "thread"  # better than to wait without an end

    def close(self) -> None:
        if self._x11 is not None:
            self._x11.close()
            self._x11 = None

    def text(self) -> str:
        """Return the text; "" if there is none, or nobody answers in time. Its lines end as Dear
        ImGui's do, which drops carriage returns."""
        try:
            found = self._found()
        except NoAnswerError:
            self._report(SILENT)
            return ""
        return found.replace("\r\n", "\n").replace("\r", "\n")

    def _found(self) -> str:
        if self._x11 is None:
            return self._read() if self._how == "plain" else self._read_on_thread()
        if self._x11.is_of(glfw.get_x11_window(self._handle)):
            return self._read()  # its own answer: nobody else is asked
        return self._x11.text()

    def _read(self) -> str:
        """Return GLFW's answer, whose bytes need not be UTF-8."""
        package: Any = glfw
        read = package._glfw.glfwGetClipboardString
        read.restype = ctypes.c_char_p
        return (read(self._handle) or b"").decode("utf-8", "replace")

    def _read_on_thread(self) -> str:
        """Return GLFW's answer if it comes in time. While a thread waits there is no second one:
        GLFW keeps one text."""
        if self._reading is not None and self._reading.is_alive():
            raise NoAnswerError
        found: list[str] = []
        self._reading = threading.Thread(target=lambda: found.append(self._read()), daemon=True)
        self._reading.start()
        self._reading.join(self._patience)
        if not found:
            raise NoAnswerError
        return found[0]
