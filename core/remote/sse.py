"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): bytes to the
data of events, bounded in what a line and a stream may have, and in how long a line may take."""

from __future__ import annotations

import time
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from itertools import chain

from llm_lite.core.remote.failures import RemoteError

LONGEST_LINE = 1 << 20  # bytes
LARGEST_EVENT = 4 << 20
LARGEST_STREAM = 256 << 20
_FIELDS = ("data", "event", "id", "retry", "error", "comment")
SLOWEST_LINE = 60.0  # seconds from its first byte to its last


class EventReader:
    """Reads server-sent events, also as servers write them beside the specification: with one line
    break between events, with `data:` twice, as bare lines of JSON. `kind` is what an event is
    named, "" mostly. `damaged` is True once some bytes were no UTF-8: U+FFFD is in their places."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.kind = ""
        self.damaged = False

    def read(self, pieces: Iterable[bytes]) -> Iterator[str]:
        """Yield the data of each event, as it comes. RemoteError for one without an end."""
        data: list[str] = []
        size, kind, is_bare = 0, "", False
        for raw in chain(self._lines(pieces), (b"",)):  # the last blank line may be missing
            line = self._decoded(raw)
            name, words = _field(line)
            is_bare = bool(name) and (is_bare or line.startswith("{"))
            if is_bare and name not in _FIELDS:  # a JSON of several lines
                name, words = "data", line
            if data and (not name or (name == "data" and _is_next(data[-1], words))):
                self.kind = kind
                yield "\n".join(data)
                data, size = [], 0
            if not name:
                kind = ""
            elif name == "event":
                kind = words
            elif name in ("data", "error"):
                kind = "error" if name == "error" else kind
                data.append(words)
                size += len(words)
                if size > LARGEST_EVENT:
                    raise RemoteError(f"{self._host} sends an event without an end")

    def _lines(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        rest, total, begun = bytearray(), 0, 0.0
        for piece in _with_line_feeds(pieces):
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
                yield bytes(rest)
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
            yield bytes(rest)

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.damaged = True
            return raw.decode("utf-8", "replace")


def _with_line_feeds(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces whose lines all end in a line feed: CR and CR LF end lines, too. The mark of
    byte order, which may begin a stream, is left out."""
    before = b""
    is_first = True
    for piece in pieces:
        piece = before + piece
        if is_first and len(piece) < len(BOM_UTF8) and BOM_UTF8.startswith(piece):
            before = piece
            continue
        if is_first:
            piece, is_first = piece.removeprefix(BOM_UTF8), False
        before = b"\r" if piece.endswith(b"\r") else b""
        piece = piece[: len(piece) - len(before)]
        yield piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    yield before.replace(b"\r", b"\n")


def _field(line: str) -> tuple[str, str]:
    """Return the field of a line and its value; ("", "") for a blank line. A bare line of JSON is
    data, "error" is a field of llama-server before 2025."""
    if line.startswith("{"):
        return "data", line
    name, _, words = line.partition(":")
    words = words.removeprefix(" ")
    while name == "data" and words.startswith("data:"):  # a proxy has written it once more
        words = words[5:].removeprefix(" ")
    return (name, words) if name or not line else ("comment", words)


def _is_next(last: str, words: str) -> bool:
    """Return True where data is an event of its own, though no blank line is before it: within JSON
    no object follows another at once."""
    return last.rstrip().endswith("}") and words.lstrip().startswith(("{", "[DONE]"))
