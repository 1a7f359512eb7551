"""GBNF, the grammars of llama.cpp, as text becomes rules here: `read_gbnf`.

A problem is a sentence that names the line of the text itself.
"""

from __future__ import annotations

import re

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import quote

Range = tuple[int, int]  # characters by their numbers, both included
LAST_CHARACTER = 0x10FFFF
_NO_CHARACTER: Range = (0xD800, 0xDFFF)  # halves of pairs, which no text has alone
_HEAD = re.compile(r"(?m)^[ \t]*[\w-]+[ \t]*::=")
_LARK = re.compile(r"(?m)^\s*(?:%llguidance\b|start(?:\.-?\d+)?\s*:(?!:=))")
_NAME = re.compile(r"[\w-]+")
_NUMBER = re.compile(r"[0-9]+")
_TOKEN = re.compile(r"!?<(?:\[[0-9]+\]|[^\s<>\[\]][^\s<>]*)>")
_BLANK, _BLANK_LINES = (
    re.compile(rf"(?:[{spaces}]|#[^\r\n]*)*") for spaces in (r" \t", r" \t\r\n")
)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", **{c: c for c in '\\"[]-^'}}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_LARGEST_NUMBER = 6  # digits of a count


class Characters(Struct, frozen=True):
    """One character of these, in order and apart from each other."""

    ranges: tuple[Range, ...]


class Sequence(Struct, frozen=True):
    parts: tuple[Node, ...]


class Either(Struct, frozen=True):
    alternatives: tuple[Node, ...]


class Repeated(Struct, frozen=True):
    part: Node
    least: int
    most: int | None  # None: any number


class RuleNamed(Struct, frozen=True):
    name: str


class TokenNamed(Struct, frozen=True):
    """One token, as <name> or <[number]>; with `is_other`, any token but this one."""

    token: str
    is_other: bool


Node = Characters | Sequence | Either | Repeated | RuleNamed | TokenNamed


def is_gbnf(text: str) -> bool:
    """Return whether a grammar is GBNF, and not of llguidance's form of Lark's."""
    return not re.search(r"(?m)^\s*%llguidance\b", text) and (
        _HEAD.search(text) is not None or _LARK.search(text) is None
    )


def read_gbnf(text: str) -> dict[str, Node]:
    """Return the rules by name, "root" among them. Of two with one name the last one holds.
    RequestError."""
    return _Reader(text).rules()


def characters(ranges: list[Range], *, negated: bool = False) -> Characters:
    """Return a set of characters; `negated`: of all others. A range that runs backwards has
    none."""
    found: list[Range] = []
    for low, high in sorted(one for one in ranges if one[0] <= one[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    if negated:
        edges = [-1, *(edge for one in found for edge in one), LAST_CHARACTER + 1]
        found = [
            (edges[i] + 1, edges[i + 1] - 1)
            for i in range(0, len(edges), 2)
            if edges[i] + 1 < edges[i + 1]
        ]
    first, last = _NO_CHARACTER
    parts = [
        part
        for low, high in found
        for part in ((low, min(high, first - 1)), (max(low, last + 1), high))
        if part[0] <= part[1]
    ]
    return Characters(tuple(parts))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._named: dict[str, int] = {}  # rules, by the place where one is named first

    def rules(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            name = self._name("the name of a rule")
            self._skip(_BLANK)
            self._expect("::=")
            self._skip(_BLANK_LINES if not self._next_is_a_head() else _BLANK)
            found[name] = self._alternatives(nested=False)
            if self._at < len(self._text) and self._char() not in "\r\n":
                raise self._problem("expected the end of the rule")
            self._skip(_BLANK_LINES)
        if "root" not in found:
            raise RequestError('the grammar has no rule "root", which an answer begins with')
        for name, at in self._named.items():
            if name not in found:
                raise self._problem(f"there is no rule {quote(name)}", at)
        return found

    def _next_is_a_head(self) -> bool:
        """Return whether the rule is empty: the next line begins another one."""
        behind = _BLANK_LINES.match(self._text, self._at)
        return behind is not None and _HEAD.match(self._text, behind.end()) is not None

    def _alternatives(self, *, nested: bool) -> Node:
        alternatives = [self._sequence(nested=nested)]
        while self._goes_on(nested=nested):
            self._expect("|")
            self._skip(_BLANK_LINES)
            alternatives.append(self._sequence(nested=nested))
        return alternatives[0] if len(alternatives) == 1 else Either(tuple(alternatives))

    def _goes_on(self, *, nested: bool) -> bool:
        """Return whether another alternative follows, perhaps on a line of its own."""
        if not nested:
            behind = _BLANK_LINES.match(self._text, self._at)
            if behind is not None and self._text.startswith("|", behind.end()):
                self._at = behind.end()
        return self._char() == "|"

    def _sequence(self, *, nested: bool) -> Node:
        parts: list[Node] = []
        blank = _BLANK_LINES if nested else _BLANK
        while (part := self._part()) is not None:
            self._skip(blank)
            while (counts := self._counts()) is not None:
                part = Repeated(part, *counts) if counts[1] != 0 else Sequence(())
                self._skip(blank)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self) -> Node | None:
        """Return the next part of a sequence; None where it ends."""
        char = self._char()
        if char == '"':
            return self._literal()
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        if char == ".":
            self._at += 1
            return characters([], negated=True)
        if char in ("<", "!"):
            return self._token()
        if char and _NAME.match(char):
            at = self._at
            name = self._name("a name")
            self._named.setdefault(name, at)
            return RuleNamed(name)
        if char in ("", "|", ")", "\r", "\n"):
            return None
        if char in "*+?{":
            raise self._problem(f"there is nothing that {char} could repeat")
        raise self._problem(f"expected a part of a rule, found {quote(char)}")

    def _group(self) -> Node:
        at = self._at
        self._at += 1
        self._skip(_BLANK_LINES)
        inside = self._alternatives(nested=True)
        if self._char() != ")":
            raise self._problem("this ( is not closed", at)
        self._at += 1
        return inside

    def _counts(self) -> tuple[int, int | None] | None:
        """Return how often the part before may come; None: once."""
        char = self._char()
        known: dict[str, tuple[int, int | None]]
        known = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if char in known:
            self._at += 1
            return known[char]
        if char != "{":
            return None
        at = self._at
        self._at += 1
        least = self._number(default=None)
        most: int | None = least
        if self._char() == ",":
            self._at += 1
            most = self._number(default=-1)
            most = None if most == -1 else most
        self._expect("}")
        assert least is not None
        if most is not None and most < least:
            raise self._problem(f"expected at least {least} as the larger number", at)
        return least, most

    def _number(self, *, default: int | None) -> int | None:
        self._skip(_BLANK_LINES)
        found = _NUMBER.match(self._text, self._at)
        if found is None:
            if default is None:
                raise self._problem("expected a number")
            return default
        if len(found[0]) > _LARGEST_NUMBER:
            raise self._problem(f"expected a number of at most {_LARGEST_NUMBER} digits")
        self._at = found.end()
        self._skip(_BLANK_LINES)
        return int(found[0])

    def _literal(self) -> Node:
        at = self._at
        self._at += 1
        parts: list[Node] = []
        while self._char() != '"':
            if not self._char():
                raise self._problem('this " is not closed', at)
            one = self._character()
            parts.append(characters([(one, one)]))
        self._at += 1
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _class(self) -> Node:
        at = self._at
        self._at += 1
        negated = self._char() == "^"
        self._at += negated
        ranges: list[Range] = []
        while self._char() != "]":
            if not self._char():
                raise self._problem("this [ is not closed", at)
            low = high = self._character()
            if self._char() == "-" and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._character()
            ranges.append((low, high))
        self._at += 1
        found = characters(ranges, negated=negated)
        if not found.ranges:
            raise self._problem("no character is of this class", at)
        return found

    def _character(self) -> int:
        """Return the number of the next character of a literal or a class."""
        char = self._char()
        if not char:
            raise self._problem("the grammar ends within a literal or a class")
        if char != "\\":
            self._at += 1
            return ord(char)
        at = self._at
        kind = self._text[at + 1 : at + 2]
        digits = _HEX_DIGITS.get(kind)
        if digits is None:
            if kind not in _ESCAPED:
                raise self._problem(f"\\{kind} stands for no character")
            self._at += 2
            return ord(_ESCAPED[kind])
        spelled = self._text[at + 2 : at + 2 + digits]
        if not re.fullmatch(r"[0-9A-Fa-f]+", spelled) or len(spelled) < digits:
            raise self._problem(f"expected {digits} hexadecimal digits behind \\{kind}")
        self._at += 2 + digits
        number = int(spelled, 16)
        first, last = _NO_CHARACTER
        if number > LAST_CHARACTER or first <= number <= last:
            raise self._problem(f"\\{kind}{spelled} is no character of Unicode", at)
        return number

    def _token(self) -> Node:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._problem("expected a token, as <name> or <[number]>")
        self._at = found.end()
        return TokenNamed(found[0].lstrip("!"), found[0].startswith("!"))

    def _name(self, what: str) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self._problem(f"expected {what}")
        self._at = found.end()
        return found[0]

    def _expect(self, mark: str) -> None:
        if not self._text.startswith(mark, self._at):
            raise self._problem(f"expected {mark}")
        self._at += len(mark)

    def _char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, blank: re.Pattern[str]) -> None:
        found = blank.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _problem(self, problem: str, at: int | None = None) -> RequestError:
        line = self._text.count("\n", 0, self._at if at is None else at) + 1
        return RequestError(f"the grammar is broken in line {line}: {problem}")
