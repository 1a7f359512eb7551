"""Splits calls of functions from the text of an answer, however the text is cut into pieces.

What a model writes is not trusted: half a call, broken JSON and names that are none become a call
with a problem, which is shown and never run. Marks, by style:

- tags: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, of Qwen, Hermes, SmolLM3 and
  Granite; also a list of such objects, and <function=name><parameter=key>value</parameter>
  </function> of Qwen3-Coder in the same tags;
- bar: <|tool_call|>[{...}] of Granite 3.0 and Phi 4;
- mistral: [TOOL_CALLS] and a list, or name[ARGS]{...};
- llama: an answer that is nothing but {"name": ..., "parameters": {...}};
- python: <|tool_call_start|>[name(key="value"), ...]<|tool_call_end|>, or JSON there, of LFM2;
- harmony: a channel "commentary" that is addressed to=functions.name;
- gemma: <|tool_call>call:name{key:<|"|>value<|"|>}<tool_call|> of Gemma 4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from llm_lite.core.messages import ToolCall, ToolStyle
from llm_lite.core.records import replace
from llm_lite.core.tools.declared import NAME
from llm_lite.core.tools.gemma_calls import GEMMA_QUOTES, read_gemma_call
from llm_lite.core.tools.json_values import JsonProblem, kind_of, read_json, written
from llm_lite.core.tools.python_calls import PYTHON_QUOTES, read_python_calls

MOST_CALLS = 32  # in an answer
_LOOKED_AT = 8  # closing marks that may stand in the texts of a call
_SHOWN_BROKEN = 4_000  # characters of a call that cannot be read


class CallMarks(Struct, frozen=True):
    openings: tuple[str, ...]
    closings: tuple[str, ...] = ()  # (): the end of the answer


MARKS: dict[ToolStyle, CallMarks] = {
    "tags": CallMarks(("<tool_call>",), ("</tool_call>",)),
    "bar": CallMarks(("<|tool_call|>",), ("<|/tool_call|>",)),
    "mistral": CallMarks(("[TOOL_CALLS]",)),
    "python": CallMarks(("<|tool_call_start|>",), ("<|tool_call_end|>",)),
    "llama": CallMarks(("<|python_tag|>",)),
    "harmony": CallMarks(
        (
            "<|start|>assistant<|channel|>commentary to=",
            "<|channel|>commentary to=",
            "<|start|>assistant to=",
        ),
        ("<|call|>",),
    ),
    "gemma": CallMarks(("<|tool_call>",), ("<tool_call|>",)),
}
_OPENINGS = {
    style: re.compile("|".join(map(re.escape, sorted(marks.openings, key=len, reverse=True))))
    for style, marks in MARKS.items()
}
_TEMPLATES: tuple[tuple[ToolStyle, str], ...] = (  # what a template of each style has in it
    ("harmony", r"to=functions"),
    ("mistral", r"\[TOOL_CALLS\]"),
    ("tags", r"<tool_call>"),
    ("bar", r"<\|tool_call\|>"),
    ("gemma", r"<\|tool_call>"),
    ("python", r"<\|tool_call_start\|>"),
    ("llama", r"""<\|python_tag\|>|\\?["']parameters\\?["']"""),
)
_BLOCK = re.compile(r"\{[%{]")
_FUNCTION, _VALUE_END = "<function=", "</parameter>"
_PARAMETER = re.compile(r"<parameter=|</parameter>")
_TAG = re.compile(r"<parameter=|</function>|<function=")
_TOOLS = re.compile(r"\b(?:tools|xml_tools)\b")
_SOMETHING = re.compile(r"\S")
_BEGUN_LLAMA = re.compile(r'\{\s*"(name|type|function)"\s*:')
_OBJECTS = re.compile(r"\s*(?:\[\s*)?\{")  # what is JSON begins so
_NAME_IN_BODY = re.compile(
    r'"name"\s*:\s*"([^"\\]+)"|<function=([^>\s]+)>|\A\s*(?:call:)?([\w.-]+)'
    r"|\A\s*\[\s*([\w.-]+)\("
)
# What begins or ends a text of a call, or is escaped in one; other styles are JSON.
_QUOTES: dict[str, re.Pattern[str]] = {"python": PYTHON_QUOTES, "gemma": GEMMA_QUOTES}
_JSON_QUOTES = re.compile(r'\\.|"', re.DOTALL)
_FORMS = {"python": "Python", "gemma": "Gemma notation"}


def variable_of(source: str) -> str:
    """Return the variable in which a chat template takes functions; "" if it takes none."""
    found: set[str] = set()
    for block in _BLOCK.split(source)[1:]:  # one pattern for all would be quadratic
        found.update(_TOOLS.findall(block.partition("}")[0]))
    return "tools" if "tools" in found else next(iter(found), "")


def style_of(source: str) -> ToolStyle:
    """Return how answers to prompts of a chat template mark their calls."""
    if not variable_of(source):
        return ""
    return next((style for style, found in _TEMPLATES if re.search(found, source)), "unknown")


class ClosingSearch(Struct, frozen=True):
    """The state of a search for the closing mark of a call in its text."""

    looked: int = 0  # characters in which no further mark begins
    quoted: int = 0  # characters up to which the texts of the call were followed
    quote: str = ""  # of the text that is open there
    passed: int = 0  # marks that stand in texts


class CallSplit(Struct, frozen=True):
    """An answer as far as known, without its thoughts. Pure: `fed` and `ended` give another."""

    style: ToolStyle
    raw: str = ""  # all of the answer so far
    words: str = ""  # what is said
    held: str = ""  # within a call, or perhaps the beginning of a mark
    inside: bool = False
    calls: tuple[ToolCall, ...] = ()
    places: tuple[int, ...] = ()  # of each call: how many characters of `words` stand before it
    is_ended: bool = False
    trusting: bool = False  # the first closing mark ends a call, wherever it stands
    has_words: bool = False  # `words` are more than whitespace
    search: ClosingSearch = ClosingSearch()  # within `held`

    @property
    def visible_text(self) -> str:
        late = self.held if self.is_ended and not self.inside else ""
        text = self.words + late
        return text.rstrip() if self.calls or self.inside else text

    @property
    def begun(self) -> ToolCall | None:
        """Return a call that is being written: its name as far as it is known, and its text."""
        if not self.inside or self.is_ended:
            return None
        return ToolCall(_guessed_name(self.held), self.held)

    def fed(self, text: str) -> CallSplit:
        """Return the split with more of the answer, which may continue behind its end too."""
        return _Reading(self, text).split()

    def up_to(self, text: str) -> CallSplit:
        """Return the split of a whole answer that begins with this one."""
        if not text.startswith(self.raw) or (self.is_ended and text != self.raw):
            return CallSplit(self.style).fed(text)
        return self.fed(text[len(self.raw) :]) if len(text) > len(self.raw) else self

    def ended(self) -> CallSplit:
        """Return the split with what was held back, as nothing follows."""
        split = replace(self, is_ended=True)
        if not split.inside:
            return split
        if self.style == "llama" and not _as_calls(self.style, self.held):
            return replace(split, words=self.words + self.held, held="", inside=False)
        body, rest = split.held, ""
        for mark in MARKS[split.style].closings:
            body, _, rest = split.held.partition(mark)
        split = _with_calls(split, _read(self.style, body))
        # What followed a mark that at first seemed to stand within a text of the call:
        more = CallSplit(split.style, trusting=True).fed(rest)
        if more.inside:
            more = _with_calls(more, _read(self.style, more.held))
        words = more.words + ("" if more.inside else more.held)
        places = tuple(len(split.words) + place for place in more.places)
        split = _with_calls(split, more.calls, places)
        return replace(split, words=split.words + words, held="", inside=False)


def read_calls(style: ToolStyle, text: str) -> CallSplit:
    """Split a whole answer."""
    return CallSplit(style).fed(text).ended()


class _Reading:
    """A reading of more of an answer, from left to right: no character is looked at again."""

    def __init__(self, split: CallSplit, text: str) -> None:
        self._before, self._more = split, text
        self._style, self._text, self._at = split.style, split.held + text, 0
        self._words, self._length = [split.words], len(split.words)
        self._has_words, self._inside = split.has_words, split.inside
        self._calls, self._places = [*split.calls], [*split.places]
        self._search = split.search

    def split(self) -> CallSplit:
        """Return the split behind all that can be told apart yet."""
        while self._at < len(self._text):
            if not (self._read_inside() if self._inside else self._read_outside()):
                break
        return replace(
            self._before,
            raw=self._before.raw + self._more,
            words="".join(self._words),
            held=self._text[self._at :] if self._at else self._text,
            inside=self._inside,
            calls=tuple(self._calls),
            places=tuple(self._places),
            is_ended=False,
            has_words=self._has_words,
            search=self._search,
        )

    def _read_outside(self) -> bool:
        """Read words up to a call; False where none has begun yet."""
        if self._style == "llama" and not self._has_words:
            first = _SOMETHING.search(self._text, self._at)
            if first is not None and first[0] == "{":
                if _BEGUN_LLAMA.match(self._text, first.start()):
                    self._begin_call(first.start())
                    return True
                if len(self._text) - first.start() < 24 and ":" not in self._text[first.start() :]:
                    return False  # may become one
        found = _OPENINGS[self._style].search(self._text, self._at)
        if found is not None:
            self._read_words(found.start())
            self._begin_call(found.end())
            return True
        openings = MARKS[self._style].openings
        self._read_words(
            len(self._text) - max(_begun(self._text, mark, self._at) for mark in openings)
        )
        return False

    def _read_words(self, end: int) -> None:
        words = self._text[self._at : end]
        self._words.append(words)
        self._length += len(words)
        self._has_words = self._has_words or _SOMETHING.search(words) is not None
        self._at = end

    def _begin_call(self, first: int) -> None:
        self._at, self._inside, self._search = first, True, ClosingSearch()

    def _read_inside(self) -> bool:
        """Read a call up to its closing mark; False where it has not come."""
        for mark in MARKS[self._style].closings:
            while self._search.passed < _LOOKED_AT:
                begin = self._at + self._search.looked
                found = self._text.find(mark, begin)
                if found < 0:
                    looked = max(begin, len(self._text) - len(mark) + 1)
                    self._search = replace(self._search, looked=looked - self._at)
                    return False
                if self._is_in_text(found):
                    looked, passed = found + len(mark) - self._at, self._search.passed + 1
                    self._search = replace(self._search, looked=looked, passed=passed)
                    continue
                self._take(_read(self._style, self._text[self._at : found]))
                self._at, self._inside = found + len(mark), False
                self._search = ClosingSearch()
                return True
        return False

    def _is_in_text(self, end: int) -> bool:
        """Return True if a mark at `end` stands in a text of the call."""
        if self._before.trusting:
            return False
        first, quote = self._at + self._search.quoted, self._search.quote
        if _FUNCTION in self._text[self._at : min(end, self._at + 40)]:
            for found in _PARAMETER.finditer(self._text, first, end):
                quote = "" if found[0] == _VALUE_END else found[0]
        else:
            for found in _QUOTES.get(self._style, _JSON_QUOTES).finditer(self._text, first, end):
                if found[0][0] != "\\" and quote in ("", found[0]):
                    quote = "" if quote else found[0]
        self._search = replace(self._search, quoted=end - self._at, quote=quote)
        return bool(quote)

    def _take(self, calls: tuple[ToolCall, ...]) -> None:
        room = MOST_CALLS - len(self._calls)
        self._calls += calls[:room]
        self._places += (self._length,) * len(calls[:room])


def _begun(text: str, mark: str, first: int) -> int:
    """Return how many last characters of `text` may be the beginning of `mark`; those before
    `first` are none."""
    longest = min(len(text) - first, len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(mark[:n])), 0)


def _with_calls(
    split: CallSplit, calls: tuple[ToolCall, ...], places: tuple[int, ...] = ()
) -> CallSplit:
    """Return the split with calls at `places`, or where its words end."""
    places = places or (len(split.words),) * len(calls)
    room = MOST_CALLS - len(split.calls)
    return replace(
        split, calls=(*split.calls, *calls[:room]), places=(*split.places, *places[:room])
    )


def _read(style: ToolStyle, body: str) -> tuple[ToolCall, ...]:
    """Return the calls in a body, or one with a problem if it cannot be read."""
    try:
        calls = _as_calls(style, body)
        if calls:
            return calls
        problem = "no function is named"
    except JsonProblem as error:
        problem = f"the call is not valid {_FORMS.get(style, 'JSON')}: {error}"
    return (ToolCall(_guessed_name(body), body.strip()[:_SHOWN_BROKEN], problem),)


def _as_calls(style: ToolStyle, body: str) -> tuple[ToolCall, ...]:
    """Return the calls in a body; () if there are none. JsonProblem, except for the style of Llama,
    where any JSON may be an answer."""
    if style == "harmony":
        return _addressed(body)
    if style == "gemma":
        return (_with_arguments(*read_gemma_call(body)),) if body.strip() else ()
    if style == "mistral":
        parts = (part for part in body.split("[TOOL_CALLS]") if part.strip())
        return tuple(islice((call for part in parts for call in _mistral(part)), MOST_CALLS))
    if style == "python" and not _OBJECTS.match(body):
        return tuple(_with_arguments(*one) for one in read_python_calls(body, MOST_CALLS))
    if _FUNCTION in body:
        return tuple(islice(_tagged(body), MOST_CALLS))
    try:
        values = _values(body)
    except JsonProblem:
        if style == "llama":
            return ()
        raise
    calls = tuple(call for value in values if (call := _call_of(value)) is not None)
    return calls if len(calls) == len(values) or style != "llama" else ()


def _values(body: str) -> list[Any]:
    """Return one value, a list of them, or several behind each other."""
    text = body.strip().removesuffix("<|eom_id|>").removesuffix("<|eot_id|>").strip()
    try:
        value = read_json(text)
    except JsonProblem:
        several = _several(text)
        if not several:
            raise
        return several
    return value if isinstance(value, list) else [value]


def _several(text: str) -> list[Any]:
    decoder, at = json.JSONDecoder(), 0
    found: list[Any] = []
    while at < len(text) and len(found) < MOST_CALLS:
        if text[at] in " \t\r\n;,":
            at += 1
            continue
        try:
            _, end = decoder.raw_decode(text, at)
            found.append(read_json(text[at:end]))
        except (ValueError, RecursionError):
            return []
        at = end
    return found


def _call_of(value: Any) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    body = value["function"] if isinstance(value.get("function"), dict) else value
    name = body.get("name", value.get("function"))
    if not isinstance(name, str):
        return None
    arguments = body.get("arguments", body.get("parameters", {}))
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = read_json(arguments)
        except JsonProblem as problem:
            return _named(name, arguments, f"the arguments are not valid JSON: {problem}")
    return _with_arguments(name, {} if arguments in (None, "") else arguments)


def _with_arguments(name: str, arguments: Any) -> ToolCall:
    if not isinstance(arguments, dict):
        problem = f"the arguments are {kind_of(arguments)}, expected an object"
        return _named(name, written(arguments), problem)
    return _named(name, written(arguments))


def _named(name: str, arguments: str, problem: str = "") -> ToolCall:
    name = name.removeprefix("functions.")
    if not NAME.fullmatch(name):
        return ToolCall("", arguments, problem or f"{name[:64]!r} is no name of a function")
    return ToolCall(name, arguments, problem)


def _tagged(body: str) -> Iterator[ToolCall]:
    """Yield calls of the form <function=name>: they have texts only, whose types are in the schema.
    A tag within a parameter's value is text."""
    at, last = body.find(_FUNCTION), body.rfind(_VALUE_END)
    while at >= 0:
        name, at = _up_to(body, at + len(_FUNCTION), ">")
        arguments: dict[str, str] = {}
        while (tag := _TAG.search(body, at)) is not None and tag[0] == "<parameter=":
            key, at = _up_to(body, tag.end(), ">")
            end = body.find(_VALUE_END, at) if at <= last else -1
            if end < 0:  # it is not closed: it ends where something else begins
                more = _TAG.search(body, at)
                end = more.start() if more else len(body)
            arguments[key[:64]] = body[at:end].strip("\n")
            at = end + len(_VALUE_END) if body.startswith(_VALUE_END, end) else end
        yield _named(name.strip(), written(arguments))
        at = body.find(_FUNCTION, tag.start() if tag is not None else len(body))


def _up_to(text: str, first: int, mark: str) -> tuple[str, int]:
    """Return what stands before a mark, and where what is behind it begins."""
    at = text.find(mark, first)
    return (text[first:at], at + len(mark)) if at >= 0 else (text[first:], len(text))


def _mistral(part: str) -> tuple[ToolCall, ...]:
    text = part.strip().removesuffix("</s>")
    name, mark, rest = text.partition("[ARGS]")
    if mark:
        return (_json_call(name.partition("[CALL_ID]")[0].strip(), rest),)
    match = re.match(r"([\w.-]+)\s*(\{.*)", text, re.DOTALL)
    if match:
        return (_json_call(match[1], match[2]),)
    return tuple(call for value in _values(text) if (call := _call_of(value)) is not None)


def _addressed(body: str) -> tuple[ToolCall, ...]:
    head, mark, text = body.partition("<|message|>")
    name = re.match(r"[\w.-]+", head)
    if not mark or name is None:
        return ()
    return (_json_call(name[0], text.removesuffix("<|end|>")),)


def _json_call(name: str, text: str) -> ToolCall:
    try:
        return _with_arguments(name, read_json(text.strip() or "{}"))
    except JsonProblem as problem:
        return _named(name, text[:_SHOWN_BROKEN], f"the arguments are not valid JSON: {problem}")


def _guessed_name(body: str) -> str:
    match = _NAME_IN_BODY.search(body[:400])
    name = next((group for group in match.groups() if group), "") if match else ""
    name = name.removeprefix("functions.")
    return name if NAME.fullmatch(name) else ""
