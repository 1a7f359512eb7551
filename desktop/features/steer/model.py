"""Gains of heads and experts, answers under them, and how far two answers are apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    AnswerDivergence,
    Cancel,
    CompareAnswer,
    Gains,
    Generate,
    KeepConversation,
    ModelGains,
    SetGains,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Ask, Slot, ask
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    ask_again,
    conversation,
    hindrance,
    obstacle,
    own_tokens,
)
from llm_lite.desktop.features.program.state import AnswerComparison, AppState

DIVERGENCE: Slot[AnswerDivergence] = Slot(
    "divergence", CompareAnswer, AnswerDivergence, subject=lambda state: state.comparing,
    recorded=True,
)  # fmt: skip


class Steer(Action, frozen=True):
    """Weigh the heads; None: all by 1."""

    gains: Gains | None


class AnswerSteered(Action, frozen=True):
    """Answer the last message again with these gains, beside the answer that is there."""


class EndComparison(Action, frozen=True):
    pass


def _answers(state: AppState, index: int) -> bool:
    return 0 <= index < len(state.messages) and state.messages[index].role == "assistant"


def steer(action: Steer, state: AppState, now: float) -> Result:
    model, gains = state.model, action.gains
    if model is None or gains == state.steering.gains or state.elsewhere:
        return state, ()
    if gains is not None and all(gain == 1.0 for row in gains for gain in row):
        gains = None
    state = replace(state, steering=state.steering.set(gains, model))
    return send_gains(state)


def with_kept_gains(state: AppState, kept: ModelGains | None) -> AppState:
    """Return the state with the gains of the conversation that came to the front, which are in
    force if they are the loaded model's."""
    steering = replace(state.steering, kept=kept)
    return replace(state, steering=steering.fit(state.model) if state.model else steering)


def send_gains(state: AppState) -> Result:
    """Send the engine here the gains that are in force, where it has others: those of the
    conversation in front, whatever brought it there. A model that is being loaded has its own."""
    wanted, known = state.steering.gains, state.gains_told
    if wanted == known or (state.load and not state.load.changes):
        return state, ()
    gains = wanted
    if gains is None:
        gains = tuple((1.0,) * len(row) for row in known or ())
    return replace(state, gains_told=wanted), (SetGains(gains),)


def follow_gains(action: object, before: AppState, result: Result, now: float) -> Result:
    """Send the engine the gains that an action brought into force, before all that is of these.
    What stops an answer or keeps its cache is of the gains before. A comparison that an action left
    is stopped."""
    state, commands = result
    left, still = DIVERGENCE.waiting(before), DIVERGENCE.waiting(state)
    if left is not None and (still is None or still.question is not left.question):
        commands = (Cancel(left.question), *commands)
    state, gains = send_gains(state)
    if not gains:
        return state, commands
    first = tuple(c for c in commands if isinstance(c, Cancel | KeepConversation))
    return state, (*first, *gains, *(c for c in commands if c not in first))


def answer_steered(action: AnswerSteered, state: AppState, now: float) -> Result:
    index, gains = len(state.messages) - 1, state.steering.gains
    if gains is None or not _answers(state, index):
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    known = state.comparing
    base = known.base if known is not None else state.messages[index].id
    compared = state.tree.find(base)
    sampling = compared.sampling if compared else None
    state, commands = ask_again(state, index, now, sampling=sampling, gains=gains)
    answer = state.messages[-1].id
    return replace(state, compared=AnswerComparison(base, answer)), commands


def end_comparison(action: EndComparison, state: AppState, now: float) -> Result:
    return replace(state, compared=None), ()


def divergence_question(state: AppState) -> CompareAnswer | None:
    """Return the question about two answers that stand beside each other, once both are whole: how
    far their gains are apart over all of the first."""
    known = state.comparing
    if known is None:
        return None
    base, steered = state.tree.find(known.base), state.messages[-1]
    if base is None or not (own_tokens(state, base) and own_tokens(state, steered)):
        return None
    before = state.messages[:-1]
    request = Generate(conversation(state, before), **state.next_prompt_settings.options)
    first, second = (one.written.gains if one.written else None for one in (base, steered))
    return CompareAnswer(request, tuple(token.id for token in base.tokens), (first, second))


def compare_answer_due(state: AppState) -> Result:
    """Ask it once the engine has nothing else to do."""
    if state.comparing is None or hindrance(state) or state.reading or state.elsewhere:
        return state, ()
    if not state.holds_conversations or DIVERGENCE.answered(state) or DIVERGENCE.waiting(state):
        return state, ()
    question = divergence_question(state)
    return ask(Ask(DIVERGENCE, question), state, 0.0) if question is not None else (state, ())


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    Steer: steer,
    AnswerSteered: answer_steered,
    EndComparison: end_comparison,
}
