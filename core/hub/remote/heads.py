"""A limit of time for the head of a response: the HTTP library waits its timeout for each byte of
it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

MOST_SECONDS = 10.0  # from the first byte of a head to its last


class _Reading(threading.local):
    """The limit of what a thread reads now."""

    late: Callable[[], Exception] | None = None  # while it is a head: what a slow one raises
    until: float | None = None  # once a byte has come


_reading = _Reading()


def trace(late: Callable[[], Exception], name: str, info: dict[str, Any]) -> None:
    """Limit the time of a response's head, which may raise what `late` makes. It is the extension
    "trace" of a request, which httpcore calls on the thread that reads."""
    if name.endswith(".receive_response_headers.started"):
        _reading.late, _reading.until = late, None
    elif ".receive_response_headers." in name:  # complete or failed
        _reading.late = _reading.until = None
    stream = info.get("return_value")
    if hasattr(stream, "read") and hasattr(stream, "get_extra_info"):
        _limit(stream)


def _limit(stream: Any) -> None:
    """Limit the reads of a connection, which may be used for other requests later."""
    plain = stream.read

    def read(max_bytes: int, timeout: float | None = None) -> bytes:
        late, until = _reading.late, _reading.until
        if late is None:
            return bytes(plain(max_bytes, timeout))
        if until is None:
            found = bytes(plain(max_bytes, timeout))
            _reading.until = time.monotonic() + MOST_SECONDS
            return found
        left = until - time.monotonic()
        if left <= 0:
            raise late()
        try:
            return bytes(plain(max_bytes, left if timeout is None else min(left, timeout)))
        except Exception:  # its own, of the time that is over
            if time.monotonic() >= until:
                raise late() from None
            raise

    with contextlib.suppress(AttributeError):
        stream.read = read
