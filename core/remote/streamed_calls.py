"""Calls of functions out of the fragments of a stream.

The protocol tells calls apart by `index`. Servers make of it what they like: 0 for all (Ollama),
none (Gemini), one number for a call and its fragments, or a fresh `id` in each fragment (vLLM
before 0.9). A fragment begins a call where index or id is new and a name stands in it, or where a
name follows arguments that are complete.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct, field

from llm_lite.core.remote.json_fields import an_object, text
from llm_lite.core.tools.json_values import levels_of

MOST_CALLS = 32
MOST_ARGUMENTS = 1 << 20  # characters of a call
LONGEST_CALLED = 200  # characters of a function's name
_DEEP = 64  # lists and objects within each other
_SIGNS = re.compile(r'[{}\[\]"\\]')


class _Whole(Struct):
    """Says, fragment by fragment, whether arguments are a complete object or list."""

    levels: int = 0
    begun: bool = False
    in_text: bool = False
    escaped: bool = False  # the next character, if it is the first of a fragment

    @property
    def is_over(self) -> bool:
        return self.begun and not self.levels

    def feed(self, more: str) -> None:
        at = 1 if self.escaped else 0
        self.escaped = self.escaped and not more
        while found := _SIGNS.search(more, at):
            at, sign = found.end(), found[0]
            if sign == "\\":
                at, self.escaped = at + 1, at == len(more)
            elif sign == '"':
                self.in_text = not self.in_text
            elif not self.in_text:
                self.levels += 1 if sign in "{[" else -1
                self.begun = True


class _Call(Struct):
    index: int | None
    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)  # of the arguments
    room: int = MOST_ARGUMENTS  # characters
    whole: _Whole = field(default_factory=_Whole)

    def add(self, more: str) -> None:
        if more := more[: self.room]:
            self.parts.append(more)
            self.room -= len(more)
            self.whole.feed(more)

    def says(self, arguments: str) -> bool:
        return len(arguments) == MOST_ARGUMENTS - self.room and arguments == "".join(self.parts)


class StreamedCalls(Struct):
    """The calls of one answer."""

    _calls: list[_Call] = field(default_factory=list)
    _latest: dict[int | None, _Call] = field(default_factory=dict)  # by index; None: of all

    @property
    def begun(self) -> bool:
        return bool(self._calls)

    def feed(self, row: dict[str, Any]) -> None:
        """Take an item of a delta's `tool_calls`."""
        function = an_object(row.get("function")) or row
        name, number = text(function.get("name"), LONGEST_CALLED), text(row.get("id"))
        more = function.get("arguments")
        more = json.dumps(more) if isinstance(more, dict) else text(more, MOST_ARGUMENTS)
        index = row.get("index")
        index = index if type(index) is int and 0 <= index < 1 << 31 else None
        call = self._before(index, number)
        if call is None or _begins(call, number, name, more):
            call = self._begun(index)
        elif name and call.whole.is_over and call.says(more):
            return  # a last chunk that says all once more
        self._latest[None] = call
        call.id = call.id or number
        if name != call.name and not call.parts:  # of a few servers a name comes in pieces
            call.name = (call.name + name)[:LONGEST_CALLED]
        call.add(more)

    def _before(self, index: int | None, number: str) -> _Call | None:
        """Return the call that a fragment may go on with."""
        for call in reversed(self._calls) if number else ():
            if (call.index, call.id) == (index, number):
                return call
        return self._latest.get(index)

    def _begun(self, index: int | None) -> _Call:
        call = _Call(index)
        if len(self._calls) < MOST_CALLS:
            self._calls.append(call)
            self._latest[index] = call
            return call
        call.room = 0  # one too many: nothing of it is kept
        if index in self._latest:
            self._latest[index] = call
        return call

    def written(self) -> list[str]:
        """Return the calls, marked as the window reads calls of models here ("tags")."""
        found = []
        for call in sorted(self._calls, key=lambda call: call.index or 0):
            value = {"name": call.name, "arguments": _read(call.parts)}
            body = json.dumps(value, ensure_ascii=False)
            body = text(body, len(body)).replace("</", "<\\/")  # escapes have become characters
            found.append(f"<tool_call>\n{body}\n</tool_call>")
        return found


def _begins(call: _Call, number: str, name: str, more: str) -> bool:
    """Return True where a fragment of the same index, or of none, is of another call."""
    if not name or not call.name:
        return False
    if number and call.id and number != call.id:
        is_on = call.parts and not call.whole.is_over and name == call.name
        return not (is_on and not more.startswith("{"))
    if name != call.name and (not call.id or number not in ("", call.id)):
        return True
    return call.whole.is_over and bool(more) and not call.says(more)


def _read(parts: list[str]) -> Any:
    """Return arguments as their JSON says; as a text where they are none."""
    written = "".join(parts)
    last = parts[-1] if parts else ""  # some say all once more: fragments before it may lack some
    for whole in (written or "{}", written.removeprefix("{}"), last):  # some fill an empty start
        try:
            value = json.loads(whole)
            if isinstance(value, str):  # some write JSON into a text of JSON
                value = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if whole != last or last == written or isinstance(value, dict):
            # Deeper ones could be read and not written.
            return value if levels_of(value) <= _DEEP else written
    return written  # a text where an object is expected: kept as it is
