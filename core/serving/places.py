"""`PlaceTurns` says which answer has the next place in the steps, and which one gives its place up.

Addresses take turns first, then their clients, then what is little comes first: few tokens that are
left to read, of a client that had few of late, which counts the less the longer it waits. So that
nobody waits for ever, every second place that becomes free is the oldest answer's, once it has
waited for long.

Where all places are taken, an address or client that has two more than the next one gives one up.
Else places change hands in turns, wherever the taker has no more of them than the giver had: a
short prompt whose answer has said nothing yet has one soon, so that it begins beside any number of
long answers, unless another answer of its client rests: who asks again and again has no more for
that; others have one after a longer turn, of an answer that is being written, as long as
the cache and their grammar still have all that they had. The answer whose client had the most gives
its place up, and goes on later. It has to have computed more than ever before, so that all get on
though others take their pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.turns import address_of

# Steps and tokens that an answer has of a turn: before one that has said nothing yet, and before
# others.
SOME_STEPS, MANY_STEPS = 4, 32
# Tokens that still are few, and that are many, of what is left to read and of what a client had;
# the steps after which half of that is forgotten; and the steps that are a long wait.
_LITTLE, _MUCH, _STEPS_REMEMBERED, _LONG_WAIT = 256, 1024, 512, 128


class PlaceTurns:
    """Not for several threads. `step` counts the steps."""

    def __init__(self) -> None:
        self.step = 0
        self.turn = 0  # counts the answers that began, or went on
        self._turns: dict[str, int] = {}  # of clients and addresses: when it was last their turn
        self._used: Counter[str] = Counter()  # tokens read and written of late, by client
        self._free_places = 0  # that were given

    def note_tokens(self, client: str, count: int) -> None:
        self._used[client] += count

    def end_step(self) -> None:
        """Forget half of what clients had, every now and then."""
        if self.step % _STEPS_REMEMBERED == 0:
            halves = {client: tokens // 2 for client, tokens in self._used.items()}
            self._used = Counter({client: half for client, half in halves.items() if half})

    def begin(self, answer: ServedAnswer, *, is_free: bool) -> None:
        """Note that an answer has a place from now on: a free one, or one that was given up."""
        self.turn += 1
        self._free_places += is_free
        for whose in (answer.client, address_of(answer.client)):
            self._turns[whose] = self.turn
        answer.placed_at = self.step

    def forget(self, client: str, others: Iterable[str]) -> None:
        """Forget the turns of a client, and of its address, if none of the others is or has it."""
        clients = set(others)
        addresses = set(map(address_of, clients))
        if client not in clients:
            self._turns.pop(client, None)
        if address_of(client) not in addresses:
            self._turns.pop(address_of(client), None)

    def in_order(
        self, waiting: Sequence[ServedAnswer], running: Sequence[ServedAnswer], pool: PagePool
    ) -> list[ServedAnswer]:
        """Return what waits, the next one first."""
        clients, addresses = _counts(running)

        def rank(answer: ServedAnswer) -> tuple[int, ...]:
            client, address = answer.client, address_of(answer.client)
            return (
                addresses[address],
                self._turns.get(address, 0),
                clients[client],
                max(0, self._usage_of(client) - self._steps_of(answer) // SOME_STEPS)
                + min(self._unread(answer, pool), _MUCH) // _LITTLE,
                self._turns.get(client, 0),
                answer.number,
            )

        return sorted(waiting, key=rank)

    def next_free(
        self, waiting: Sequence[ServedAnswer], running: Sequence[ServedAnswer], pool: PagePool
    ) -> ServedAnswer | None:
        """Return what has the next free place; None where nothing waits."""
        if not waiting:
            return None
        addresses = _counts(running)[1]
        oldest = min(waiting, key=lambda a: (addresses[address_of(a.client)], a.number))
        if self._free_places % 2 and self._steps_of(oldest) >= _LONG_WAIT:
            return oldest
        return self.in_order(waiting, running, pool)[0]

    def giver(
        self,
        taker: ServedAnswer,
        running: Sequence[ServedAnswer],
        pool: PagePool,
        resting: Collection[str] = (),
    ) -> ServedAnswer | None:
        """Return the answer that gives its place up for this one, None where there is none.
        `resting`: the clients of answers that gave theirs up and wait."""
        clients, addresses = _counts(running)
        address = address_of(taker.client)
        for whose, counts in ((address_of, addresses), (str, clients)):
            enough = counts[whose(taker.client)] + 2
            rich = [
                one
                for one in running
                if counts[whose(one.client)] >= enough
                if whose is address_of or address_of(one.client) == address
                if one.paged.missing == 1 or self._steps_of(one) >= SOME_STEPS
            ]
            if rich:  # the youngest
                return max(rich, key=lambda one: (counts[whose(one.client)], one.number))
        richer = [
            one
            for one in running
            if (
                clients[one.client] > clients[taker.client]
                if address_of(one.client) == address
                else addresses[address_of(one.client)] > addresses[address]
            )
        ]
        is_new = not taker.new_tokens and taker.client not in resting
        if is_new and self._unread(taker, pool) <= _LITTLE:
            givers = [one for one in richer if self._had_turn(one, SOME_STEPS)]
        else:
            givers = self._givers_in_turn(taker, richer, pool)
        return max(
            givers, key=lambda a: (self._usage_of(a.client), self._steps_of(a)), default=None
        )

    def _givers_in_turn(
        self, taker: ServedAnswer, richer: Sequence[ServedAnswer], pool: PagePool
    ) -> list[ServedAnswer]:
        usage = self._usage_of(taker.client)
        givers = [
            one
            for one in richer
            if not one.paged.is_reading
            if self._had_turn(one, MANY_STEPS) and self._usage_of(one.client) >= usage
        ]
        if not givers or not taker.reached:
            return givers
        cached = len(taker.paged.tokens) - taker.paged.unread(pool)
        return givers if taker.is_kept and taker.reached - 1 <= cached else []

    def _had_turn(self, answer: ServedAnswer, steps: int) -> bool:
        """Return whether an answer has had its place for so many steps, and has computed as many
        tokens more than it ever had."""
        is_on = answer.paged.computed >= answer.reached + steps
        return is_on and self._steps_of(answer) >= steps

    def _usage_of(self, client: str) -> int:
        return min(self._used[client], _MUCH) // _LITTLE

    def _unread(self, answer: ServedAnswer, pool: PagePool) -> int:
        """Return how many tokens an answer that waits has to read, as it was when first asked."""
        if answer.unread is None:
            answer.unread = answer.paged.unread(pool)
        return answer.unread

    def _steps_of(self, answer: ServedAnswer) -> int:
        """Return for how many steps an answer has had its place, or has waited for one."""
        return self.step - answer.placed_at


def _counts(running: Sequence[ServedAnswer]) -> tuple[Counter[str], Counter[str]]:
    """Return the places of clients and of addresses."""
    return (
        Counter(one.client for one in running),
        Counter(address_of(one.client) for one in running),
    )
