"""X errors of windows that are gone, over which Xlib would end the process.

The window answers other programs, as when a file is dragged over it, and such a program may have
ended meanwhile: the server then says BadWindow (X Window System Protocol, "Errors").
"""

from __future__ import annotations

import ctypes
from functools import cache
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


@cache
def ignore_lost_windows() -> Any:
    """From now on; other errors go to Xlib's own handler. What is returned is Xlib's to call, so
    the cache keeps it. None where Xlib is not installed."""
    try:
        set_handler = ctypes.CDLL("libX11.so.6").XSetErrorHandler
    except OSError:
        return None
    set_handler.restype = HANDLER

    def handle(display: int, event: Any) -> int:
        return 0 if event.contents.code == BAD_WINDOW else before(display, event)

    handler = HANDLER(handle)
    before = set_handler(handler)
    return handler
