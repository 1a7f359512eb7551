"""The values that change from step to step: a few words that every kernel reads.

A plain step has the next tokens of one sequence. A shared step, of a plan with pages, has tokens of
several: each sequence is a segment, tokens that follow each other, with a position of its own and a
table of the pages that hold its keys and values.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

HEADER_WORDS = 16
# Words of the header; kernels_cpp/base/step.h and kernels_glsl/common/step.glsl say the same.
N_TOKENS, START, KV_LENGTH, FIRST_OUTPUT, N_OUTPUTS, N_SEGMENTS, SOURCE_LENGTH = range(7)
PAGE = 128  # positions of a page of the cache

NO_STATE = -1  # the slot of a recurrent state behind no token: zeros

I32 = NDArray[np.int32]


def pages_for(positions: int) -> int:
    return -(-positions // PAGE)


class PageShape(Struct, frozen=True):
    """The size of the caches of a plan for shared steps; each has pages * PAGE rows, or fewer:
    the first sequence may have a ring there, and the others only the pages that a window needs."""

    pages: int
    segments: int  # sequences of one step, at most
    context: int  # positions of one sequence, at most; a multiple of PAGE
    slots: int = 1  # sequences that may have gains of their own at a time
    ringed: int = 0  # pages of the first sequence, which are a ring in state with fewer rows
    chunk: int = 0  # tokens of the first sequence in one step, at most; 0: of a whole step
    windowed: int = 0  # pages of the others that caches with a window have; 0: all
    window: int = 0  # positions that a token sees in these, at most
    states: int = 0  # slots of recurrent states, if the model has any
    client_states: int = 0  # of these, the last, which all sequences but the first have
    drafted_states: int = 0  # of the others, those that are there for drafted tokens

    @property
    def shared(self) -> int:
        """Return the pages of all sequences but the first."""
        return self.pages - self.ringed

    def first_seen(self, position: int) -> int:
        """Return the first page of a sequence that a token at this position sees in every
        cache."""
        return max(0, position + 1 - self.window) // PAGE if self.windowed else 0

    def places(self, pages: I32, rows: int, ring: int, windows: I32 | None) -> I32:
        """Return where pages lie in state with so many rows; the first sequence has the first
        `ring` of them. `windows` as of a step."""
        if rows >= self.pages * PAGE:
            return pages
        own, first = pages - self.ringed, ring // PAGE
        if windows is not None and rows // PAGE - first < self.shared:
            own = np.maximum(windows[np.maximum(own, 0)], 0)
        return np.where(pages < self.ringed, pages % first, own + first)

    @property
    def table(self) -> int:
        """Return the most pages of one sequence."""
        return self.context // PAGE

    @property
    def first_table(self) -> I32:
        """Return the pages of the first sequence, int32 [table]: they follow each other, so that a
        position is in the row of its number."""
        return np.arange(self.table, dtype=np.int32)


def window_pages(window: int) -> int:
    """Return the most pages that a sequence's tokens see in caches with such a window, in one
    step that reads a page of its prompt or less."""
    return (window + PAGE - 3) // PAGE + 2


def chat_pages(
    context: int,
    chunk: int,
    *,
    segments: int = 1,
    others: int = 0,
    slots: int = 1,
    windowed: int = 0,
    window: int = 0,
    states: int = 0,
    client_states: int = 0,
    drafted_states: int = 0,
) -> PageShape:
    """Return the size of the caches of a chat, whose pages hold `context` positions and come first,
    and of `others` behind them."""
    own = pages_for(context)
    return PageShape(
        own + others,
        segments,
        own * PAGE,
        slots=slots,
        ringed=own,
        chunk=chunk,
        windowed=windowed,
        window=window,
        states=states + client_states + drafted_states,
        client_states=client_states,
        drafted_states=drafted_states,
    )


def beam_pages(width: int, context: int) -> PageShape:
    """Return the size of the caches of a beam: each hypothesis has pages of its own."""
    each = pages_for(context)
    return PageShape(width * each, width, each * PAGE)


class Segment(Struct, frozen=True):
    """Tokens of one sequence: the first is at position `start`; position p lies in page
    `pages[p // PAGE]`, which `PageShape.places` places in each cache. Logits for its last
    `outputs` tokens. Its heads have the gains of `slot`. Recurrent states go on from the first slot
    of `states`, NO_STATE: from zeros, and are left in the second, which may be the same."""

    start: int
    count: int
    outputs: int
    pages: I32
    slot: int = 0
    states: tuple[int, int] = (NO_STATE, 0)

    @property
    def kv_length(self) -> int:
        return self.start + self.count


class Step(Struct, frozen=True, dict=True):  # a dict for what is computed once
    """Tokens that enter the cache at position start and on; logits for the last `outputs`.

    With `segments`, the tokens are those of all segments, one behind the other; `start` is 0 and
    `outputs` the sum of theirs, which come in the same order.

    `windows`: int32 [shared pages], where the pages of all sequences but the first lie in caches
    that have only those of windows; of pages that no token of the step sees there, any number.
    `source`: positions of an encoder's keys and values, which cross-attention sees; all segments
    have the same. `first_output`: of a plain step, the first token whose logits are asked for;
    left out: that of the last `outputs`. `sliced`, `shifted`: see `Plan`.
    """

    tokens: I32
    start: int
    outputs: int = 1
    segments: tuple[Segment, ...] = ()
    source: int = 0
    first_output: int | None = None
    sliced: bool = False
    shifted: bool = False
    windows: I32 | None = None

    @property
    def count(self) -> int:
        return len(self.tokens)

    @property
    def kv_length(self) -> int:
        """Return the positions in the cache once this step's tokens are in; of segments, the
        longest."""
        if self.segments:
            return max(segment.kv_length for segment in self.segments)
        return self.start + len(self.tokens)

    @property
    def first_position(self) -> int:
        """Return the position of the first token."""
        return self.segments[0].start if self.segments else self.start

    @cached_property
    def positions(self) -> I32:
        """int32 [T], of the tokens."""
        if not self.segments:
            return np.int32(self.start) + np.arange(len(self.tokens), dtype=np.int32)
        parts = [np.arange(s.start, s.kv_length, dtype=np.int32) for s in self.segments]
        return np.concatenate(parts)

    @cached_property
    def output_tokens(self) -> I32:
        """int32 [outputs], the tokens whose logits are outputs, by their place in the step."""
        if not self.segments:
            first = self._first_output
            return np.arange(first, first + self.outputs, dtype=np.int32)
        ends = np.cumsum([s.count for s in self.segments])
        pairs = zip(self.segments, ends, strict=True)
        parts = [np.arange(end - s.outputs, end, dtype=np.int32) for s, end in pairs]
        return np.concatenate(parts)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Return for each sequence in the step its first token, and the one behind its last."""
        counts = [segment.count for segment in self.segments] or [self.count]
        ends = np.cumsum(counts).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))

    @property
    def states(self) -> list[tuple[int, int]]:
        """Return `Segment.states` for each sequence in the step; a plain step has one slot."""
        plain = (0 if self.start else NO_STATE, 0)
        return [segment.states for segment in self.segments] or [plain]

    @property
    def _first_output(self) -> int:
        return self.count - self.outputs if self.first_output is None else self.first_output

    def rows(self, rows: str, fixed: int) -> int:
        """Return the rows in use of a tensor whose `rows` is this and whose first dimension is
        `fixed`."""
        return {"tokens": self.count, "outputs": self.outputs}.get(rows, fixed)

    def pack(self, max_tokens: int, pages: PageShape | None = None, max_outputs: int = 0) -> I32:
        """Return the step buffer: int32 words, token ids [max_tokens] behind the header.

        With `pages` there follow, each as long as it can be: for every token its position and its
        segment [max_tokens] each; for every output its token [max_outputs]; for every segment its
        first token and its slot [segments] each, and its table of pages [segments, pages.table];
        `windows` [pages.shared], if caches have only those of windows; and for every segment the
        slot that its states go on from and the one that they are left in [segments] each, if there
        are states.
        """
        words = np.zeros(packed_words(max_tokens, pages, max_outputs), np.int32)
        words[N_TOKENS] = self.count
        words[START] = self.start
        words[KV_LENGTH] = self.kv_length
        words[FIRST_OUTPUT] = self._first_output
        words[N_OUTPUTS] = self.outputs
        words[N_SEGMENTS] = len(self.segments)
        words[SOURCE_LENGTH] = self.source
        words[HEADER_WORDS : HEADER_WORDS + self.count] = self.tokens
        if pages is not None:
            self._pack_segments(words, max_tokens, pages, max_outputs)
        return words

    def _pack_segments(
        self, words: I32, max_tokens: int, pages: PageShape, max_outputs: int
    ) -> None:
        position_at = HEADER_WORDS + max_tokens
        segment_at = position_at + max_tokens
        output_at = segment_at + max_tokens
        first_at = output_at + max_outputs
        slot_at = first_at + pages.segments
        table_at = slot_at + pages.segments
        window_at = table_at + pages.segments * pages.table
        state_at = window_at + (pages.shared if pages.windowed else 0)
        token = output = 0
        for number, one in enumerate(self.segments):
            end, last = token + one.count, output + one.outputs
            if one.count == 1:  # as nearly all are: microseconds that each step takes
                words[position_at + token], words[segment_at + token] = one.start, number
            else:
                words[position_at + token : position_at + end] = range(one.start, one.kv_length)
                words[segment_at + token : segment_at + end] = number
            words[output_at + output : output_at + last] = range(end - one.outputs, end)
            words[first_at + number], words[slot_at + number] = token, one.slot
            words[table_at : table_at + len(one.pages)] = one.pages
            if pages.states:
                words[state_at + number], words[state_at + pages.segments + number] = one.states
            token, output, table_at = end, last, table_at + pages.table
        if pages.windowed and self.windows is not None:
            np.maximum(self.windows, 0, out=words[window_at : window_at + pages.shared])


def packed_words(max_tokens: int, pages: PageShape | None = None, max_outputs: int = 0) -> int:
    """Return the words of a step buffer, as `Step.pack` makes it."""
    plain = HEADER_WORDS + max_tokens
    if pages is None:
        return plain
    windows = pages.shared if pages.windowed else 0
    each = 2 + pages.table + (2 if pages.states else 0)
    return plain + 2 * max_tokens + max_outputs + pages.segments * each + windows
