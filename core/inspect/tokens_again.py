"""The tokens of a sequence run once more, where a recurrent state in the middle of them is wanted:
from the last state that is held before, through all ops but those that store.

A part of them runs at once, and between parts other steps may run: the state waits on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.executor import Executor
from llm_lite.core.files.mapping import MappedFiles
from llm_lite.core.finite import Values
from llm_lite.core.inspect.inspected import InspectedSession
from llm_lite.core.kv_cache.states import State
from llm_lite.core.plan.step import Step

PART = 32  # tokens that run at once: few, as a message waits for them, and enough for products
STORES = ("store",)  # ops that are left out, so that nothing kept is written again


class TokensAgain(Protocol):
    """A sequence that an executor holds, of the chat or of a client, on the executor's thread."""

    @property
    def executor(self) -> Executor: ...

    @property
    def files(self) -> MappedFiles: ...

    @property
    def length(self) -> int:
        """Return how many tokens there are."""
        ...

    def nearest(self, length: int, end: int) -> tuple[int, State | None]:
        """Return the most of the first `length` tokens behind which a state is held, and a copy of
        it; 0 and None for the beginning. RequestError where too many tokens would run from there to
        `end`."""
        ...

    def run(self, start: int, end: int, state: State | None, run: Callable[[Step], None]) -> State:
        """Call `run` with the step over tokens start..end-1, which goes on from `state`; return
        the state that it leaves. RequestError once the tokens are others."""
        ...

    def checked(self, values: Values, what: str) -> Values:
        """Return the values. NotFiniteError that names the model where one is NaN or infinite."""
        ...


def parts_again(
    tokens: TokensAgain, first: int, end: int, run: Callable[[int, State | None, Step], None]
) -> Iterator[None]:
    """Run tokens first..end-1 once more, and those before that it takes; yield after each part.
    `run` is called for each part with its first position, the state before it and its step, of
    tokens before `first` or of those from there on."""
    at, state = tokens.nearest(first, end)
    while at < end:
        stop = min(at + PART, first if at < first else end)

        def part(step: Step, at: int = at, state: State | None = state) -> None:
            run(at, state, step)

        state = tokens.run(at, stop, state, part)
        at = stop
        yield


class SessionTokens:
    """The conversation of a session, `TokensAgain`."""

    def __init__(self, session: InspectedSession) -> None:
        """RequestError where the cache is empty, or was made with other weights or gains."""
        self.session, self.length = session, session.context_used
        self._epoch = session.committed.epoch
        if not self.length:
            raise RequestError("there is nothing to read: the cache is empty")
        if session.cache.good(session.made_by, session.gains) < self.length:
            raise RequestError(
                "tokens of the cache were computed with other weights or gains than those in "
                "force, so their states are not to be had: send the conversation again"
            )

    @property
    def executor(self) -> Executor:
        return self.session.executor

    @property
    def files(self) -> MappedFiles:
        return self.session.files

    def nearest(self, length: int, end: int) -> tuple[int, State | None]:
        states = self.session.cache.states
        at = states.longest(length)
        return at, states.read(at) if at else None

    def run(self, start: int, end: int, state: State | None, run: Callable[[Step], None]) -> State:
        session, states = self.session, self.session.cache.states
        if session.committed.epoch != self._epoch or session.context_used < self.length:
            raise RequestError("the cache was rewritten while its states were read: ask again")
        with states.beside():
            if state is not None:
                states.write_beside(start, state)
            step = session.step(session.tokens()[start:end], start)
            run(step)
            states.pass_by(start, end, step.states[0][1])
            return states.read(end)

    def checked(self, values: Values, what: str) -> Values:
        return self.session.checked(values, what)
