"""The Markdown that chat models write, parsed into blocks of styled spans.

Covered: paragraphs, headings, lists, quotes, rules, fenced code, tables (kept as they are, in the
fixed-width font), and in a line bold, italic, code and links. A text that is still being written
parses at every length: an open fence is code, an open `**` is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Style = Literal["regular", "bold", "mono"]
Kind = Literal["paragraph", "heading", "item", "quote", "code", "rule"]

FENCE = re.compile(r"^\s{0,3}(```+|~~~+)\s*([\w+#.-]*)[^`]*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
ITEM = re.compile(r"^(\s*)([-*+•]|\d{1,3}[.)])\s+(.*)$")
QUOTE = re.compile(r"^\s{0,3}>\s?(.*)$")
RULE = re.compile(r"^\s{0,3}([-*_])(\s*\1){2,}\s*$")
TABLE = re.compile(r"^\s*\|.*\|\s*$")
# Spans have a longest length: what is opened again and again and never closed stays cheap.
INLINE = re.compile(
    r"(?P<code>`+)(?P<code_text>.+?)(?P=code)(?!`)"
    r"|(?P<bold>\*\*|__)(?=\S)(?P<bold_text>.{1,1000}?)(?<=\S)(?P=bold)"
    r"|(?<![\w*])(?P<italic>[*_])(?=[^\s*_])(?P<italic_text>[^*_\n]+?)(?<=\S)(?P=italic)(?![\w*])"
    r"|\[(?P<link_text>[^\[\]\n]{1,500})\]\((?P<link>[^)\s]{1,500})\)"
)


@dataclass(frozen=True, slots=True)
class StyledSpan:
    text: str
    style: Style = "regular"


@dataclass(frozen=True, slots=True)
class Block:
    kind: Kind
    spans: tuple[StyledSpan, ...] = ()
    level: int = 0  # of a heading; depth of an item
    label: str = ""  # an item's marker; a code block's language


def parse(text: str) -> tuple[Block, ...]:
    """The blocks of `text`, in order."""
    blocks: list[Block] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        taken, block = _block(lines, at)
        at += taken
        if block:
            blocks.append(block)
    return tuple(blocks)


def spans(text: str) -> tuple[StyledSpan, ...]:
    """The styled parts of one line or paragraph."""
    found: list[StyledSpan] = []
    at = 0
    for match in INLINE.finditer(text):
        if match.start() > at:
            found.append(StyledSpan(text[at : match.start()]))
        found.append(_span(match))
        at = match.end()
    if at < len(text):
        found.append(StyledSpan(text[at:]))
    return tuple(found)


def _span(match: re.Match[str]) -> StyledSpan:
    if match["code"]:
        return StyledSpan(match["code_text"], "mono")
    if match["bold"]:
        return StyledSpan(match["bold_text"].replace("`", ""), "bold")
    if match["italic"]:
        return StyledSpan(match["italic_text"])
    shown = match["link_text"]
    return StyledSpan(shown if shown == match["link"] else f"{shown} ({match['link']})")


def _block(lines: list[str], at: int) -> tuple[int, Block | None]:
    """The block that starts at line `at`, and how many lines it takes."""
    line = lines[at]
    if not line.strip():
        return 1, None
    if match := FENCE.match(line):
        return _code(lines, at, match[1], match[2])
    if RULE.match(line):
        return 1, Block("rule")
    if match := HEADING.match(line):
        words = re.sub(r"(^|[ \t])#+$", "", match[2].rstrip()).rstrip()
        return 1, Block("heading", spans(words), len(match[1]))
    if TABLE.match(line):
        return _while(lines, at, TABLE)
    if match := QUOTE.match(line):
        return _quote(lines, at)
    if match := ITEM.match(line):
        return _item(lines, at, match)
    taken = 1
    while at + taken < len(lines) and not _starts_block(lines[at + taken]):
        taken += 1
    return taken, Block("paragraph", spans("\n".join(lines[at : at + taken])))


def _starts_block(line: str) -> bool:
    patterns = (FENCE, RULE, HEADING, TABLE, QUOTE, ITEM)
    return not line.strip() or any(pattern.match(line) for pattern in patterns)


def _code(lines: list[str], at: int, fence: str, language: str) -> tuple[int, Block]:
    end = at + 1
    while end < len(lines) and not lines[end].strip().startswith(fence):
        end += 1
    body = "\n".join(lines[at + 1 : end])
    return end - at + 1, Block("code", (StyledSpan(body, "mono"),), label=language)


def _while(lines: list[str], at: int, pattern: re.Pattern[str]) -> tuple[int, Block]:
    end = at
    while end < len(lines) and pattern.match(lines[end]):
        end += 1
    return end - at, Block("code", (StyledSpan("\n".join(lines[at:end]), "mono"),), label="table")


def _quote(lines: list[str], at: int) -> tuple[int, Block]:
    words = []
    for line in lines[at:]:
        match = QUOTE.match(line)
        if not match:
            break
        words.append(match[1])
    return len(words), Block("quote", spans("\n".join(words)))


def _item(lines: list[str], at: int, match: re.Match[str]) -> tuple[int, Block]:
    words, taken = [match[3]], 1
    while at + taken < len(lines):
        line = lines[at + taken]
        if _starts_block(line) or not line.startswith(" "):
            break
        words.append(line.strip())
        taken += 1
    depth = min(len(match[1].expandtabs(4)) // 2, 5)
    marker = match[2] if match[2][0].isdigit() else "•"
    return taken, Block("item", spans("\n".join(words)), depth, marker)
