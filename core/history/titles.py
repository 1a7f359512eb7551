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
_LABEL = re.compile(r"^(?:(?:short |conversation )?title|topic)\s*[:：]\s*", re.IGNORECASE)
_QUOTES = "\"'`*_“”‘’«»「」『』"
_CHAT = re.compile(r"(?:i|i['’]m|here|here['’]s|sure|sorry|certainly|of course)\b", re.IGNORECASE)
_COMMON = frozenset(
    ("about", "from", "have", "help", "more", "that", "their", "they", "this", "what", "your")
)
_NO_TITLE = '"“”{}<>|\ufffd'
_COMPARED = 20_000  # characters of a conversation
_SHORTEST = 4  # characters: "1." and "e.g." begin a sentence, they are none


def title_of(text: str, width: int = WIDTH) -> str:
    """Return the first sentence of Markdown as plain text of at most `width` characters; "" if it
    has no words."""
    line = _first_line(text[:_LOOKED_AT])
    return _trimmed(_first_sentence(line), width)


def title_of_model(answer: str, conversation: str) -> str:
    """Return a model's answer to what a conversation is about as a title; "" if it is none: empty,
    too long, marks, the same again and again, or not about it at all."""
    line = next((found for part in answer.splitlines() if (found := plain(part))), "")
    line = _LABEL.sub("", line).strip()
    while len(line) > 1 and (line[0] in _QUOTES and line[-1] in _QUOTES):
        line = line[1:-1].strip()
    line = line.rstrip(".。｡:, ")
    words = line.casefold().split()
    if not 2 <= len(line) <= WIDTH or any(char in line for char in _NO_TITLE) or _repeats(words):
        return ""
    if _CHAT.match(line):
        return ""
    return line if _is_about(words, conversation[:_COMPARED].casefold()) else ""


def _is_about(words: list[str], conversation: str) -> bool:
    """Return True if the title has words of the conversation: small models answer what nobody
    asked."""
    stripped = (word.strip(_QUOTES + ",.:;!?()") for word in words)
    parts = (word[:5] if word.isascii() else word[:2] for word in stripped if _is_telling(word))
    return any(part in conversation for part in parts)


def _is_telling(word: str) -> bool:
    return len(word) >= (4 if word.isascii() else 2) and word not in _COMMON


def _repeats(words: list[str]) -> bool:
    """Return True if most of its words, in text without spaces its characters, occur more than
    once."""
    parts = words if len(words) > 1 else [*"".join(words)]
    return len(parts) > 3 and len(set(parts)) * 2 <= len(parts)


def plain(line: str) -> str:
    """Return a line of Markdown without its marks."""
    line = _LINE_MARK.sub("", line)
    line = _LINK.sub(r"\1", line)
    line = _CODE.sub(r"\2", line)
    for _ in range(2):  # bold within italics
        line = _EMPHASIS.sub(r"\2", line)
    line = _ESCAPE.sub(r"\1", line)
    return " ".join("".join(char if char.isprintable() else " " for char in line).split())


def _first_line(text: str) -> str:
    """Return the words before a block of code; for a message that is all code, the code."""
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
    """Cut a line at the end of a word, unless that leaves hardly anything."""
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    at_word = cut.rpartition(" ")[0]
    if len(at_word) >= width // 2 and not line[width - 1].isspace():
        cut = at_word
    return cut.rstrip(" ,;:-") + "…"
