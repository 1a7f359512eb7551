"""All answers share the pages of one cache; `PagePool` knows who uses which, and which begin alike.

A page holds the keys and values of PAGE positions that follow each other. A full page is known by
the hash of all tokens up to its end and of the interventions, so another answer that begins with
the same tokens under the same ones uses the same page. Pages of ended answers are kept as long as
nobody needs their room; of these the least recently used is given up first. The last one of an
ended answer, which is not full, goes to the first that continues just these tokens: the next turn
of a conversation. Caches with a window may have fewer pages: there a page lies only where
`WindowPlaces` says so. Of a model with recurrent states a page is of use where `ClientStates` has
that behind it. One pool belongs to one model on one executor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from msgspec import Struct

from llm_lite.core.messages.interventions import UNCHANGED, LiveChanges
from llm_lite.core.plan.step import I32
from llm_lite.core.serving.client_states import ClientStates
from llm_lite.core.serving.window_places import WindowPlaces

Name = bytes  # of a full page: the hash of all tokens up to its end


def first_name(changes: LiveChanges) -> Name:
    """Return what comes before the first page of a sequence under these interventions. Other
    conditions are the same for all pages of a pool, which belongs to one model on one executor."""
    if changes == UNCHANGED:
        return b""
    numbers = [gain for row in changes.gains or () for gain in row]
    for layer, vector in changes.shifts:
        numbers += [layer, *vector]
    return blake2b(np.array(numbers, np.float32).tobytes(), digest_size=16).digest()


def name_of(before: Name, tokens: Sequence[int]) -> Name:
    """Return the name of a page with these tokens, behind the page named `before`."""
    return blake2b(before + np.asarray(tokens, np.int32).tobytes(), digest_size=16).digest()


class Ticket(Struct, frozen=True):
    """A ticket stands for a page as it is now; it is no longer valid once the page is allocated
    again."""

    page: int
    turn: int


class PagePool:
    """Each page first .. first+count-1 is free, used by one answer or more, or kept. `windows`
    where caches with a window have fewer pages, else None; `states` of a model with recurrent
    states, else None."""

    def __init__(
        self,
        count: int,
        first: int = 0,
        windows: WindowPlaces | None = None,
        states: ClientStates | None = None,
    ) -> None:
        self.count, end = count, first + count
        self.windows, self.states = windows, states
        self._free = list(range(end - 1, first - 1, -1))  # the last one is given first
        self._users = [0] * end
        self._turns = [0] * end  # how often each was given away
        self._names: list[Name | None] = [None] * end
        self._known: dict[Name, int] = {}
        self._kept: OrderedDict[int, None] = (
            OrderedDict()
        )  # without users, least recently used first
        # Of these, those that are not full: what lies before them, and by that the tokens of each.
        self._before: dict[int, Name] = {}
        self._parts: dict[Name, dict[int, tuple[int, ...]]] = {}

    @property
    def used(self) -> int:
        return self.count - len(self._free) - len(self._kept)

    @property
    def kept(self) -> int:
        return len(self._kept)

    @property
    def available(self) -> int:
        """Return how many pages `allocate` can give."""
        return len(self._free) + len(self._kept)

    @property
    def fillable(self) -> int:
        """Return how many pages can be allocated and filled at once, each by another sequence."""
        kinds = (self, self.windows, self.states)
        return min(one.available for one in kinds if one is not None)

    @property
    def window_table(self) -> I32 | None:
        """Return where pages lie in caches with a window, as steps have it."""
        return self.windows.table if self.windows else None

    def find(self, name: Name) -> int | None:
        """Return the page of this name; None where the pool has none."""
        return self._known.get(name)

    def is_kept(self, page: int) -> bool:
        """Return whether nobody uses the page, so that to `take` it leaves one less available."""
        return page in self._kept

    def find_part(self, before: Name, tokens: Sequence[int]) -> tuple[int, int] | None:
        """Return a page without users that is not full and holds the first of these tokens behind
        the page named `before`, and how many they are; of several the longest, None without one."""
        parts = [
            (len(start), page)
            for page, start in self._parts.get(before, {}).items()
            if page in self._kept and start == tuple(tokens[: len(start)])
        ]
        count, page = max(parts, default=(0, 0))
        return (page, count) if count else None

    def take(self, page: int) -> None:
        """Add a user to the page."""
        self._forget_part(page)
        self._kept.pop(page, None)
        self._users[page] += 1

    def allocate(self) -> int | None:
        """Return an empty page for one user; None where all are used."""
        if self._free:
            page = self._free.pop()
        elif self._kept:
            page, _ = self._kept.popitem(last=False)
            self._forget(page)
        else:
            return None
        self._users[page] = 1
        self._turns[page] += 1
        return page

    def fill(self, page: int, name: Name) -> None:
        """Name a page that is full, unless another has the name: their last bits may differ, as
        prompts are read in larger steps than answers. One that caches with a window no longer
        hold, or whose recurrent state is gone, has it no more."""
        other = self._known.get(name)
        if other is not None:
            if other == page or self._can_be_followed(other):
                return
            self._names[other] = None
            if other in self._kept:
                self._kept.move_to_end(other, last=False)
        self._known[name], self._names[page] = page, name

    def _can_be_followed(self, page: int) -> bool:
        is_placed = self.windows is None or self.windows.has(page)
        return is_placed and (self.states is None or self.states.of(page) is not None)

    def note_part(self, page: int, before: Name, tokens: Sequence[int]) -> None:
        """Note the tokens of a page that is not full, behind the page named `before`, which its
        only user is about to release."""
        if self._users[page] == 1:
            self._before[page] = before
            self._parts.setdefault(before, {})[page] = tuple(tokens)

    def release(self, page: int, *, keep: bool = True) -> None:
        """Take a user from the page. Behind the last one it is kept, if `keep` says so or if it
        has a name."""
        self._users[page] -= 1
        if self._users[page]:
            return
        if keep or self._names[page] is not None:
            self._kept[page] = None
        else:
            self._turns[page] += 1
            self._free.append(page)
            self._drop_place(page)

    def ticket(self, page: int) -> Ticket:
        return Ticket(page, self._turns[page])

    def is_valid(self, ticket: Ticket) -> bool:
        return self._turns[ticket.page] == ticket.turn

    def _forget_part(self, page: int) -> None:
        before = self._before.pop(page, None)
        if before is not None:
            del self._parts[before][page]
            if not self._parts[before]:
                del self._parts[before]

    def _drop_place(self, page: int) -> None:
        if self.windows is not None:
            self.windows.drop(page)
        if self.states is not None:
            self.states.drop(page)

    def _forget(self, page: int) -> None:
        self._forget_part(page)
        self._drop_place(page)
        name = self._names[page]
        if name is not None:
            del self._known[name]
            self._names[page] = None
