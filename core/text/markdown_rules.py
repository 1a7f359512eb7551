r"""The Markdown of answers beyond CommonMark: formulas and footnotes, rules of markdown-it.

Formulas are `$..$`, `$$..$$`, `\(..\)`, `\[..\]` and environments of formulas, as
`\begin{align}..\end{align}`.

A dollar is money more often than not: as in Pandoc, what opens has no space behind it, what closes
none before it and no digit behind it. What looks like words about money is no formula either.

Labels of footnotes, `[^1]` and `[^1]: words`, are numbers: `[^a-z]` in an answer about patterns is
no footnote. A reference becomes a raised number, a definition an item of that number in the place
where it stands: a text that grows never moves what was read before.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 4000  # characters of a formula
WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
TEX = re.compile(r"[\\^_={}]")
ENVIRONMENT = re.compile(
    r"\\begin\{((?:align|alignat|equation|flalign|gather|multline|split)\*?|aligned|gathered|cases)\}"
)
BACKSLASHED = {"(": r"\)", "[": r"\]"}
REFERENCE = re.compile(r"\[\^(\d{1,3})\]")
DEFINITION = re.compile(r"\[\^(\d{1,3})\]:[ \t]*(?=\S)")
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
APART = "\u2009"  # a thin space between two references


def add_math(parser: Any) -> None:
    """Add formulas to a MarkdownIt."""
    parser.inline.ruler.before("escape", "math", _inline_rule)
    alternatives = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "math_block", _block_rule, alternatives)


def _inline_rule(state: Any, silent: bool) -> bool:
    src, start = state.src, state.pos
    found = _span(src, start, state.posMax)
    if found is None:
        return False
    inner, end, display = found
    if not silent:
        token = state.push("math", "", 0)
        token.content, token.markup = inner, "display" if display else "math"
        token.info = src[start:end]
    state.pos = end
    return True


def _span(src: str, at: int, most: int) -> tuple[str, int, bool] | None:
    """Return what is in the formula at `at`, its end, and whether it is a display."""
    most = min(most, at + LONGEST)
    if src[at] == "\\" and at + 1 < most and src[at + 1] in BACKSLASHED:
        end = src.find(BACKSLASHED[src[at + 1]], at + 2, most)
        inner = src[at + 2 : end].strip() if end > 0 else ""
        return (inner, end + 2, src[at + 1] == "[") if inner else None
    if src[at] != "$":
        return None
    marks = 2 if src.startswith("$$", at) else 1
    end = _dollar(src, at + marks, most, marks)
    inner = src[at + marks : end] if end > 0 else ""
    if marks == 2:
        return (inner.strip(), end + 2, True) if inner.strip() else None
    return (inner, end + 1, False) if _is_formula(src, at, end, inner) else None


def _dollar(src: str, at: int, most: int, marks: int) -> int:
    """Return the position of the next dollars that no backslash escapes; -1: nowhere."""
    while True:
        at = src.find("$" * marks, at, most)
        if at < 0:
            return -1
        before = at
        while before and src[before - 1] == "\\":
            before -= 1
        if (at - before) % 2 == 0:
            return at
        at += 1


def _is_formula(src: str, start: int, end: int, inner: str) -> bool:
    if not inner or inner[0].isspace() or inner[-1].isspace():
        return False
    if src[end + 1 : end + 2].isdigit() or (start and src[start - 1].isalnum()):
        return False
    about_money = " " in inner and WORDS.search(inner) and not TEX.search(inner)
    return not about_money


def _block_rule(state: Any, start: int, end: int, silent: bool) -> bool:
    r"""Parse lines from one that begins with `$$`, `\[` or an environment to one that ends with its
    counterpart. An empty line ends what is no formula; a text that ends before may still become
    one."""
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    mark, environment = first[:2], ENVIRONMENT.match(first)
    if environment is not None:
        mark, closer = environment[0], f"\\end{{{environment[1]}}}"
    elif mark in ("$$", "\\["):
        closer = "$$" if mark == "$$" else "\\]"
    else:
        return False
    lines, at, closed = _formula_lines(state, start, end, mark, closer)
    if not closed and at < end:
        return False
    if silent:
        return True
    state.line = at
    token = state.push("math_block", "math", 0)
    content = "\n".join(lines).strip()
    if environment is not None:
        content = f"{mark}{content}{closer if closed else ''}"
    token.block, token.content, token.map = True, content, [start, at]
    token.markup, token.info = mark, "" if closed else "open"
    return True


def _formula_lines(
    state: Any, start: int, end: int, mark: str, closer: str
) -> tuple[list[str], int, bool]:
    """Return the formula's lines, the line behind them, and whether they are closed."""
    lines: list[str] = []
    size = 0
    for at in range(start, end):
        low = state.bMarks[at] + state.tShift[at]
        text = state.src[low : state.eMarks[at]].rstrip()
        inside = text[len(mark) :] if at == start else text
        outside = at > start and state.sCount[at] < state.blkIndent
        size += len(text)
        if outside or not text or size > LONGEST:
            return lines, at, False
        place = inside.find(closer)
        if 0 <= place < len(inside) - len(closer):  # more than a formula stands on its line
            return lines, at, False
        if place >= 0:
            lines.append(inside[:place])
            return lines, at + 1, bool("".join(lines).strip())
        lines.append(inside)
    return lines, end, False


def add_footnotes(parser: Any) -> None:
    """Add footnotes to a MarkdownIt."""
    parser.inline.ruler.before("link", "footnote", _reference)
    alternatives = {"alt": ["paragraph", "reference"]}
    parser.block.ruler.before("reference", "footnote", _definition, alternatives)


def _reference(state: Any, silent: bool) -> bool:
    match = REFERENCE.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        follows = state.src[: state.pos].endswith("]") and REFERENCE.search(
            state.src, max(0, state.pos - 6), state.pos
        )
        token = state.push("text", "", 0)
        token.content = (APART if follows else "") + match[1].translate(SUPERSCRIPTS)
    state.pos = match.end()
    return True


def _definition(state: Any, start: int, end: int, silent: bool) -> bool:
    """Parse a line that begins with `[^1]:`, and lines below it that are indented."""
    if state.is_code_block(start):
        return False
    low, high = state.bMarks[start] + state.tShift[start], state.eMarks[start]
    match = DEFINITION.match(state.src, low, high)
    if match is None:
        return False
    if silent:
        return True
    lines, at = [state.src[match.end() : high].strip()], start + 1
    while at < end and not state.isEmpty(at) and state.sCount[at] - state.blkIndent >= 2:
        lines.append(state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]].strip())
        at += 1
    state.line = at
    _push_item(state, int(match[1]), "\n".join(lines), [start, at])
    return True


def _push_item(state: Any, number: int, words: str, lines: list[int]) -> None:
    """Push a list of one item that has the number."""
    token = state.push("ordered_list_open", "ol", 1)
    token.attrs, token.map, token.markup = {"start": number}, lines, "."
    token = state.push("list_item_open", "li", 1)
    token.map, token.markup = lines, "."
    token = state.push("paragraph_open", "p", 1)
    token.map, token.hidden = lines, True
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = words, lines, []
    state.push("paragraph_close", "p", -1).hidden = True
    state.push("list_item_close", "li", -1).markup = "."
    state.push("ordered_list_close", "ol", -1).markup = "."
