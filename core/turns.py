"""`Turns` says whose turn it is, where many wait for what only some can have at once.

Clients take turns by their address first and by their name within it: a name is the client's own
word, and one that thinks of many gets no more turns by that. What has no client, the window's own
chat, comes before all.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key")


def address_of(client: str) -> str:
    """Return the address of a client in words of the form "address name"."""
    return client.partition(" ")[0]


class Client(NamedTuple):
    """A client has an address, and a name that it gives itself there."""

    address: str = ""
    name: str = ""

    @classmethod
    def of(cls, words: str) -> Client:
        """Return the client of words of the form "address name"."""
        return cls(*words.partition(" ")[::2])


NOBODY = Client()  # the window's own chat, and whatever else no client asked for
_MOST_REMEMBERED = 4096  # addresses and names whose last turn is known
_thread = threading.local()


@contextmanager
def acting_for(client: Client) -> Iterator[None]:
    """Have this thread act for a client: what it waits for, it waits for in that client's turns."""
    before = client_here()
    _thread.client = client
    try:
        yield
    finally:
        _thread.client = before


def client_here() -> Client:
    """Return the client that this thread acts for; one without an address where there is none."""
    found: Client = getattr(_thread, "client", NOBODY)
    return found


class Turns(Generic[Item]):
    """The turns keep what waits, by client. Of the addresses the one with the fewest turns that are
    not over comes next, of these the one whose last turn was longest ago; so do the names of an
    address, and of one name what waits longest. Not for several threads."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[Item]]] = {}  # by address and name
        self._last: OrderedDict[str | Client, int] = OrderedDict()  # turns, by address and client
        self._turn = 0
        self.running: Counter[Client] = Counter()  # turns that are not over
        self.of_address: Counter[str] = Counter()  # the same

    def __len__(self) -> int:
        return sum(len(line) for names in self._waiting.values() for line in names.values())

    def __iter__(self) -> Iterator[Item]:
        for names in self._waiting.values():
            for line in names.values():
                yield from line

    def add(self, client: Client, item: Item) -> None:
        names = self._waiting.setdefault(client.address, {})
        names.setdefault(client.name, deque()).append(item)

    def next(self, may: Callable[[Client], bool] = lambda client: True) -> Client | None:
        """Return the client whose turn is next among those that `may` have one."""
        for address in sorted(self._waiting, key=self._rank_of_address):
            clients = (Client(address, name) for name in self._waiting[address])
            found = min(filter(may, clients), key=self._rank, default=None)
            if found is not None:
                return found
        return None

    def begin(self, client: Client) -> Item:
        """Begin the client's turn; return what it is for."""
        item = self._waiting[client.address][client.name][0]
        self.drop(client, item)
        self._turn += 1
        for key in (client, client.address):
            self._last[key] = self._turn
            self._last.move_to_end(key)
        while len(self._last) > _MOST_REMEMBERED:
            self._last.popitem(last=False)
        self.running[client] += 1
        self.of_address[client.address] += 1
        return item

    def end(self, client: Client) -> None:
        """End a turn of the client."""
        _count_down(self.running, client)
        _count_down(self.of_address, client.address)

    def drop(self, client: Client, item: Item) -> None:
        """Drop what waits no more."""
        names = self._waiting[client.address]
        names[client.name].remove(item)
        if not names[client.name]:
            del names[client.name]
        if not names:
            del self._waiting[client.address]

    def clear(self) -> None:
        self._waiting.clear()

    def _rank_of_address(self, address: str) -> tuple[bool, int, int]:
        return address != NOBODY.address, self.of_address[address], self._last.get(address, 0)

    def _rank(self, client: Client) -> tuple[int, int]:
        return self.running[client], self._last.get(client, 0)


def _count_down(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


class _Waiter:
    """A thread that waits for a place; equal to no other."""

    has_place = False


class Places:
    """So many threads may be within `taken` at once; others wait for their turn there."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()
        self._turns: Turns[_Waiter] = Turns()

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._turns)

    @contextmanager
    def taken(
        self, client: Client, poll_seconds: float, check: Callable[[], None]
    ) -> Iterator[None]:
        """Have a place, once it is the client's turn. Until then `check` is called every so many
        seconds: what it raises ends the wait."""
        self._wait(client, poll_seconds, check)
        try:
            yield
        finally:
            with self._changed:
                self._leave(client)

    def _wait(self, client: Client, poll_seconds: float, check: Callable[[], None]) -> None:
        waiter = _Waiter()
        with self._changed:
            self._turns.add(client, waiter)
            self._give_places()
            try:
                while not waiter.has_place:
                    self._changed.wait(poll_seconds)
                    if not waiter.has_place:
                        check()
            except BaseException:
                if waiter.has_place:
                    self._leave(client)
                else:
                    self._turns.drop(client, waiter)
                raise

    def _leave(self, client: Client) -> None:
        self._turns.end(client)
        self._free += 1
        self._give_places()

    def _give_places(self) -> None:
        while self._free and (client := self._turns.next()) is not None:
            self._turns.begin(client).has_place = True
            self._free -= 1
            self._changed.notify_all()
