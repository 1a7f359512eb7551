"""`PagedTokens` are the tokens of one sequence, with the pages of the cache that hold the first
of them."""

from __future__ import annotations

import numpy as np

from llm_lite.core.messages import Gains
from llm_lite.core.plan.step import PAGE, Segment, pages_for
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
    same `gains` of heads, None for 1 everywhere."""

    def __init__(self, tokens: list[int], most_pages: int, gains: Gains | None = None) -> None:
        self.tokens = tokens
        self.gains = gains
        self.slot = 0  # of a step, that has the gains
        self.prompt = len(self.tokens)
        self.computed = 0
        self.pages: list[int] = []
        self._table = np.zeros(most_pages, np.int32)  # the same pages
        self._filled = 0  # pages that are full, and known to the pool
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

    def next_name(self) -> Name | None:
        """Return the name of the page that the next step fills; None where it fills none, or the
        last token, whose logits are wanted, is in it."""
        if self.computed % PAGE or self.missing <= PAGE:
            return None
        return self._name(self.computed // PAGE)

    def adopt(self, pool: PagePool) -> int:
        """Use the pages that others have filled with the tokens that come next, and the last page
        of an ended one that holds no others; return how many positions that brings."""
        before = self.computed
        while (name := self.next_name()) is not None:
            page = pool.find(name)
            if page is None:
                break
            self._use(page, pool)
            self._filled += 1
            self.computed += PAGE
        if self.computed % PAGE == 0:
            first = self.computed
            coming = self.tokens[first : min(first + PAGE, len(self.tokens) - 1)]
            part = pool.find_part(self._name_before(first // PAGE), coming)
            if part is not None:
                page, count = part
                self._use(page, pool)
                self.computed += count
        return self.computed - before

    def needs(self, pool: PagePool, positions: int) -> int:
        """Return how many pages must be available to hold so many positions, with what `adopt`
        will find."""
        needed = pages_for(positions) - len(self.pages)
        for index in range((len(self.tokens) - 1) // PAGE):
            page = pool.find(self._name(index))
            if page is None:
                break
            needed -= not pool.is_kept(page)
        return needed

    def extend(self, pool: PagePool, positions: int) -> bool:
        """Allocate pages for so many positions; return False where the pool has none left."""
        while len(self.pages) < pages_for(positions):
            page = pool.allocate()
            if page is None:
                return False
            self._append(page)
        return True

    def segment(self, count: int, outputs: int, after: int = 0) -> Segment:
        """Return the tokens that come next, or `after` so many of them, as a part of a step."""
        table = self._table[: len(self.pages)]
        return Segment(self.computed + after, count, outputs, table, self.slot)

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
        self.computed += count
        while (self._filled + 1) * PAGE <= self.computed:
            pool.fill(self.pages[self._filled], self._name(self._filled))
            self._filled += 1

    def free_pages(self, pool: PagePool, *, keep: bool) -> None:
        """Release the pages. With `keep`, the last one too, which is not full, stays as it is
        until its room is needed or another sequence goes on with it. The end of a sequence is given
        up before its beginning."""
        last, count = divmod(self.computed, PAGE)
        if keep and count:
            held = self.tokens[last * PAGE : self.computed]
            pool.note_part(self.pages[last], self._name_before(last), held)
        for page in reversed(self.pages):
            pool.release(page, keep=keep)
        self.drop_pages()

    def drop_pages(self) -> None:
        """Forget the pages, which are gone with their pool; all tokens are computed again."""
        self.pages, self._filled, self.computed = [], 0, 0

    def tickets(self, pool: PagePool) -> tuple[Ticket, ...]:
        """Return tickets of the pages in use, to know later whether they are still what they are
        now."""
        return tuple(map(pool.ticket, self.pages))

    def _name(self, index: int) -> Name:
        """Return the name of a page that the tokens fill."""
        while len(self._names) <= index:
            first = len(self._names) * PAGE
            before = self._names[-1] if self._names else first_name(self.gains)
            self._names.append(name_of(before, self.tokens[first : first + PAGE]))
        return self._names[index]

    def _name_before(self, index: int) -> Name:
        """Return the name of what lies before a page."""
        return self._name(index - 1) if index else first_name(self.gains)

    def _use(self, page: int, pool: PagePool) -> None:
        """Use a page that holds the next tokens, rather than one of its own to compute the same."""
        pool.take(page)
        at = self.computed // PAGE
        if at < len(self.pages):
            pool.release(self.pages[at], keep=False)
            self.pages[at] = self._table[at] = page
        else:
            self._append(page)

    def _append(self, page: int) -> None:
        self._table[len(self.pages)] = page
        self.pages.append(page)
