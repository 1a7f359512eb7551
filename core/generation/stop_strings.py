"""Ends an answer at stop strings and invented roles, across the borders of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from llm_lite.core.generation.role_ends import RoleEnds
from llm_lite.core.messages import Thinking
from llm_lite.core.text.thinking import Split

Item = TypeVar("Item")
_FENCE = "```"
_QUOTES = tuple("`\"'“‘«「『")


class _Quotes:
    """Follows a text to say whether what comes next is quoted: in a block of code, or in a line
    directly behind a quotation mark."""

    def __init__(self) -> None:
        self._in_code = False
        self._tail = ""  # may become a fence with what follows

    def feed(self, text: str) -> None:
        whole = self._tail + text
        if whole.count(_FENCE) % 2:
            self._in_code = not self._in_code
        self._tail = whole.rpartition(_FENCE)[2][-2:]

    def quote(self, text: str, *, begins_line: bool) -> bool:
        """Return True if what stands behind `text`, which comes next, is quoted."""
        whole = self._tail + text
        in_code = self._in_code != bool(whole.count(_FENCE) % 2)
        return in_code or (not begins_line and whole[-1:] in _QUOTES)


class StopStrings(Generic[Item]):
    """Takes an answer in items with their texts, and returns those that may be shown.

    An item whose text may be the beginning of a stop string waits until that is decided. Once one
    is found, it and what follows is dropped. In thoughts none is looked for: the answer has not
    begun there. The texts of `roles`, with which an answer begins to speak as somebody else, are
    stop strings too.
    """

    def __init__(
        self,
        strings: Sequence[str],
        thinking: Thinking | None = None,
        roles: RoleEnds | None = None,
    ) -> None:
        self._requested = tuple(strings)
        self._strings = (*self._requested, *(roles.texts if roles else ()))
        self._split = Split.of(thinking) if self._strings and thinking is not None else None
        self._pending: list[tuple[Item, str]] = []
        self._hidden_length = 0  # leading characters of the pending text that belong to a thought
        # Texts that end the answer where it begins with them: of a line, without its beginning.
        begins = roles is not None and roles.begins_line
        self._first = tuple(s[1:] for s in self._strings if s[:1] == "\n" and begins)
        self._quotes = _Quotes() if roles is not None and roles.may_be_quoted else None
        self.reason: Literal["stop string", "role"] | None = None  # once one is found
        self.dropped = 0  # items

    @property
    def found(self) -> bool:
        return self.reason is not None

    def feed(self, item: Item, text: str) -> list[tuple[Item, str]]:
        """Feed a token's text and return what may be shown now."""
        if not self._strings:
            return [(item, text)]
        visible = len(text) if self._split is None else self._visible_length(self._split, text)
        if visible is None:
            return [(item, text)]
        if not self._pending:
            self._hidden_length = len(text) - visible
        self._pending.append((item, text))
        whole = "".join(text for _, text in self._pending)
        if self._first and self._begins_as_role(whole):
            return []
        places = [(self._find(whole, s), s not in self._requested) for s in self._strings]
        found = min((place for place in places if place[0] >= 0), default=None)
        if found is not None:
            self.reason = "role" if found[1] else "stop string"
            return self._cut(found[0])
        return self._release(len(whole) - self._partial_length(whole[self._hidden_length :]))

    def end_at_role(self, tokens: int = 1) -> list[tuple[Item, str]]:
        """End the answer at tokens that begin a role, which are not shown; return what was held
        back. Where it has ended before, they are dropped too."""
        if self.reason is not None:
            self.dropped += tokens
            return []
        shown = self.flush()
        self.reason, self.dropped = "role", tokens
        return shown

    def flush(self) -> list[tuple[Item, str]]:
        """Return what was held back, as nothing follows."""
        pending, self._pending = self._pending, []
        return pending

    def feed_previous(self, text: str) -> None:
        """Feed the existing text of an answer that is continued."""
        self._first = ()
        if self._quotes is not None:
            self._quotes.feed(text)
        if self._split is not None:
            self._split = self._split.fed(text)

    def _find(self, whole: str, string: str) -> int:
        """Return where a string stands in the pending text, not quoted; -1 if nowhere."""
        at = whole.find(string, self._hidden_length)
        if self._quotes is None or string in self._requested:
            return at
        begins_line = string.startswith("\n")
        while at >= 0 and self._quotes.quote(whole[:at], begins_line=begins_line):
            at = whole.find(string, at + 1)
        return at

    def _begins_as_role(self, whole: str) -> bool:
        """Return True while all text so far is the beginning of a role, and end the answer once it
        is one."""
        if any(whole.startswith(text) for text in self._first):
            self.reason = "role"
            self._cut(0)
            return True
        if any(text.startswith(whole) for text in self._first):
            return True
        self._first = ()
        return False

    def _visible_length(self, split: Split, text: str) -> int | None:
        """Return how many last characters of `text` are of the answer; None: it has not begun."""
        self._split = split.fed(text)
        if self._split.phase != "after":
            return None
        return min(len(text), len(self._split.visible_text) - len(split.visible_text))

    def _partial_length(self, text: str) -> int:
        """Return how many trailing characters of `text` may be the beginning of a stop string."""
        longest = min(len(text), max(map(len, self._strings)) - 1)
        return next(
            (
                size
                for size in range(longest, 0, -1)
                if any(string.startswith(text[-size:]) for string in self._strings)
            ),
            0,
        )

    def _release(self, end: int) -> list[tuple[Item, str]]:
        """Release the first items, whose texts end before `end`."""
        shown, at = 0, 0
        while shown < len(self._pending) and at + len(self._pending[shown][1]) <= end:
            at += len(self._pending[shown][1])
            shown += 1
        self._hidden_length = max(0, self._hidden_length - at)
        released, self._pending = self._pending[:shown], self._pending[shown:]
        if self._quotes is not None:
            self._quotes.feed("".join(text for _, text in released))
        return released

    def _cut(self, place: int) -> list[tuple[Item, str]]:
        """Return the items that begin before `place`, with their texts up to there, and drop the
        others."""
        shown, start = [], 0
        for item, text in self._pending:
            if start < place:
                shown.append((item, text[: place - start]))
            start += len(text)
        self.dropped = len(self._pending) - len(shown)
        self._pending = []
        return shown
