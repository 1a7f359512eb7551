"""Rules of markdown-it: bold, italic and struck text beside Korean, Chinese and Japanese letters.

CommonMark takes a mark between punctuation and a letter for one that only opens, or only closes: so
`**인공지능(AI)**은` has no end in languages that put no space there. The amendment that its authors
discuss (https://github.com/commonmark/commonmark-spec/issues/650), as the plug-ins have it
(https://github.com/tats-u/markdown-cjk-friendly): where one of the characters beside marks is
Korean, Chinese or Japanese, marks of `*` and `~` may open and close. `_` stays as it is, but for
punctuation before a variation selector.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import Any

# Unicode 17: East Asian Width W, F or H without default emoji presentation, or the script Hangul;
# the first and the last of each range.
_RANGES = (
    *(0x1100, 0x11FF, 0x20A9, 0x20A9, 0x2329, 0x232A, 0x2630, 0x2637, 0x268A, 0x268F),
    *(0x2E80, 0x2E99, 0x2E9B, 0x2EF3, 0x2F00, 0x2FD5, 0x2FF0, 0x303E, 0x3041, 0x3096),
    *(0x3099, 0x30FF, 0x3105, 0x312F, 0x3131, 0x318E, 0x3190, 0x31E5, 0x31EF, 0x321E),
    *(0x3220, 0x3247, 0x3250, 0xA48C, 0xA490, 0xA4C6, 0xA960, 0xA97C, 0xAC00, 0xD7A3),
    *(0xD7B0, 0xD7C6, 0xD7CB, 0xD7FB, 0xF900, 0xFAFF, 0xFE10, 0xFE19, 0xFE30, 0xFE52),
    *(0xFE54, 0xFE66, 0xFE68, 0xFE6B, 0xFF01, 0xFFBE, 0xFFC2, 0xFFC7, 0xFFCA, 0xFFCF),
    *(0xFFD2, 0xFFD7, 0xFFDA, 0xFFDC, 0xFFE0, 0xFFE6, 0xFFE8, 0xFFEE, 0x16FE0, 0x16FE4),
    *(0x16FF0, 0x16FF6, 0x17000, 0x18CD5, 0x18CFF, 0x18D1E, 0x18D80, 0x18DF2),
    *(0x1AFF0, 0x1AFF3, 0x1AFF5, 0x1AFFB, 0x1AFFD, 0x1AFFE, 0x1B000, 0x1B122),
    *(0x1B132, 0x1B132, 0x1B150, 0x1B152, 0x1B155, 0x1B155, 0x1B164, 0x1B167),
    *(0x1B170, 0x1B2FB, 0x1D300, 0x1D356, 0x1D360, 0x1D376, 0x1F200, 0x1F200),
    *(0x1F202, 0x1F202, 0x1F210, 0x1F219, 0x1F21B, 0x1F22E, 0x1F230, 0x1F231),
    *(0x1F237, 0x1F237, 0x1F23B, 0x1F23B, 0x1F240, 0x1F248, 0x1F260, 0x1F265),
    *(0x20000, 0x3FFFD),
)
_CJK = re.compile(f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in list(pairwise(_RANGES))[::2])}]")
_SELECTORS = ("\ufe00", "\ufe0e")  # of a variant, not of an emoji
_IDEOGRAPHIC = ("\U000e0100", "\U000e01ef")  # selectors behind Chinese characters alone
_WIDE = "\ufe01"  # behind a quotation mark: as wide as a Chinese character
_QUOTES = "‘’“”"


def add_cjk_emphasis(parser: Any) -> None:
    """Have a MarkdownIt take marks beside Korean, Chinese and Japanese letters by the amendment."""
    from markdown_it.rules_inline import emphasis, strikethrough

    for name, rule in (("emphasis", emphasis.tokenize), ("strikethrough", strikethrough.tokenize)):
        parser.inline.ruler.at(name, partial(_amended, rule))


def _amended(rule: Any, state: Any, silent: bool) -> bool:
    """Apply a rule of the library, which asks the state what marks at a place may do."""
    if state.src[state.pos] not in "*_~":
        return False
    state.scanDelims = partial(_marks_at, state)
    return bool(rule(state, silent))


def _marks_at(state: Any, start: int, splits_words: bool) -> Any:
    """Return whether marks may open and close, and how many they are. `splits_words` is True for
    marks that may stand within a word, as all but `_`."""
    from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
    from markdown_it.rules_inline.state_inline import Scanned

    src, end, mark = state.src, start, state.src[start]
    while end < state.posMax and src[end] == mark:
        end += 1
    last, base, after = src[start - 1] if start else " ", "", " "
    if end < state.posMax:
        after = src[end]
    if _SELECTORS[0] <= last <= _SELECTORS[1]:
        base = src[start - 2] if start > 1 else " "
    before = base if base and not isWhiteSpace(ord(base)) else last
    if isWhiteSpace(ord(before)) or isWhiteSpace(ord(after)):
        opens, closes = not isWhiteSpace(ord(after)), not isWhiteSpace(ord(before))
        return Scanned(opens, closes, end - start)
    opens = isMdAsciiPunct(ord(before)) or isPunctChar(before)
    closes = isMdAsciiPunct(ord(after)) or isPunctChar(after)
    if splits_words:
        beside = bool(_CJK.match(after)) or _is_cjk(last, base)
        opens, closes = opens or beside or not closes, closes or beside or not opens
    return Scanned(opens, closes, end - start)


def _is_cjk(last: str, base: str) -> bool:
    """Return True for a character before marks, or what is before its variation selector."""
    if base:
        return bool(_CJK.match(base)) or (last == _WIDE and base in _QUOTES)
    return bool(_CJK.match(last)) or _IDEOGRAPHIC[0] <= last <= _IDEOGRAPHIC[1]
