"""`Scheduler` decides which answers run, and which of their tokens go into the next step.

Every running answer is in every step with its next token. Prompts are read in chunks beside them,
at most CHUNK tokens a step, those first whose turn was longest ago; so a short prompt waits for one
chunk of a long one. `places` says who has a place, and who gives one up.

Where no page is left, the youngest answer releases all of its pages and waits until they are there
again; its tokens stay, and are computed again. The oldest one always gets on, so nobody waits for
ever. Embeddings have the pages that no answer needs. One that waits for pages sees at most as many
answers begin as may run at once; then no other begins before it.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from llm_lite.core.errors import BusyError
from llm_lite.core.plan.step import PAGE
from llm_lite.core.serving.answer import ServedAnswer
from llm_lite.core.serving.embedding import Embedding
from llm_lite.core.serving.pages import Name, PagePool
from llm_lite.core.serving.places import PlaceTurns
from llm_lite.core.turns import address_of

CHUNK = PAGE  # tokens of prompts in a step
_LONGEST_WAIT = 60.0  # seconds: when to ask again, at most


class StepPart(Struct, frozen=True):
    """The next tokens of an answer, of its prompt or of its text. The step gives the
    logits of the last one if `outputs` is 1, and of each token drafted behind it."""

    answer: ServedAnswer
    count: int
    outputs: int
    drafted: tuple[int, ...] = ()


class Scheduler:
    """Any thread may call `add`, `cancel`, `answers` and `count_waiting`, only the engine's
    thread the rest."""

    def __init__(self, parallel: int, most_waiting: int) -> None:
        self.parallel, self.most_waiting = parallel, most_waiting
        self.refused = 0
        self.running: list[ServedAnswer] = []  # the oldest first
        self._lock = threading.Lock()  # of all that waits, and of `running` while it changes
        self._waiting: dict[str, deque[ServedAnswer]] = {}  # by client
        self._returned: list[ServedAnswer] = []  # that ran and gave their pages back; oldest first
        self._turns = PlaceTurns()
        self._seconds = 0.0  # that an answer took, of late
        self._embedding: Embedding | None = None  # of this step
        self._held_from = parallel  # the turn from which none begins while it waits

    # For any thread.

    def add(self, answer: ServedAnswer) -> None:
        """Queue an answer; raise BusyError where as many wait as may."""
        with self._lock:
            self._refuse_if_full(answer.client)
            answer.placed_at = self._turns.step  # it waits from here on
            self._waiting.setdefault(answer.client, deque()).append(answer)

    def check_room(self, client: str) -> None:
        """Raise BusyError as `add` would, before work is done for a request."""
        with self._lock:
            self._refuse_if_full(client)

    def cancel(self, number: int) -> bool:
        """End an answer before the next step; return whether there is such an answer."""
        with self._lock:
            found = next((a for a in self._all() if a.number == number), None)
            if found is not None:
                found.is_cancelled = True
        return found is not None

    def answers(self) -> list[tuple[ServedAnswer, bool]]:
        """Return all answers, each with whether it waits."""
        with self._lock:
            return [(answer, not answer.is_running) for answer in self._all()]

    def is_empty(self) -> bool:
        with self._lock:
            return next(self._all(), None) is None

    # For the engine's thread.

    def parts(
        self, pool: PagePool, places: int, embedding: Embedding | None = None
    ) -> list[StepPart]:
        """Return what goes into the next step, of at most so many segments; every answer has the
        pages for it, `embedding` has others or waits."""
        self._turns.step += 1
        self._embedding = embedding
        if not self._must_wait_for_embedding():
            self._admit(pool)
        parts = [
            StepPart(answer, 1, 1)
            for answer in list(self.running)
            if not answer.paged.is_reading and answer.paged.missing == 1
            if self._has_room(answer, 1, pool)
        ]
        parts += self._chunks(pool)
        parts += self._repeated(places - len(parts), pool)
        return [part for part in parts if part.answer.is_running]

    def note_run(self, parts: Sequence[StepPart]) -> None:
        """Note that these parts are in the step: whose prompt went on waits for its next turn."""
        for part in parts:
            part.answer.last_chunk = self._turns.step
            self._turns.note_tokens(part.answer.client, part.count)
        self._turns.end_step()

    def over(self) -> list[ServedAnswer]:
        """Remove and return answers that have ended or are cancelled."""
        with self._lock:
            ended = [a for a in self._all() if a.is_cancelled or a.is_over]
            for answer in ended:
                self._remove(answer)
        for answer in ended:
            answer.end("stopped")
            if answer.new_tokens:
                share = 0.2 if self._seconds else 1.0
                self._seconds += share * (answer.writer.seconds - self._seconds)
        return ended

    def end_all(self, problem: str) -> None:
        """End every answer with this sentence."""
        with self._lock:
            for answer in self._all():
                answer.end("error", problem)

    def return_all(self) -> None:
        """Let every running answer begin again with the tokens that it has, on another executor.
        Its pages are gone."""
        for answer in list(self.running):
            self._return(answer)

    def fit(self, context: int) -> None:
        """Limit answers to so many tokens from now on."""
        with self._lock:
            for answer in self._all():
                answer.fit(context)

    def return_youngest(self, pool: PagePool) -> bool:
        """Let the youngest answer release its pages and wait; return False where none runs."""
        if not self.running:
            return False
        youngest = self.running[-1]
        self._return(youngest)
        youngest.paged.free_pages(pool, keep=False)
        return True

    def busy(self) -> list[ServedAnswer]:
        """Return the answers that wait for a place, and for their grammar before that."""
        return [answer for answer in self._returned if answer.is_busy]

    def _all(self) -> Iterator[ServedAnswer]:
        yield from self.running
        yield from self._returned
        for line in self._waiting.values():
            yield from line

    def _refuse_if_full(self, client: str) -> None:
        """Raise BusyError where as many wait as may. An address with few that wait has some places
        more: nobody fills the line for others."""
        waiting = sum(map(len, self._waiting.values())) + len(self._returned)
        free = max(0, self.parallel - len(self.running) - len(self._returned))
        address = address_of(client)
        of_address = sum(len(w) for c, w in self._waiting.items() if address_of(c) == address)
        more = self.most_waiting // 4 if of_address < self.most_waiting // 8 else 0
        if waiting >= self.most_waiting + more + free:
            self.refused += 1
            seconds = min(_LONGEST_WAIT, max(1.0, self._seconds / self.parallel))
            raise BusyError(
                f"{waiting} requests wait already, as many as may: ask again in "
                f"{seconds:.0f} s, or serve with a longer queue",
                seconds,
            )

    def _remove(self, answer: ServedAnswer) -> None:
        for line in (self.running, self._returned, self._waiting.get(answer.client)):
            if line and answer in line:
                line.remove(answer)
        answer.is_running = False
        if not self._waiting.get(answer.client, True):
            del self._waiting[answer.client]
        self._turns.forget(answer.client, (one.client for one in self._all()))

    def _must_wait_for_embedding(self) -> bool:
        """Return whether no answer may begin now, as enough did while an embedding waits for
        pages."""
        one = self._embedding
        if one is None or not one.is_waiting:
            self._held_from = self._turns.turn + self.parallel
        return self._turns.turn >= self._held_from

    def _admit(self, pool: PagePool) -> None:
        """Begin the answers that may run now, as far as there are places and pages for their
        prompts."""
        if (answer := self._with_place_made(pool)) is not None:
            self._begin(answer, pool, is_free=False)
        while len(self.running) < self.parallel:
            next_one = self._turns.next_free(self._candidates(), self.running, pool)
            if next_one is None or not self._fits(next_one, pool):
                return
            self._begin(next_one, pool, is_free=True)

    def _begin(self, answer: ServedAnswer, pool: PagePool, *, is_free: bool) -> None:
        with self._lock:
            self._turns.begin(answer, is_free=is_free)
            if answer in self._returned:
                self._returned.remove(answer)
            else:
                line = self._waiting[answer.client]
                line.remove(answer)
                if not line:
                    del self._waiting[answer.client]
            answer.is_running = True
            insort(self.running, answer, key=lambda a: a.number)
        answer.begin(answer.paged.adopt(pool))

    def _with_place_made(self, pool: PagePool) -> ServedAnswer | None:
        """Return an answer that waits, if another one gave its place up for it."""
        if len(self.running) < self.parallel:
            return None
        waiting = self._candidates()
        resting = {one.client for one in self._returned}
        for answer in self._turns.in_order(waiting, self.running, pool) if waiting else ():
            giver = self._turns.giver(answer, self.running, pool, resting)
            if giver is None:
                continue
            room = pool.available + len(giver.paged.pages)
            if answer.paged.needs(pool, len(answer.paged.tokens) + 1) <= room:
                self._return(giver)
                giver.paged.free_pages(pool, keep=True)
                return answer
        return None

    def _candidates(self) -> list[ServedAnswer]:
        """Return the answers that may have the next place: of a client's requests the first. What
        waits for its grammar needs none."""
        with self._lock:
            returned = [answer for answer in self._returned if not answer.is_busy]
            return [*returned, *(line[0] for line in self._waiting.values())]

    def _fits(self, answer: ServedAnswer, pool: PagePool) -> bool:
        """Return whether there are pages for the answer's tokens so far, and one token more."""
        paged, one = answer.paged, self._embedding
        is_alone = not self.running and (one is None or not one.holds_pages)
        return is_alone or paged.needs(pool, len(paged.tokens) + 1) <= pool.available

    def _chunks(self, pool: PagePool) -> list[StepPart]:
        """Return chunks of prompts: the first one whatever its size, others as far as there is
        room."""
        parts, total, coming = list[StepPart](), 0, set[Name]()
        reading = [a for a in self.running if a.paged.is_reading]
        for answer in sorted(reading, key=lambda a: (a.last_chunk, a.number)):
            paged = answer.paged
            if not answer.is_running:
                continue
            answer.writer.note_reused(paged.adopt(pool))
            if not paged.is_reading:  # it had been answered as far as another's prompt goes
                continue
            count, name = paged.next_count(), paged.next_name()
            if total and total + count > CHUNK:
                continue
            if name is not None and name in coming:  # another fills the same page in this step
                continue
            if not self._has_room(answer, count, pool):
                continue
            if name is not None:
                coming.add(name)
            total += count
            parts.append(StepPart(answer, count, int(count == paged.missing)))
        return parts

    def _repeated(self, room: int, pool: PagePool) -> list[StepPart]:
        """Return tokens of answers that had to release their pages, in at most `room` segments;
        the logits of the last one are wanted."""
        parts = []
        again = [a for a in self.running if not a.paged.is_reading and a.paged.missing > 1]
        for number, answer in enumerate(again):
            count = min(answer.paged.next_repeated(), room - (len(again) - number - 1))
            if count > 0 and self._has_room(answer, count, pool):
                room -= count
                parts.append(StepPart(answer, count, int(count == answer.paged.missing)))
        return parts

    def _has_room(self, answer: ServedAnswer, count: int, pool: PagePool) -> bool:
        """Get pages for an answer's next tokens, if need be those of an embedding, then of
        younger answers; return False where it was the youngest itself, and waits."""
        if not answer.is_running:
            return False
        while not answer.paged.extend(pool, answer.paged.computed + count):
            if self._embedding is not None and self._embedding.release_pages(pool):
                continue
            self.return_youngest(pool)
            if not answer.is_running:
                return False
        return True

    def _return(self, answer: ServedAnswer) -> None:
        with self._lock:
            self.running.remove(answer)
            answer.is_running, answer.placed_at = False, self._turns.step
            answer.restart()
            insort(self._returned, answer, key=lambda a: a.number)
