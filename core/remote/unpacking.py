"""Unpacks the body of an answer. It is asked for as it is; what stands before a server packs it all
the same. Pieces stay small, so that what reads them counts unpacked bytes: a small answer could
unpack to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from llm_lite.core.plain_text import quote
from llm_lite.core.remote.failures import RemoteError

_PIECE = 1 << 16  # bytes
_EITHER = 47  # of zlib: a head of gzip or of zlib
_BARE = -15


def unpacked(pieces: Iterable[bytes], coding: str, host: str) -> Iterator[bytes]:
    """Yield the bytes of a body by its Content-Encoding. RemoteError for one that is not known, and
    for bytes that are not packed so."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        yield from pieces
    elif coding in ("gzip", "x-gzip", "deflate"):
        yield from _inflated(pieces, coding, host)
    else:
        raise RemoteError(f"{host} packs its answer as {quote(coding)}, which was not asked for")


def _inflated(pieces: Iterable[bytes], coding: str, host: str) -> Iterator[bytes]:
    reader, is_first = zlib.decompressobj(_EITHER), True
    for piece in pieces:
        while piece and not reader.eof:
            try:
                found = reader.decompress(piece, _PIECE)
            except zlib.error:
                if not is_first or coding != "deflate":
                    raise RemoteError(f"{host} sends what is not packed as {coding}") from None
                reader, is_first = zlib.decompressobj(_BARE), False  # as some servers read the word
                continue
            is_first, piece = False, reader.unconsumed_tail
            if found:
                yield found
        # A full output may hold back what needs no more input.
        while not reader.eof and (found := reader.decompress(b"", _PIECE)):
            yield found
