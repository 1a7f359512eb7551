"""Where an answer ends because of what it says, across the borders of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from llm_lite.core.messages import Thinking
from llm_lite.core.text.thinking import Split

Item = TypeVar("Item")


class StopStrings(Generic[Item]):
    """Takes an answer in items with their texts, and gives those that may be shown.

    An item whose text may be the beginning of a stop string waits until that is decided. Once one
    is `found`, it and what follows is dropped. In thoughts none is looked for: the answer has not
    begun there.
    """

    def __init__(self, strings: Sequence[str], thinking: Thinking | None = None) -> None:
        self._strings = tuple(strings)
        self._split = Split.of(thinking) if strings and thinking is not None else None
        self._held: list[tuple[Item, str]] = []
        self._unseen = 0  # first characters of what is held that are no part of the answer
        self.found = False
        self.dropped = 0  # items

    def feed(self, item: Item, text: str) -> list[tuple[Item, str]]:
        """What may be shown now."""
        if not self._strings:
            return [(item, text)]
        said = len(text) if self._split is None else self._said(self._split, text)
        if said is None:
            return [(item, text)]
        if not self._held:
            self._unseen = len(text) - said
        self._held.append((item, text))
        whole = "".join(text for _, text in self._held)
        places = [whole.find(string, self._unseen) for string in self._strings]
        if any(place >= 0 for place in places):
            self.found = True
            return self._cut(min(place for place in places if place >= 0))
        return self._released(len(whole) - self._begun(whole[self._unseen :]))

    def flush(self) -> list[tuple[Item, str]]:
        """What was held back, as nothing follows."""
        held, self._held = self._held, []
        return held

    def hear(self, text: str) -> None:
        """What was said before, of an answer that is continued."""
        if self._split is not None:
            self._split = self._split.fed(text)

    def _said(self, split: Split, text: str) -> int | None:
        """How many last characters of `text` are of the answer; None: it has not begun."""
        self._split = split.fed(text)
        if self._split.phase != "after":
            return None
        return min(len(text), len(self._split.said) - len(split.said))

    def _begun(self, text: str) -> int:
        """How many last characters of `text` may be the beginning of a stop string."""
        longest = min(len(text), max(map(len, self._strings)) - 1)
        return next(
            (
                size
                for size in range(longest, 0, -1)
                if any(string.startswith(text[-size:]) for string in self._strings)
            ),
            0,
        )

    def _released(self, end: int) -> list[tuple[Item, str]]:
        """The first items, whose texts end before `end`."""
        shown, at = 0, 0
        while shown < len(self._held) and at + len(self._held[shown][1]) <= end:
            at += len(self._held[shown][1])
            shown += 1
        self._unseen = max(0, self._unseen - at)
        released, self._held = self._held[:shown], self._held[shown:]
        return released

    def _cut(self, place: int) -> list[tuple[Item, str]]:
        """What begins before `place`, and the text up to there."""
        kept, start = [], 0
        for item, text in self._held:
            if start < place:
                kept.append((item, text[: place - start]))
            start += len(text)
        self.dropped = len(self._held) - len(kept)
        self._held = []
        return kept
