"""`PagedTokens` are the tokens of one sequence, with the pages of the cache that hold the first
of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llm_lite.core.messages.interventions import UNCHANGED, LiveChanges
from llm_lite.core.plan.step import NO_STATE, PAGE, Segment, pages_for
from llm_lite.core.serving.client_states import ClientStates
from llm_lite.core.serving.pages import (
    Name,
    PagePool,
    Ticket,
    first_name,
    name_of,
)


class PagedTokens:
    """`tokens` grow; the cache holds the first `computed` of them, in `pages`. Tokens of the
    prompt are computed in chunks, each by itself, the second time too: so the
    cache holds the same to the last bit, whatever else is in the steps. All are computed with the
    same interventions, `changes`."""

    def __init__(
        self, tokens: list[int], most_pages: int, changes: LiveChanges = UNCHANGED
    ) -> None:
        self.tokens = tokens
        self.changes = changes
        self.slot = 0  # of a step, that has the gains and shifts
        self.prompt = len(self.tokens)
        self.computed = 0
        self.pages: list[int] = []
        self._table = np.zeros(most_pages, np.int32)  # the same pages
        self._filled = 0  # pages that are full, and known to the pool
        # Of these pages, those that the sequence uses in caches with a window.
        self._seen = self._placed = 0  # the first, and the one behind the last
        self._adopted = 0  # pages that others had filled
        # Slots of recurrent states: behind what is computed, and of the next step.
        self.state = self._next = NO_STATE
        self._names: list[Name] = []  # of full pages, as far as anybody asked

    @property
    def missing(self) -> int:
        """Return how many tokens the cache does not hold yet."""
        return len(self.tokens) - self.computed

    @property
    def is_reading(self) -> bool:
        """Return whether tokens of the prompt come next."""
        return self.computed < self.prompt

    def next_count(self) -> int:
        """Return the size of the prompt's next chunk, which ends where a page or the prompt
        does."""
        return min(self.prompt - self.computed, PAGE - self.computed % PAGE)

    def next_repeated(self) -> int:
        """Return how many tokens of an answer may be computed again in one step, which ends where a
        page does: recurrent states stay with whole pages."""
        return min(self.missing, PAGE - self.computed % PAGE)

    def next_name(self) -> Name | None:
        """Return the name of the page that the next step fills; None where it fills none, or the
        last token, whose logits are wanted, is in it."""
        if self.computed % PAGE or self.missing <= PAGE:
            return None
        return self._name(self.computed // PAGE)

    def adopt(self, pool: PagePool) -> int:
        """Use the pages that others have filled with the tokens that come next, and the last page
        of an ended one that holds no others; return how many positions that brings."""
        before, first = self.computed, self.computed // PAGE
        pages, end = self._adoptable(pool)
        if not pages:
            return 0
        seen = pool.windows.first_seen(end) if pool.windows else 0
        for index, page in enumerate(pages, first):
            self._use(index, page, pool, is_seen=index >= seen)
        self._leave(min(seen, first), pool)
        self._seen = max(self._seen, seen)
        self._adopted = first + len(pages)
        self._placed = max(self._placed, self._adopted)
        self.computed, self._filled = end, end // PAGE
        if pool.states is not None:
            self._release_state(pool.states)
            is_part = end % PAGE > 0
            self.state = (pool.states.take if is_part else pool.states.share)(pages[-1])
        return end - before

    def needs(self, pool: PagePool, positions: int) -> int:
        """Return how many pages must be available to hold so many positions, with what `adopt`
        will find."""
        pages, _ = self._adoptable(pool)
        in_use = sum(not pool.is_kept(page) for page in pages)
        return pages_for(positions) - len(self.pages) - in_use

    def unread(self, pool: PagePool) -> int:
        """Return how many tokens are left to compute behind what `adopt` will find."""
        return len(self.tokens) - self._adoptable(pool)[1]

    def extend(self, pool: PagePool, positions: int) -> bool:
        """Allocate pages for so many positions, place those that the next tokens see in caches with
        a window, and get a slot for the next recurrent state; return False where the pool has none
        left."""
        if not self.reserve(pool, positions):
            return False
        while pool.windows is not None and self._placed < pages_for(positions):
            if not pool.windows.take(self.pages[self._placed]):
                return False
            self._placed += 1
        if pool.states is not None and self._next == NO_STATE:
            slot = pool.states.allocate()
            if slot is None:
                return False
            self._next = slot
        return True

    def reserve(self, pool: PagePool, positions: int) -> bool:
        """Allocate pages for so many positions, which `extend` is to place; return False where the
        pool has none left."""
        while len(self.pages) < pages_for(positions):
            page = pool.allocate()
            if page is None:
                return False
            self._append(page)
        return True

    def segment(self, count: int, outputs: int, after: int = 0) -> Segment:
        """Return the tokens that come next, or `after` so many of them, as a part of a step."""
        table, start = self._table[: len(self.pages)], self.computed + after
        states = (self._next if after else self.state, max(self._next, 0))
        return Segment(start, count, outputs, table, self.slot, states)

    def segments(self, count: int, outputs: int) -> list[Segment]:
        """Return the next tokens as segments: those of the prompt as one, those of the answer
        one by one."""
        if self.is_reading:
            return [self.segment(count, outputs)]
        last = count - 1
        return [self.segment(1, outputs if i == last else 0, i) for i in range(count)]

    def drafted_segments(self, count: int, drafted: int) -> list[Segment]:
        """Return a segment for each drafted token behind the next `count`."""
        return [self.segment(1, 1, count + i) for i in range(drafted)]

    def next_tokens(self, count: int) -> list[int]:
        return self.tokens[self.computed : self.computed + count]

    def advance(self, pool: PagePool, count: int) -> None:
        """Note that a step has computed so many tokens; pages that are full now may be shared."""
        self.compute(pool, count)
        while (self._filled + 1) * PAGE <= self.computed:
            pool.fill(self.pages[self._filled], self._name(self._filled))
            self._filled += 1
        last = self.computed // PAGE - 1
        if pool.states is not None and self.computed % PAGE == 0:
            page = self.pages[last]
            if pool.find(self._name(last)) == page:  # else nobody would look for it there
                pool.states.keep(page, self.state)
                self.state = pool.states.share(page)

    def compute(self, pool: PagePool, count: int) -> None:
        """Note that a step has computed so many tokens, in pages that nobody else may use."""
        self.computed += count
        if pool.windows is not None:
            self._leave(pool.windows.first_seen(self.computed), pool)
        if pool.states is not None:
            self._release_state(pool.states)
            self.state, self._next = self._next, NO_STATE

    def free_pages(self, pool: PagePool, *, keep: bool) -> None:
        """Release the pages. With `keep`, the last one too, which is not full, stays as it is
        until its room is needed or another sequence goes on with it. The end of a sequence is given
        up before its beginning."""
        last, count = divmod(self.computed, PAGE)
        if keep and count:
            part = self.tokens[last * PAGE : self.computed]
            pool.note_part(self.pages[last], self._name_before(last), part)
        if pool.states is not None:
            if keep and count:
                pool.states.keep(self.pages[last], self.state)
                self.state = NO_STATE
            self._release_state(pool.states)
            if self._next != NO_STATE:
                pool.states.release(self._next)
        self._adopted = self._placed
        self._leave(self._placed, pool)
        for page in reversed(self.pages):
            pool.release(page, keep=keep)
        self.drop_pages()

    def drop_pages(self) -> None:
        """Forget the pages, which are gone with their pool; all tokens are computed again."""
        self.pages, self._filled, self.computed = [], 0, 0
        self._seen = self._placed = self._adopted = 0
        self.state = self._next = NO_STATE

    def tickets(self, pool: PagePool) -> tuple[Ticket, ...]:
        """Return tickets of the pages in use, to know later whether they are still what they are
        now."""
        return tuple(map(pool.ticket, self.pages))

    def _name(self, index: int) -> Name:
        """Return the name of a page that the tokens fill."""
        while len(self._names) <= index:
            first = len(self._names) * PAGE
            before = self._names[-1] if self._names else first_name(self.changes)
            self._names.append(name_of(before, self.tokens[first : first + PAGE]))
        return self._names[index]

    def _name_before(self, index: int) -> Name:
        """Return the name of what lies before a page."""
        return self._name(index - 1) if index else first_name(self.changes)

    def _adoptable(self, pool: PagePool) -> tuple[list[int], int]:
        """Return pages that hold the next tokens, and the position behind these: as many as end
        where all that the tokens behind them see is in every cache."""
        pages, end = list[int](), self.computed
        if end % PAGE:
            return pages, end
        while len(self.tokens) - end > PAGE:  # the last token's logits are wanted
            page = pool.find(self._name(end // PAGE))
            if page is None:
                break
            pages.append(page)
            end += PAGE
        coming = self.tokens[end : min(end + PAGE, len(self.tokens) - 1)]
        part = pool.find_part(self._name_before(end // PAGE), coming)
        if part is not None:
            page, count = part
            if self._can_follow([*pages, page], end + count, pool):
                return [*pages, page], end + count
        while pages and not self._can_follow(pages, end, pool):
            pages.pop()
            end -= PAGE
        return pages, end

    def _can_follow(self, pages: Sequence[int], end: int, pool: PagePool) -> bool:
        """Return whether a token at position `end`, behind these pages, finds all of them that it
        sees in caches with a window, and the recurrent state."""
        if pool.states is not None and pool.states.of(pages[-1]) is None:
            return False
        if pool.windows is None:
            return True
        unseen = max(0, pool.windows.first_seen(end) - self.computed // PAGE)
        return all(map(pool.windows.has, pages[unseen:]))

    def _release_state(self, states: ClientStates) -> None:
        if self.state != NO_STATE:
            states.release(self.state)
            self.state = NO_STATE

    def _leave(self, first: int, pool: PagePool) -> None:
        """Stop to use the pages before `first` in caches with a window. Where others filled them
        they may be asked for once more, else an end is more likely to be."""
        while pool.windows is not None and self._seen < first:
            pool.windows.leave(self.pages[self._seen], first=self._seen >= self._adopted)
            self._seen += 1

    def _use(self, index: int, page: int, pool: PagePool, *, is_seen: bool) -> None:
        """Use a page that holds the next tokens, rather than one of its own to compute the same."""
        pool.take(page)
        if pool.windows is not None:
            if is_seen:
                pool.windows.take(page)
            if index < self._placed:
                pool.windows.leave(self.pages[index], first=True)
        if index < len(self.pages):
            pool.release(self.pages[index], keep=False)
            self.pages[index] = self._table[index] = page
        else:
            self._append(page)

    def _append(self, page: int) -> None:
        self._table[len(self.pages)] = page
        self.pages.append(page)
