"""`WindowPlaces` says which pages lie in caches with a window, and where.

A layer with a window reads no position before it. So the caches of such layers have fewer pages
than all that are known: a page lies there from when it is filled until no sequence's window reaches
it, and then until another needs its place.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from llm_lite.core.plan.step import I32, PageShape

NOWHERE = -1


class WindowPlaces:
    """Each of `shape.windowed` places is free, of a page that some sequences' windows reach, or
    left to a page that none does. One belongs to a pool of pages."""

    def __init__(self, shape: PageShape) -> None:
        self.table: I32 = np.full(shape.shared, NOWHERE, np.int32)  # by page, without the chat's
        self.first_seen = shape.first_seen  # page of a sequence, by the position of its next token
        self._first = shape.ringed
        self._free = list(range(shape.windowed - 1, -1, -1))
        self._users = [0] * shape.shared
        self._left: OrderedDict[int, None] = OrderedDict()  # the first is given up first

    @property
    def available(self) -> int:
        """Return how many pages that lie nowhere `take` can place."""
        return len(self._free) + len(self._left)

    def has(self, page: int) -> bool:
        """Return whether caches with a window hold the page."""
        return bool(self.table[page - self._first] != NOWHERE)

    def take(self, page: int) -> bool:
        """Add a user to a page, which gets a place if it has none; return False where none is
        left."""
        index = page - self._first
        if self.table[index] == NOWHERE:
            if not self._free:
                if not self._left:
                    return False
                self._give_up(next(iter(self._left)))
            self.table[index] = self._free.pop()
        self._left.pop(index, None)
        self._users[index] += 1
        return True

    def leave(self, page: int, *, first: bool) -> None:
        """Take a user from a page. Behind the last one its place is given up before those of all
        others that are left, if `first`, or else after them."""
        index = page - self._first
        self._users[index] -= 1
        if not self._users[index]:
            self._left[index] = None
            self._left.move_to_end(index, last=not first)

    def drop(self, page: int) -> None:
        """Give up the place of a page without users, if it has one: its values are of no use."""
        index = page - self._first
        if index in self._left:
            self._give_up(index)

    def _give_up(self, index: int) -> None:
        del self._left[index]
        self._free.append(int(self.table[index]))
        self.table[index] = NOWHERE
