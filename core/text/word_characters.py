"""The characters of words, as the `tokenizers` library has them for tokens that stand alone.

They are those of \\w in UTS 18, appendix C: https://www.unicode.org/reports/tr18/#word
"""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
_CIRCLED = (("\u24b6", "\u24e9"), ("\U0001f130", "\U0001f149"), ("\U0001f150", "\U0001f169"),
            ("\U0001f170", "\U0001f189"))  # fmt: skip # letters among symbols


def is_of_word(char: str) -> bool:
    """Return True for a letter, mark or decimal digit, or for what joins words, as "_"."""
    kind = unicodedata.category(char)
    return (
        kind[0] in "LM"
        or kind in ("Nd", "Nl", "Pc")
        or char in _JOINERS
        or any(low <= char <= high for low, high in _CIRCLED)
    )


def stands_alone(text: str, start: int, end: int) -> bool:
    """Return True if no word goes on from before `start`, or behind `end`."""
    return not (start > 0 and is_of_word(text[start - 1])) and not (
        end < len(text) and is_of_word(text[end])
    )
