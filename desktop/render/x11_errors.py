"""X errors cost a request; Xlib by itself ends the process.

The window answers other programs, as when a file is dragged over it, and such a program may have
ended meanwhile: the server then says BadWindow (X Window System Protocol, "Errors"). A driver makes
requests as well: SwiftShader frees memory for pictures before the server has attached it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

BAD_WINDOW = 3  # X.h


class ErrorEvent(ctypes.Structure):
    """XErrorEvent of Xlib.h."""

    _fields_ = (
        ("type", ctypes.c_int), ("display", ctypes.c_void_p), ("resource", ctypes.c_ulong),
        ("serial", ctypes.c_ulong), ("code", ctypes.c_ubyte), ("request", ctypes.c_ubyte),
        ("minor", ctypes.c_ubyte),
    )  # fmt: skip


HANDLER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ErrorEvent))


class ErrorHandler:
    """Replaces Xlib's handler until `close`. `report` gets a sentence of each error but BadWindow,
    once: a driver may repeat one with every frame. OSError where Xlib is not installed."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._reported: set[str] = set()  # at most one of each request and error, which are bytes
        self._set: Any = ctypes.CDLL("libX11.so.6").XSetErrorHandler
        self._held = HANDLER(self._handle)  # as long as Xlib may call it
        self._set(self._held)

    def _handle(self, _display: int, event: Any) -> int:
        error = event.contents
        if error.code != BAD_WINDOW:
            request = f"{error.request}.{error.minor}"
            sentence = (
                f"The X server refused request {request} of this program: error {error.code}."
            )
            self._report_once(sentence)
        return 0

    def _report_once(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._report(sentence)

    def close(self) -> None:
        """Restore Xlib's own handler."""
        self._set(None)
