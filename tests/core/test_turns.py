"""Who comes next, by counting: addresses take turns first, and names within them."""

import random
import threading
from collections import Counter

import pytest

from llm_lite.core.turns import NOBODY, Client, Places, Turns, acting_for, client_here
from tests.children import PATIENCE


def order(turns, *, end=True):
    found = []
    while (client := turns.next()) is not None:
        found.append(turns.begin(client))
        if end:
            turns.end(client)
    return found


def test_one_who_thinks_of_many_names_has_no_more_turns_than_one():
    turns = Turns()
    for number in range(32):
        turns.add(Client("10.0.0.1", f"name {number}"), f"worst {number}")
    for number in range(3):
        turns.add(Client("10.0.0.2", "editor"), f"small {number}")
    assert order(turns)[:6] == ["worst 0", "small 0", "worst 1", "small 1", "worst 2", "small 2"]


def test_within_an_address_names_take_turns():
    turns = Turns()
    for name, count in (("a", 3), ("b", 1), ("a", 1), ("c", 1)):
        for number in range(count):
            turns.add(Client("here", name), (name, number))
    assert order(turns) == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("a", 2), ("a", 0)]


def test_whoever_has_the_fewest_turns_that_are_not_over_is_next():
    turns = Turns()
    for client in ("a", "a", "a", "b"):
        turns.add(Client(client), client)
    assert [turns.begin(turns.next()) for _ in range(3)] == ["a", "b", "a"]
    turns.add(Client("b"), "b")
    assert turns.next() == Client("b")
    turns.end(Client("a"))
    turns.end(Client("a"))
    assert turns.next() == Client("a")
    assert turns.next(lambda client: client.address != "a") == Client("b")


def test_what_no_client_asked_for_comes_before_all():
    turns = Turns()
    turns.add(Client("a"), "a")
    turns.begin(Client("a"))
    for item in (Client("a"), Client("b"), NOBODY, NOBODY):
        turns.add(item, item.address)
    assert order(turns, end=False) == ["", "", "b", "a"]


def test_what_waits_no_more_is_dropped_and_nothing_is_remembered():
    turns = Turns()
    turns.add(Client("a", "x"), 1)
    turns.add(Client("a", "x"), 2)
    turns.drop(Client("a", "x"), 1)
    assert list(turns) == [2] and len(turns) == 1
    assert order(turns) == [2]
    assert not turns.running and not turns.of_address and turns.next() is None


@pytest.mark.parametrize("seed", range(20))
def test_whoever_waits_sees_no_other_address_twice(seed):
    """Of however many names and requests: 200 turns at random, with some that give up."""
    choose, turns, seen = random.Random(seed), Turns(), {}
    waiting = Counter()
    for number in range(200):
        for _ in range(choose.choice((0, 1, 3))):
            address = choose.choice(("worst", "worst", "worst", "small", "other"))
            client = Client(address, str(choose.randrange(99) if address == "worst" else 0))
            turns.add(client, (number, client))
            waiting[address] += 1
            seen.setdefault(address, Counter())
        found = turns.next()
        assert (found is None) == (not len(turns))
        if found is None:
            continue
        turns.begin(found)
        turns.end(found)
        waiting[found.address] -= 1
        seen.pop(found.address)
        if waiting[found.address]:
            seen[found.address] = Counter()
        for counts in seen.values():
            counts[found.address] += 1
            assert max(counts.values()) <= 2 and len(counts) <= 3
    assert sum(waiting.values()) == len(turns)


class Waiting:
    """Threads that wait for a place, each noted as it comes in."""

    def __init__(self, places):
        self.places, self.came, self.threads = places, [], []

    def add(self, client, check=lambda: None):
        known = self.places.waiting
        thread = threading.Thread(target=self._wait, args=(client, check))
        thread.start()
        self.threads.append(thread)
        while thread.is_alive() and self.places.waiting == known:
            pass

    def join(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _wait(self, client, check):
        try:
            with self.places.taken(client, 0.01, check):
                self.came.append(client)
        except InterruptedError:
            self.came.append("gave up")


def test_the_window_s_own_chat_is_next_and_addresses_take_turns():
    places, clients = Places(1), [Client("worst", str(n)) for n in range(4)]
    waiting = Waiting(places)
    with places.taken(Client("worst"), 0.01, lambda: None):
        for client in (*clients, Client("small", "editor"), NOBODY):
            waiting.add(client)
        assert waiting.came == []
    waiting.join()
    assert waiting.came == [NOBODY, Client("small", "editor"), *clients]
    assert places.waiting == 0


def test_whoever_gives_up_leaves_the_line_and_its_place():
    def give_up():
        raise InterruptedError

    places = Places(1)
    waiting = Waiting(places)
    with places.taken(Client("a"), 0.01, lambda: None):
        waiting.add(Client("b"), give_up)
        waiting.join()
        assert waiting.came == ["gave up"] and places.waiting == 0
    with pytest.raises(KeyError), places.taken(Client("b"), 0.01, lambda: None):
        raise KeyError
    with places.taken(Client("c"), 0.01, lambda: None):
        pass


def test_as_many_as_there_are_places_are_in_at_once():
    places, inside, most = Places(2), [], []
    go_on = threading.Event()

    def work(number):
        with places.taken(Client(str(number)), 0.01, lambda: None):
            inside.append(number)
            most.append(len(inside))
            assert go_on.wait(PATIENCE)
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    while places.waiting < 3:
        pass
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert max(most) == 2 and len(most) == 5


def test_a_thread_acts_for_its_client():
    assert client_here() == NOBODY
    with acting_for(Client.of("127.0.0.1 Mozilla/5.0 (X11)")):
        assert client_here() == Client("127.0.0.1", "Mozilla/5.0 (X11)")
        with acting_for(Client.of("::1")):
            assert client_here() == Client("::1")
        assert client_here().address == "127.0.0.1"
    assert client_here() == NOBODY
