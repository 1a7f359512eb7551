"""Finds the message that says a text of a prompt."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from llm_lite.core.messages import ChatMessage
from llm_lite.core.tools.json_values import JsonProblem, read_json

_BETWEEN = "\0"  # arguments of calls: JSON has none
_NOBODY = 1 << 62  # no message
_SEARCHES = 4  # of all arguments, for texts that are no whole value


class MessageTexts:
    """The messages by their texts, and by the arguments of the functions that they call. Looking
    all up takes time linear in their length."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._by_content: dict[str, list[int]] = {}  # indices of messages, ascending, by their text
        self._by_call: dict[str, list[int]] = {}  # the same, by a text of their calls
        self._callers: list[int] = []  # the message of each call
        self._speakers: list[int] = []  # messages with a content or with calls
        calls: list[str] = []
        for index, message in enumerate(messages):
            texts = {message.content.strip()}
            if message.role == "tool":  # which may be written as a JSON text
                texts.add(_escaped(message.content).strip())
            _note(self._by_content, texts, index)
            for call in message.calls:
                calls.append(call.arguments)
                _note(self._by_call, set(_written(call.arguments)), index)
            self._callers += [index] * len(message.calls)
            if message.calls or message.content.strip():
                self._speakers.append(index)
        self._calls = _BETWEEN.join(calls)
        # Where in it the arguments of each call begin.
        self._begins = [0, *accumulate(len(text) + len(_BETWEEN) for text in calls)][:-1]
        self._last = 0  # the call that was found last
        self._left = _SEARCHES * len(self._calls)  # characters that may still be searched

    def owner(self, text: str, first: int) -> int:
        """Return the message that says a text, behind what those before `first` have said: the one
        at `first` whose content it is; else the next one whose content it is or that calls a
        function with it, or that calls with arguments that contain it. The one before `first` may
        call with more. -1 if none does, or too much was searched."""
        bare = text.strip()
        own = _next(self._by_content, bare, first)
        if own == first:
            return own
        found = min(own, _next(self._by_call, bare, first - 1))
        if found < _NOBODY:
            return found
        return -1 if _BETWEEN in text else self._caller_with(text, first - 1)

    def _caller_with(self, part: str, first: int) -> int:
        """Return the message at `first`, or the next one that says anything, whose calls' arguments
        contain a text: those behind it say nothing before it does. They are looked through in the
        order in which a prompt has them, from the last found on."""
        call = max(bisect_left(self._callers, first), self._last)
        following = bisect_left(self._speakers, first + 1)
        last = self._speakers[following] if following < len(self._speakers) else first
        behind = bisect_right(self._callers, last)
        if call >= behind or self._left <= 0:
            return -1
        start = self._begins[call]
        stop = self._begins[behind] if behind < len(self._begins) else len(self._calls)
        stop = min(stop, start + self._left)
        found = self._calls.find(part, start, stop)
        self._left -= (stop if found < 0 else found) - start
        if found < 0:
            return -1
        self._last = bisect_right(self._begins, found) - 1
        return self._callers[self._last]


def _next(places: dict[str, list[int]], text: str, first: int) -> int:
    """Return the first message from `first` on; `_NOBODY` where there is none."""
    indices = places.get(text, [])
    place = bisect_left(indices, first)
    return indices[place] if place < len(indices) else _NOBODY


def _note(places: dict[str, list[int]], texts: set[str], index: int) -> None:
    for text in texts:
        indices = places.setdefault(text, [])
        if not indices or indices[-1] != index:
            indices.append(index)


def _written(arguments: str) -> Iterator[str]:
    """Yield the texts as which templates write arguments: all of them, or each in them, as it is,
    in JSON or as Python's `repr` has it."""
    texts = [arguments]
    try:
        value = read_json(arguments, len(arguments))
    except JsonProblem:
        value = None
    if isinstance(value, dict):
        texts += [json.dumps(value, ensure_ascii=False), *_texts_in(value)]
    for text in texts:
        yield text.strip()
        yield _escaped(text).strip()
        yield repr(text)[1:-1].strip()


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the names and texts of a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts_in(item)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
