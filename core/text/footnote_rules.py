"""Footnotes in Markdown, `[^1]` and `[^1]: words`, as rules of markdown-it.

Labels are numbers: `[^a-z]` in an answer about patterns is no footnote. A reference becomes a
raised number, a definition an item of that number in the place where it stands: a text that grows
never moves what was read before.
"""

from __future__ import annotations

import re
from typing import Any

REFERENCE = re.compile(r"\[\^(\d{1,3})\]")
DEFINITION = re.compile(r"\[\^(\d{1,3})\]:[ \t]*(?=\S)")
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
APART = "\u2009"  # a thin space between two references


def add_footnotes(parser: Any) -> None:
    """Teach a MarkdownIt footnotes."""
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
        token.content = (APART if follows else "") + match[1].translate(RAISED)
    state.pos = match.end()
    return True


def _definition(state: Any, start: int, end: int, silent: bool) -> bool:
    """A line that begins with `[^1]:`, and lines below it that are indented."""
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
    """A list of one item that has the number."""
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
