"""How byte-level vocabularies spell bytes: each as a printable character, as GPT-2 began it."""

from __future__ import annotations


def _byte_of_char() -> dict[str, bytes]:
    """Visible Latin-1 for itself, the rest from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): bytes([byte]) for byte in visible}
    return table | {chr(0x100 + i): bytes([byte]) for i, byte in enumerate(hidden)}


BYTE_OF = _byte_of_char()
