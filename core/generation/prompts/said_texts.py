"""Finds which message of a conversation contains a piece of its prompt."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from llm_lite.core.messages import ChatMessage

_BETWEEN = "\0"  # arguments of calls: JSON has none


class MessageTexts:
    """The messages by their texts. Looking one up costs the same however many they are."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._saying: dict[str, list[int]] = {}  # indices of messages, rising, by their text
        self._callers: list[int] = []  # the message of each call
        calls: list[str] = []
        for index, message in enumerate(messages):
            texts = {message.content.strip()}
            if message.role == "tool":  # which may be written as a JSON text
                texts.add(json.dumps(message.content, ensure_ascii=False)[1:-1].strip())
            for text in texts:
                self._saying.setdefault(text, []).append(index)
            calls += [call.arguments for call in message.calls]
            self._callers += [index] * len(message.calls)
        self._calls = _BETWEEN.join(calls)
        # Where in it the arguments of each call begin.
        self._begins = [0, *accumulate(len(text) + len(_BETWEEN) for text in calls)][:-1]

    def owner(self, text: str, first: int) -> int:
        """Return the first message from `first` on that contains a text, or else one from that
        before it on that calls a function with it; -1 if none does."""
        saying = self._saying.get(text.strip(), [])
        place = bisect_left(saying, first)
        if place < len(saying):
            return saying[place]
        call = bisect_left(self._callers, first - 1)
        if call == len(self._callers) or _BETWEEN in text:
            return -1
        found = self._calls.find(text, self._begins[call])
        return -1 if found < 0 else self._callers[bisect_right(self._begins, found) - 1]
