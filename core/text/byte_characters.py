"""The spelling of bytes in vocabularies: GPT-2's as printable characters, SentencePiece's as
<0x0A>."""

from __future__ import annotations

import re

_NAMED = re.compile("<0x([0-9A-Fa-f]{2})>")


def _byte_of_char() -> dict[str, bytes]:
    """Return the byte of each character: visible Latin-1 stands for itself, the rest is from U+0100
    on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): bytes([byte]) for byte in visible}
    return table | {chr(0x100 + i): bytes([byte]) for i, byte in enumerate(hidden)}


BYTE_OF = _byte_of_char()


def named_byte(token: str) -> int | None:
    """Return the byte that a token names; None if it is text."""
    named = _NAMED.fullmatch(token)
    return int(named[1], 16) if named else None
