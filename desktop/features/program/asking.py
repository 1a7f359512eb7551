"""Questions of the window to the engine, each with a slot for its last answer. An answer is drawn
only while what it is about is in front: a view reads its slot, which compares the stamps.

A view that asks has a `Slot`, reads `answer` and `problem`, and returns `wanted(state, question)`
among its actions in each frame: it is asked when it has no answer yet, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from llm_lite.core.messages import NO_CHANGES, Command, Ended, Event
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asked import Asked, Exchange, Stamp
from llm_lite.desktop.features.program.cached_text import CachedText, common
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState

A = TypeVar("A")
# The tokens that an answer depends on: so many of the first; those in the cache as it was asked,
# whatever follows; all, or those so far while an answer is written; all, and no others.
Extent = int | Literal["so-far", "at-rest", "all"]
Tokens = tuple[int, ...] | None  # as `Ended.of_tokens`
NOTHING = Exchange()


class Slot(Struct, Generic[A], frozen=True, eq=False):
    """A kind of question about the text in the cache, or about a `subject` of its own: what that
    function returns is what an answer is about."""

    name: str
    question: type[Command]
    answer_type: type[Any]
    extent: Callable[[Any], Extent] = lambda question: "all"  # of a question
    subject: Callable[[AppState], object] | None = None
    recorded: bool = False  # it is read from what the cache keeps, whatever is changed by now
    # join(answer in front or None, what came, its question): what is kept as the answer
    join: Callable[[Any, Any, Any], Any] | None = None

    def answer(self, state: AppState) -> A | None:
        """Return the last answer, if it is true of what is in front."""
        known = self.answered(state)
        return known.answer if known is not None else None

    def problem(self, state: AppState) -> str:
        """Return why the last question has no answer, as a sentence; "" where it has one."""
        known = self.answered(state)
        return known.problem if known is not None else ""

    def answered(self, state: AppState) -> Asked | None:
        """Return the last question that was answered, or could not be, of what is in front."""
        known = state.asks.get(self, NOTHING).answered
        return known if known is not None and self._holds(known, state) else None

    def waiting(self, state: AppState) -> Asked | None:
        """Return the question about what is in front that has no answer yet."""
        known = state.asks.get(self, NOTHING).waiting
        return known if known is not None and self._holds(known, state) else None

    def waits_for(self, state: AppState, command: Command) -> bool:
        """Return whether a command is the last question that was asked, whatever is in front."""
        waiting = state.asks.get(self, NOTHING).waiting
        return waiting is not None and waiting.question is command

    def wanted(self, state: AppState, question: Command) -> list[Action]:
        """Return the action that asks a question, or none: where it was answered, where one waits,
        and where the answer would be about all that the cache has, and that is more than what is in
        front."""
        if self.waiting(state) is not None:
            return []
        of_all = self.subject is None and not isinstance(self.extent(question), int)
        if of_all and (state.in_front.used < state.cached.length or not state.cached.is_known):
            return []
        known = self.answered(state)
        if known is not None and known.question == question:
            return []
        return [Ask(self, question)]

    def due(self, state: AppState, question: Command) -> Result:
        """Ask at once what has no answer: a question of this slot that waits gives way to it. A
        `due` of a feature does so where what is asked follows from what a person has chosen."""
        latest = self.waiting(state) or self.answered(state)
        if latest is not None and latest.question == question:
            return state, ()
        return ask(Ask(self, question), state, 0.0)

    def stamp(self, state: AppState) -> Stamp:
        """Return the stamp of what is in front."""
        model = state.model.path if state.model is not None else ""
        changes = NO_CHANGES if self.recorded else state.steering.interventions
        if self.subject is not None:
            return Stamp(state.chat, model, state.executor, changes, self.subject(state))
        text = state.in_front
        of = (text.used, text.runs, text.forgotten)
        return Stamp(state.chat, model, state.executor, changes, None, *of)

    def stamp_of(self, asked: Asked, tokens: Tokens, state: AppState) -> Stamp | None:
        """Return the stamp of what was answered about a cache with these tokens; None where that is
        not of what is in front. `state`: once it is known that the cache has these."""
        then, extent = asked.stamp, self.extent(asked.question)
        if tokens is None or self.subject is not None or not state.holds_conversations:
            return then
        now = self.stamp(state)
        if isinstance(extent, int):
            same = state.in_front.ids[:extent] == tokens[:extent]
            return then if same and _is_beginning(_first(then, extent), now) else None
        same = state.in_front.ids[: len(tokens)] == tokens
        if not same or not _is_beginning(then, now) or len(tokens) > now.length:
            return None
        return _first(now, len(tokens))

    def _holds(self, asked: Asked, state: AppState) -> bool:
        """Return whether what was asked is about what is in front."""
        then, now = asked.stamp, self.stamp(state)
        if then == now:
            return True
        extent = self.extent(asked.question)
        if self.subject is not None or extent == "all":
            return False
        if extent == "at-rest" and state.running is None:
            return False
        return _is_beginning(_first(then, extent if isinstance(extent, int) else then.length), now)


def _is_beginning(stamp: Stamp, of: Stamp) -> bool:
    return stamp.length <= of.length and stamp == _first(of, stamp.length)


def _first(stamp: Stamp, length: int) -> Stamp:
    """Return the stamp of the first tokens alone."""
    gone = sum(last - first for first, last in stamp.forgotten)
    runs = tuple(run for run in stamp.runs if run[0] < length + gone)
    return replace(stamp, length=length, runs=runs)


class Ask(Action, frozen=True):
    """Ask the engine for what belongs into a slot."""

    slot: Slot[Any]
    question: Command


def ask(action: Ask, state: AppState, now: float) -> Result:
    """Ask; a question of this slot that waits is given up."""
    slot, question = action.slot, action.question
    known = state.asks.get(slot, NOTHING)
    waiting = Asked(question, slot.stamp(state))
    return _with(state, slot, replace(known, waiting=waiting)), (question,)


def replied(event: Event, asked: Command, state: AppState, now: float) -> AppState:
    """Keep an answer with its question, unless another one was asked since."""
    for slot, known in state.asks.items():
        waiting = known.waiting
        if waiting is not None and waiting.question is asked:
            if isinstance(event, Ended):
                state = replace(state, cached=corrected(state, event.of_tokens))
            return _with(state, slot, _with_event(slot, known, waiting, event, state))
    return state


def corrected(state: AppState, tokens: Tokens) -> CachedText:
    """Return the text in the cache, which has these tokens: others than the window knew of where an
    answer was left that is still written."""
    cached = state.cached
    if tokens is None or state.busy or state.reading or not state.holds_conversations:
        return cached
    same = common(cached.ids, tokens)
    text = cached if same >= cached.used else cached.first(same)
    return replace(text, unknown=len(tokens) - same)


def _with_event(
    slot: Slot[Any], known: Exchange, waiting: Asked, event: Event, state: AppState
) -> Exchange:
    if isinstance(event, slot.answer_type):
        return replace(known, waiting=replace(waiting, answer=event))
    if not isinstance(event, Ended):
        return known
    stamp = slot.stamp_of(waiting, event.of_tokens, state)
    if event.unwanted or stamp is None:
        return replace(known, waiting=None)
    found = None if event.failure else waiting.answer
    if found is not None and slot.join is not None:
        found = slot.join(slot.answer(state), found, waiting.question)
    return Exchange(answered=Asked(waiting.question, stamp, found, event.failure))


def _with(state: AppState, slot: Slot[Any], exchange: Exchange) -> AppState:
    return replace(state, asks={**state.asks, slot: exchange})


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {Ask: ask}
