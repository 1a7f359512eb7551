"""Pages of the cache: every one is free, used or kept, and what begins alike shares them."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llm_lite.core.plan.step import NO_STATE, PAGE, PageShape, pages_for, window_pages
from llm_lite.core.serving.client_states import ClientStates
from llm_lite.core.serving.pages import PagePool
from llm_lite.core.serving.sequence import PagedTokens
from llm_lite.core.serving.window_places import NOWHERE, WindowPlaces

PAGES, LONGEST = 6, 4 * PAGE
WINDOW = 3
# Caches with a window have four of the six pages: enough for one sequence, and a little more.
SHAPE = PageShape(PAGES, 4, LONGEST, windowed=window_pages(WINDOW) + 1, window=WINDOW)


def text(first, length, second):
    """Tokens of which the first page is one of few, so that prefixes are shared."""
    return [first] * PAGE + [second] * (length - PAGE) if length > PAGE else [second] * length


class Sharing(RuleBasedStateMachine):
    """Sequences come, read on as a step would, and go; against a plain account of each row."""

    def __init__(self):
        super().__init__()
        self.pool = self.make_pool()
        self.rows = {}  # (page, offset) -> all tokens up to there, as a step would have stored
        self.running = []
        self.ended = []  # (tickets, tokens)

    def make_pool(self):
        return PagePool(PAGES)

    def note_row(self, page, offset, tokens):
        """A step stored a row of a page."""
        self.rows[page, offset] = tokens

    def note_step(self, paged, count):
        """A step of so many tokens ran."""

    def check_next(self, paged):
        """What the next token sees is there."""

    @precondition(lambda self: len(self.running) < 4)
    @rule(first=st.integers(0, 2), length=st.integers(1, LONGEST), second=st.integers(0, 2))
    def begin(self, first, length, second):
        paged = PagedTokens(text(first, length, second), pages_for(LONGEST))
        needed = paged.needs(self.pool, len(paged.tokens))
        fits = needed <= self.pool.available
        found = paged.adopt(self.pool)
        assert found < len(paged.tokens), "the last token is always computed"
        if fits:
            assert paged.reserve(self.pool, len(paged.tokens)), "needs says what is needed"
        self.running.append(paged)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def step(self, data):
        paged = data.draw(st.sampled_from(self.running))
        if not paged.missing:
            if len(paged.tokens) == LONGEST:
                return
            paged.tokens.append(data.draw(st.integers(0, 1)))
        paged.adopt(self.pool)
        count = paged.next_count() if paged.is_reading else 1
        if not paged.extend(self.pool, paged.computed + count):
            assert not self.pool.fillable
            return
        self.check_next(paged)
        self.note_step(paged, count)
        segment = paged.segment(count, 0)
        for position in range(paged.computed, paged.computed + count):
            page = int(segment.pages[position // PAGE])
            self.note_row(page, position % PAGE, tuple(paged.tokens[: position + 1]))
        paged.advance(self.pool, count)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), keep=st.booleans())
    def end(self, data, keep):
        paged = data.draw(st.sampled_from(self.running))
        self.running.remove(paged)
        self.ended.append((paged.tickets(self.pool), list(paged.tokens[: paged.computed])))
        paged.free_pages(self.pool, keep=keep)
        assert not paged.pages and not paged.computed

    @invariant()
    def every_page_is_in_one_place(self):
        held = [page for paged in self.running for page in paged.pages]
        assert self.pool.used == len(set(held))
        assert self.pool.used + self.pool.available == PAGES
        assert self.pool.kept <= self.pool.available
        assert all(len(paged.pages) == len(set(paged.pages)) for paged in self.running)

    @invariant()
    def nobody_wrote_over_what_another_has(self):
        for paged in self.running:
            self.check(paged.pages, paged.tokens[: paged.computed])
        for tickets, tokens in self.ended:
            valid = [t.page for t in tickets if self.pool.is_valid(t)]
            if len(valid) == len(tickets):
                self.check(valid, tokens)

    def check(self, pages, tokens):
        for position in {0, len(tokens) // 2, len(tokens) - 1} if tokens else ():
            row = pages[position // PAGE], position % PAGE
            assert self.rows[row] == tuple(tokens[: position + 1])


Sharing.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestSharing = Sharing.TestCase


class SharingWindows(Sharing):
    """And in caches with a window, which have fewer pages."""

    def make_pool(self):
        self.placed = {}  # (place, offset) -> all tokens up to there
        return PagePool(PAGES, windows=WindowPlaces(SHAPE))

    def note_row(self, page, offset, tokens):
        super().note_row(page, offset, tokens)
        self.placed[int(self.pool.window_table[page]), offset] = tokens

    def check_next(self, paged):
        for position in range(max(0, paged.computed - WINDOW + 1), paged.computed):
            place = int(self.pool.window_table[paged.pages[position // PAGE]])
            assert place != NOWHERE
            assert self.placed[place, position % PAGE] == tuple(paged.tokens[: position + 1])

    @invariant()
    def what_each_sees_next_is_there(self):
        for paged in self.running:
            self.check_next(paged)

    @invariant()
    def every_place_is_of_one_page(self):
        windows = self.pool.windows
        placed = [int(place) for place in windows.table if place != NOWHERE]
        assert sorted([*placed, *windows._free]) == list(range(SHAPE.windowed))
        assert {i for i, users in enumerate(windows._users) if users} | {*windows._left} == {
            i for i, place in enumerate(windows.table) if place != NOWHERE
        }
        held = sum(paged._placed - paged._seen for paged in self.running)
        assert sum(windows._users) == held


class SharingStates(Sharing):
    """And of a model whose steps go on from a recurrent state."""

    def make_pool(self):
        self.left = {}  # slot -> all tokens whose state it holds
        return PagePool(PAGES, states=ClientStates(3, 9))

    def check_next(self, paged):
        if paged.computed:
            assert self.left[paged.state] == tuple(paged.tokens[: paged.computed])
        else:
            assert paged.state == NO_STATE

    def note_step(self, paged, count):
        source, target = paged.segment(count, 0).states
        assert source != target
        self.left[target] = tuple(paged.tokens[: paged.computed + count])

    @invariant()
    def what_each_goes_on_from_is_there(self):
        for paged in self.running:
            self.check_next(paged)

    @invariant()
    def every_slot_is_in_one_place(self):
        states = self.pool.states
        own = [p._next for p in self.running if p._next != NO_STATE]
        own += [p.state for p in self.running if p.state not in (NO_STATE, *states._users)]
        dropped = set(states._users) - set(states._pages.values())
        assert sorted([*states._free, *states._pages.values(), *own, *dropped]) == list(
            range(3, 12)
        )
        users = sum(p.state in states._users for p in self.running)
        assert sum(states._users.values()) == users


SharingStates.TestCase.settings = Sharing.TestCase.settings
TestSharingStates = SharingStates.TestCase


def test_a_prefix_is_adopted_as_far_as_a_state_is_there():
    pool = PagePool(12, states=ClientStates(0, 4))
    tokens = [*range(3 * PAGE + 5)]
    filled(pool, tokens).free_pages(pool, keep=True)
    assert adopted(pool, [*tokens, 7]) == 3 * PAGE + 5, "where it ended"
    assert adopted(pool, [*tokens[: 2 * PAGE], 7, 8]) == 2 * PAGE
    other = filled(pool, [9] * (PAGE + 1))  # takes slots that were used the longest time ago
    assert adopted(pool, [*tokens[:PAGE], 7, 8]) == 0
    assert adopted(pool, [*tokens[: 2 * PAGE], 7, 8]) == 2 * PAGE
    other.free_pages(pool, keep=False)
    filled(pool, [*tokens[:PAGE], 7, 8]).free_pages(pool, keep=True)
    assert adopted(pool, [*tokens[:PAGE], 7, 9]) == PAGE, "known by the page read again"


SharingWindows.TestCase.settings = Sharing.TestCase.settings
TestSharingWindows = SharingWindows.TestCase


def adopted(pool, tokens):
    """How many positions a sequence would adopt."""
    paged = PagedTokens(tokens, 8)
    count = paged.adopt(pool)
    paged.free_pages(pool, keep=True)
    return count


def test_a_prefix_is_adopted_as_far_as_its_last_window_is_there():
    pool = PagePool(12, windows=WindowPlaces(PageShape(12, 4, 8 * PAGE, windowed=4, window=WINDOW)))
    tokens = [*range(5 * PAGE)]
    filled(pool, tokens).free_pages(pool, keep=True)
    placed = [pool.windows.has(page) for page in range(12)]
    assert placed.count(True) == 4, "until others need them"
    assert adopted(pool, [*tokens, 7]) == 5 * PAGE
    other = filled(pool, [7] * 3 * PAGE)  # takes first the places of what was passed last
    assert adopted(pool, [*tokens, 7]) == 5 * PAGE, "the end"
    assert adopted(pool, [*tokens[: 2 * PAGE], 7]) == PAGE, "the second page is gone"
    assert PagedTokens([*tokens[: 2 * PAGE], 7], 8).needs(pool, 2 * PAGE + 1) == 3
    other.free_pages(pool, keep=False)
    read = filled(pool, [*tokens[: 2 * PAGE], 7])
    read.free_pages(pool, keep=True)
    assert adopted(pool, [*tokens[: 2 * PAGE], 8]) == 2 * PAGE, "known by the page read again"


def test_a_beginning_that_others_adopted_keeps_its_places_longer():
    pool = PagePool(30, windows=WindowPlaces(PageShape(30, 4, 8 * PAGE, windowed=8, window=WINDOW)))
    system = [*range(PAGE)]
    for first in (1000, 2000):  # the second finds what the first has read
        filled(pool, [*system, *range(first, first + 3 * PAGE)]).free_pages(pool, keep=True)
    filled(pool, [*range(5000, 5000 + 5 * PAGE)]).free_pages(pool, keep=True)
    assert adopted(pool, [*system, 7]) == PAGE


def filled(pool, tokens):
    paged = PagedTokens(tokens, 8)
    paged.adopt(pool)
    while paged.missing:
        count = paged.next_count()
        assert paged.extend(pool, paged.computed + count)
        paged.advance(pool, count)
    return paged


def test_the_least_recently_used_goes_first_and_ends_before_beginnings():
    pool = PagePool(4)
    old, new = filled(pool, [1] * 256), filled(pool, [2] * 256)
    old.free_pages(pool, keep=True)
    new.free_pages(pool, keep=True)
    assert (pool.used, pool.kept) == (0, 4)
    taken = pool.allocate()
    assert PagedTokens([1] * 257, 8).adopt(pool) == PAGE, "the end of the older one is gone"
    pool.release(taken, keep=False)
    assert PagedTokens([2] * 257, 8).adopt(pool) == 2 * PAGE


def test_what_another_has_filled_meanwhile_is_used():
    pool = PagePool(4)
    a, b = PagedTokens([7] * 130, 2), PagedTokens([7] * 130, 2)
    for paged in (a, b):
        assert paged.extend(pool, PAGE)
    assert pool.used == 2
    a.advance(pool, PAGE)
    assert b.adopt(pool) == PAGE
    assert pool.used == 1
    assert a.pages == b.pages
    assert int(b.segment(1, 0).pages[0]) == b.pages[0]


def test_a_page_of_a_name_that_another_has_stays_its_own():
    pool = PagePool(4)
    a, b = PagedTokens([7] * 130, 2), PagedTokens([7] * 130, 2)
    for paged in (a, b):  # in one step, before either is known
        assert paged.extend(pool, PAGE)
    for paged in (a, b):
        paged.advance(pool, PAGE)
    assert (pool.used, a.pages == b.pages) == (2, False)
    b.free_pages(pool, keep=False)
    a.free_pages(pool, keep=False)
    assert (pool.used, pool.kept) == (0, 1)


def test_the_next_turn_goes_on_in_the_page_where_the_one_before_ended():
    pool = PagePool(4)
    turn = filled(pool, [*range(200)])
    last = turn.pages[-1]
    tickets = turn.tickets(pool)
    turn.free_pages(pool, keep=True)
    follow = PagedTokens([*range(250)], 8)
    assert follow.adopt(pool) == 200 and follow.pages[-1] == last
    assert follow.next_count() == 50, "to the end of the prompt, in the same page"
    assert all(map(pool.is_valid, tickets)), "the turn before is still there to be inspected"
    other = PagedTokens([*range(250)], 8)
    assert other.adopt(pool) == PAGE, "two do not write to one page"
    follow.free_pages(pool, keep=True)
    assert PagedTokens([*range(180)], 8).adopt(pool) == PAGE, "what it holds behind is not lost"
    assert PagedTokens([*range(201)], 8).adopt(pool) == 200


def test_of_parts_the_longest_and_those_that_are_given_away_no_more():
    pool = PagePool(2)
    short, long = filled(pool, [1, 2, 3]), filled(pool, [1, 2, 3, 4])
    for paged in (long, short):
        paged.free_pages(pool, keep=True)
    follow = PagedTokens([1, 2, 3, 4, 5], 8)
    assert follow.adopt(pool) == 4
    assert pool.allocate() is not None, "the other one"
    assert PagedTokens([1, 2, 3, 4], 8).adopt(pool) == 0


def test_what_was_said_is_computed_again_as_it_was():
    pool = PagePool(4)
    paged = PagedTokens([7] * 100, 2)
    paged.tokens += [8, 9, 9]
    assert paged.is_reading
    assert paged.extend(pool, 103)
    assert [(s.start, s.count) for s in paged.segments(paged.next_count(), 0)] == [(0, 100)]
    paged.advance(pool, 100)
    assert not paged.is_reading
    found = [(s.start, s.count, s.outputs) for s in paged.segments(3, 1)]
    assert found == [(100, 1, 0), (101, 1, 0), (102, 1, 1)]


@pytest.mark.parametrize(("positions", "pages"), [(0, 0), (1, 1), (128, 1), (129, 2)])
def test_pages_of_positions(positions, pages):
    assert pages_for(positions) == pages
