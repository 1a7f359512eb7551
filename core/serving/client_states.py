"""`ClientStates` says which slots of the recurrent states clients' answers have.

An answer goes on from one slot and leaves its next state in another. Where it has filled a page,
the state stays with that page, as long as nobody needs the slot: an answer that begins with the
same tokens goes on from there. So does the next turn of a conversation, from the page that the one
before has not filled.
"""

from __future__ import annotations

from collections import OrderedDict


class ClientStates:
    """Each slot first .. first+count-1 is free, of one answer, or of a page, which answers may go
    on from. One belongs to a pool of pages."""

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))
        # Slot by page, the least recently used first.
        self._pages: OrderedDict[int, int] = OrderedDict()
        self._users: dict[int, int] = {}  # by slot of a page: answers that go on from it

    @property
    def available(self) -> int:
        """Return how many slots `allocate` can give."""
        return len(self._free) + sum(slot not in self._users for slot in self._pages.values())

    def of(self, page: int) -> int | None:
        """Return the slot with the state behind what a page holds; None where it is gone."""
        return self._pages.get(page)

    def allocate(self) -> int | None:
        """Return a slot for one answer; None where all are used."""
        if not self._free:
            unused = (page for page, slot in self._pages.items() if slot not in self._users)
            page = next(unused, None)
            if page is None:
                return None
            self.drop(page)
        return self._free.pop()

    def release(self, slot: int) -> None:
        """Give back a slot that one answer had, or leave one that is a page's."""
        if slot not in self._users:
            self._free.append(slot)
            return
        self._users[slot] -= 1
        if not self._users[slot]:
            del self._users[slot]
            if slot not in self._pages.values():
                self._free.append(slot)

    def share(self, page: int) -> int:
        """Return the slot of a page, which one more answer goes on from."""
        slot = self._pages[page]
        self._pages.move_to_end(page)
        self._users[slot] = self._users.get(slot, 0) + 1
        return slot

    def take(self, page: int) -> int:
        """Return the slot of a page that one answer alone goes on to fill."""
        return self._pages.pop(page)

    def keep(self, page: int, slot: int) -> None:
        """Leave an answer's slot to a page, unless it has one with the same state."""
        if page in self._pages:
            self.release(slot)
        else:
            self._pages[page] = slot

    def drop(self, page: int) -> None:
        """Give up the state of a page, if it has one."""
        slot = self._pages.pop(page, None)
        if slot is not None and slot not in self._users:
            self._free.append(slot)
