"""Recurrent states of one conversation: which slot holds the state behind how many positions.

A state does not grow with the text and cannot go back. So a step never writes over the state that
it goes on from: it leaves the next one in another slot, and what is worth going back to, ends of
prompts and answers and every so many positions, stays where it is. A failed step loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.plan.ops import STATEFUL
from llm_lite.core.plan.plan import Plan, Tensor, tensor_row_bytes
from llm_lite.core.plan.step import NO_STATE

Bytes = NDArray[np.uint8]
State = Mapping[str, Bytes]  # by tensor, the rows of one slot
APART = 256  # positions between states that stay while an answer grows


def state_tensors(plan: Plan) -> tuple[Tensor, ...]:
    """Return the recurrent states of a plan, by layer; () for a model of attention alone."""
    return tuple(plan.tensors[op.outputs[1]] for op in plan.ops if op.name in STATEFUL)


class StateSlots:
    """Copies of an executor's states, by slot: those of the chat come before those of clients."""

    def __init__(self, executor: Executor) -> None:
        pages = executor.program.pages
        self._executor, self.tensors = executor, state_tensors(executor.program.plans[0])
        self.count = pages.states if pages else 1

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return by tensor the shape of one state as `read` returns it: rows, bytes of a row."""
        return {t.name: (t.shape[0] // self.count, tensor_row_bytes(t)) for t in self.tensors}

    @property
    def nbytes(self) -> int:
        """Return the bytes of one state, of all layers."""
        return sum(rows * row for rows, row in self.shapes.values())

    def read(self, slot: int) -> State:
        """Return copies of the state in a slot, by tensor."""
        return {
            name: self._executor.read_state(name, slot * rows, rows)
            for name, (rows, _) in self.shapes.items()
        }

    def write(self, slot: int, state: State) -> None:
        """Set the state in a slot to one that `read` returned, here or on another executor of the
        model."""
        for name, rows in state.items():
            self._executor.write_state(name, slot * len(rows), rows)


class RecurrentStates:
    """The first slots of a program's states, before those of clients; of a model without states
    any number of positions counts as held."""

    def __init__(self, executor: Executor) -> None:
        pages, self._copies = executor.program.pages, StateSlots(executor)
        self.slots = pages.states - pages.client_states if pages and self._copies.tensors else 0
        self._drafted = pages.drafted_states if pages else 0  # slots that stay free for these
        self._free = list(range(self.slots - 1, -1, -1))
        self._behind: dict[int, int] = {}  # slot by the number of positions before the state
        self._marked = set[int]()  # positions that are worth going back to before others
        self._scratch: dict[int, int] = {}  # likewise, of `scratch_steps`
        self._ahead: dict[int, int] = {}  # likewise, of drafted tokens

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return by tensor the shape of one state: rows, bytes of a row."""
        return self._copies.shapes

    @property
    def nbytes(self) -> int:
        """Return the bytes of one state, of all layers."""
        return self._copies.nbytes

    def holds(self, length: int) -> bool:
        """Return whether a step could follow the first `length` positions."""
        return not self.slots or not length or length in self._scratch or length in self._behind

    def longest(self, length: int) -> int:
        """Return the most of the first `length` positions that a step could follow."""
        if not self.slots:
            return length
        return max((reached for reached in self._behind if reached <= length), default=0)

    def next(self, length: int) -> tuple[int, int]:
        """Return `Segment.states` of a step behind `length` positions. RequestError where there is
        no state to go on from."""
        if not self.slots:
            return NO_STATE, 0
        source = NO_STATE
        if length:
            found = self._scratch.get(length, self._behind.get(length))
            if found is None:
                raise RequestError(f"the state behind {length} tokens is no longer there")
            source = found
        while len(self._free) + len(self._ahead) <= self._drafted or not self._free:
            self._drop(self._least_worth(length))
        return source, self._free[-1]

    def next_each(self, length: int, count: int) -> list[tuple[int, int]]:
        """Return `next` for each of `count` tokens, the drafted ones behind the first, which go on
        from each other."""
        if not self.slots:
            return [(NO_STATE, 0)] * count
        source, _ = self.next(length)
        slots = self._free[: -count - 1 : -1]
        assert len(slots) == count, f"{count} tokens, and slots for {len(slots)}"
        return list(zip([source, *slots], slots, strict=False))

    def note_ahead(self, length: int, slots: Sequence[int]) -> None:
        """Note that a step has left states in these slots behind `length` positions, one more, and
        so on; the conversation does not count these yet."""
        if not self.slots:
            return
        self._ahead = {length + number: slot for number, slot in enumerate(slots)}
        for slot in slots:
            self._free.remove(slot)

    def count_ahead(self, length: int) -> None:
        """Count the state behind `length` positions, one more than before, that `note_ahead`
        noted."""
        if self.slots:
            slot = self._ahead.pop(length)
            self._free.append(slot)
            self.commit(length - 1, length, slot)

    def forget_ahead(self) -> None:
        """Forget what `note_ahead` noted: other tokens follow."""
        self._free += self._ahead.values()
        self._ahead.clear()

    def commit(self, start: int, end: int, slot: int, *, keep: bool = False) -> None:
        """Note that a step from `start` to `end` positions has left its state in `slot`. The one
        before stays if `keep` says so, if it was marked, or as one in every APART positions."""
        if not self.slots:
            return
        self._free.remove(slot)
        if end in self._behind:
            self._drop(end)
        self._behind[end] = slot
        before = max((reached for reached in self._behind if reached < start), default=0)
        stays = keep or start in self._marked or start // APART > before // APART
        if start in self._behind and not stays:
            self._drop(start)

    def mark(self, length: int) -> None:
        """Keep the state behind so many positions before others."""
        if length in self._behind:
            self._marked.add(length)

    def truncate(self, length: int) -> None:
        for reached in [reached for reached in self._behind if reached > length]:
            self._drop(reached)

    @contextmanager
    def scratch_steps(self) -> Iterator[None]:
        """Forget on exit what `note_scratch` noted: steps inside leave no trace."""
        try:
            yield
        finally:
            self._free += self._scratch.values()
            self._scratch.clear()

    def note_scratch(self, start: int, end: int, slot: int) -> None:
        """Note that a step of `scratch_steps` has left its state in `slot`."""
        if not self.slots:
            return
        self._free.remove(slot)
        if (before := self._scratch.pop(start, None)) is not None:
            self._free.append(before)
        self._scratch[end] = slot

    def worth_keeping(self, length: int) -> list[int]:
        """Return of the first `length` positions those whose states a copy should have: all of
        them, and the last that were marked."""
        marked = max((reached for reached in self._marked if reached < length), default=0)
        return [reached for reached in (marked, length) if reached in self._behind]

    def read(self, length: int) -> State:
        """Return copies of the state behind `length` positions, by tensor."""
        slot = self._scratch.get(length, self._behind.get(length))
        assert slot is not None, f"no state is held behind {length} positions"
        return self._copies.read(slot)

    def write(self, length: int, state: State) -> None:
        """Hold a state that `read` returned, here or on another executor of the model."""
        self.commit(0, length, self._write(state))
        self.mark(length)

    def write_scratch(self, length: int, state: State) -> None:
        """Hold a state for the steps within `scratch_steps`."""
        self.note_scratch(0, length, self._write(state))

    def _write(self, state: State) -> int:
        _, slot = self.next(0)
        self._copies.write(slot, state)
        return slot

    def _drop(self, length: int) -> None:
        self._free.append(self._behind.pop(length))
        self._marked.discard(length)

    def _least_worth(self, needed: int) -> int:
        """Return the positions whose state is given up first: of those that nobody marked, else of
        all, the ones closest behind others, for how far back they are, as people change what they
        have just said before what they said long ago; never those that a step needs, nor the
        last."""
        lengths = sorted(self._behind)
        gaps = dict(
            zip(lengths, (b - a for a, b in zip([0, *lengths], lengths, strict=False)), strict=True)
        )
        others = [length for length in lengths[:-1] if length != needed] or lengths[:1]
        back = {length: lengths[-1] - length + 1 for length in others}
        return min(others, key=lambda length: (length in self._marked, gaps[length] / back[length]))
