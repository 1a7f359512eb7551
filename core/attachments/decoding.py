"""Bytes to text by what they hold, whatever the file is called."""

from __future__ import annotations

import codecs

from llm_lite.core.plain_text import lines

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, which begins like it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TEXT_CONTROLS = b"\t\n\r\f\x1b\x08"
_CONTROLS = bytes({*range(32), 127} - {*_TEXT_CONTROLS})
_MOST_CONTROLS = 0.002  # of the bytes of a text
_MOST_HIGH = 0.4  # of the bytes of a text in Latin letters
_LOOKED_AT = 1 << 16  # bytes in which zeros are counted


def decode(raw: bytes) -> str | None:
    """Return the text of a file, its line breaks as single newlines and without control characters;
    None if the bytes are no text."""
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return _plain(_decoded(raw[len(bom) :], encoding))
    if b"\0" in raw:
        encoding = _utf16(raw[:_LOOKED_AT])
        return _plain(_decoded(raw, encoding)) if encoding else None
    if _share(raw, _CONTROLS) > _MOST_CONTROLS:
        return None
    text = _decoded(raw, "utf-8")
    if text is None and _share(raw, bytes(range(0x80, 0x100))) <= _MOST_HIGH:
        text = _decoded(raw, "cp1252")
    return _plain(text)


def _decoded(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def _share(raw: bytes, of: bytes) -> float:
    return 1 - len(raw.translate(None, of)) / max(len(raw), 1)


def _utf16(raw: bytes) -> str:
    """Return the UTF-16 encoding of bytes without a byte order mark, "" for another one: where the
    letters are Latin, most of every second byte is zero."""
    even, odd = raw[::2], raw[1::2]
    half = max(len(odd), 1)
    zeros_even, zeros_odd = even.count(0) / max(len(even), 1), odd.count(0) / half
    if zeros_odd > 0.5 and zeros_even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if zeros_even > 0.5 and zeros_odd < 0.05 else ""


def _plain(text: str | None) -> str | None:
    if text is None or "\0" in text:
        return None
    for mark in ("\r\n", "\r", "\f"):
        text = text.replace(mark, "\n")
    return lines(text)
