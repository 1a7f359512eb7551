"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): bytes to the
data of events, bounded in what a line and a stream may have, and in how long a line may take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from llm_lite.core.remote.failures import RemoteError

LONGEST_LINE = 1 << 20  # bytes
LARGEST_EVENT = 4 << 20
LARGEST_STREAM = 256 << 20
SLOWEST_LINE = 60.0  # seconds from its first byte to its last


class EventReader:
    """Reads server-sent events. `damaged` is True once some bytes were no UTF-8: U+FFFD is in their
    places."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.damaged = False

    def read(self, pieces: Iterable[bytes]) -> Iterator[str]:
        """Yield the data of each event, as it comes. RemoteError for one without an end."""
        data: list[str] = []
        size = 0
        for raw in self._lines(pieces):
            line = self._decoded(raw)
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
                size += len(line)
                if size > LARGEST_EVENT:
                    raise RemoteError(f"{self._host} sends an event without an end")
            elif not line and data:
                yield "\n".join(data)
                data, size = [], 0
        if data:  # the last blank line is missing
            yield "\n".join(data)

    def _lines(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        rest, total, begun = bytearray(), 0, 0.0
        for piece in pieces:
            total += len(piece)
            if total > LARGEST_STREAM:
                raise RemoteError(
                    f"{self._host} sends an answer without an end, expected at most "
                    f"{LARGEST_STREAM >> 20} MiB"
                )
            if not rest:
                begun = time.monotonic()
            first, *others = piece.split(b"\n")
            rest += first  # a line may come byte by byte: what there is of it is not copied
            for other in others:
                yield bytes(rest).removesuffix(b"\r")
                rest = bytearray(other)
            if others:
                begun = time.monotonic()
            if len(rest) > LONGEST_LINE:
                raise RemoteError(
                    f"{self._host} sends a line without an end, expected at most "
                    f"{LONGEST_LINE >> 10} KiB"
                )
            if rest and time.monotonic() - begun > SLOWEST_LINE:
                raise RemoteError(
                    f"{self._host} takes more than {SLOWEST_LINE:.0f} s to send a line"
                )
        if rest:
            yield bytes(rest).removesuffix(b"\r")

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.damaged = True
            return raw.decode("utf-8", "replace")
