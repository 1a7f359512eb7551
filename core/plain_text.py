"""The one way of text from outside (files, models, paths, arguments) to a screen, a terminal, a
window's title or a log.

Such text may hold escape sequences that clear a terminal, line breaks that forge a line of ours,
marks that reverse the order of letters, and lone surrogates, which stand for bytes that are no
UTF-8 and which neither Dear ImGui nor an encoder accepts.
"""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
LONGEST_ADDRESS = 2000  # characters
_SCHEMES = ("http://", "https://", "mailto:")
_UNFIT = re.compile(f"[{_CONTROLS}]")
_UNFIT_IN_LINES = re.compile(f"(?![\t\n])[{_CONTROLS}]")


def one_line(text: str) -> str:
    """`text` without line breaks, control characters and lone surrogates: these are written as
    escapes, as in \\x1b or \\n."""
    return text if text.isprintable() else _UNFIT.sub(_escaped, text)


def lines(text: str) -> str:
    """Return the text escaped as by `one_line`, except for line breaks and tabs."""
    return text if text.isprintable() else _UNFIT_IN_LINES.sub(_escaped, text)


def shortened(text: str, limit: int) -> str:
    """Return `text` cut to `limit` characters (100 or more): the middle is left out, as a sentence
    names its file at the start and its reason at the end."""
    if len(text) <= limit:
        return text
    kept = limit - 40  # room for what stands in the middle
    head = kept // 2
    left_out = len(text) - kept
    return f"{text[:head]} … ({left_out:,} characters) … {text[len(text) - kept + head :]}"


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if "\udc80" <= char <= "\udcff":  # a byte of a path or an argument that is no UTF-8 (PEP 383)
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def can_be_opened(address: str) -> bool:
    """Return True if an address of a link may be given to a browser: other schemes than these start
    programs, run code or read files."""
    fits = len(address) <= LONGEST_ADDRESS and address.isprintable() and " " not in address
    return fits and address.lower().startswith(_SCHEMES)


def estimate(tokens: int) -> str:
    """Return an estimated number as text, with two digits that mean something."""
    digits = max(0, len(str(tokens)) - 2)
    return f"~{round(tokens, -digits):,}"


def quote(text: str) -> str:
    """Return a name from a file, fit for a message: escaped, and not longer than a line."""
    return repr(text if len(text) <= 64 else text[:61] + "...")
