"""A title for a conversation: the first sentence of its first message, as plain text."""

from __future__ import annotations

import re

WIDTH = 60  # characters
_LOOKED_AT = 2000  # characters; a title needs no more of a long text

_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\d{1,9}[.)][ \t]+)+")
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)|\[[^\[\]]*\])")
_EMPHASIS = re.compile(r"(?<![\w\\])(\*{1,3}|_{1,3}|~~)(?=\S)(.+?)(?<=[^\s\\])\1(?!\w)")
_CODE = re.compile(r"(`+)(.+?)\1")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# A stop ends a sentence before a space or at the end; those of East Asian scripts anywhere.
_SENTENCE = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s|$))|(?:[。！？｡]+[」』”’）]*)")
_SHORTEST = 4  # characters: "1." and "e.g." begin a sentence, they are none


def title_of(text: str, width: int = WIDTH) -> str:
    """The first sentence of Markdown as plain text of at most `width` characters; "" where it has
    no words."""
    line = _first_line(text[:_LOOKED_AT])
    return _trimmed(_first_sentence(line), width)


def plain(line: str) -> str:
    """A line of Markdown without its marks."""
    line = _LINE_MARK.sub("", line)
    line = _LINK.sub(r"\1", line)
    line = _CODE.sub(r"\2", line)
    for _ in range(2):  # bold within italics
        line = _EMPHASIS.sub(r"\2", line)
    line = _ESCAPE.sub(r"\1", line)
    return " ".join("".join(char if char.isprintable() else " " for char in line).split())


def _first_line(text: str) -> str:
    """Words before a block of code; of a message that is all code, the code."""
    for candidate in (_FENCE.sub("\n", text), _FENCE_LINE.sub("\n", text)):
        for line in candidate.splitlines():
            if not _RULE.match(line) and (found := plain(line)):
                return found
    return ""


def _first_sentence(line: str) -> str:
    for stop in _SENTENCE.finditer(line):
        if stop.end() >= _SHORTEST:
            return line[: stop.end()].rstrip(".。｡ ") or line
    return line


def _trimmed(line: str, width: int) -> str:
    """At the end of a word, unless that leaves hardly anything."""
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    at_word = cut.rpartition(" ")[0]
    if len(at_word) >= width // 2 and not line[width - 1].isspace():
        cut = at_word
    return cut.rstrip(" ,;:-") + "…"
