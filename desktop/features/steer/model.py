"""Interventions, answers under them, and how far two answers are apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    NO_CHANGES,
    AnswerDivergence,
    Cancel,
    CompareAnswer,
    Ended,
    Event,
    Generate,
    Interventions,
    InterventionsSet,
    KeepConversation,
    ModelInfo,
    ModelInterventions,
    SetInterventions,
)
from llm_lite.core.messages.gains import of_model
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.asking import Ask, Slot, ask
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    ask_again,
    conversation,
    hindrance,
    obstacle,
    own_tokens,
    with_message,
)
from llm_lite.desktop.features.program.state import AnswerComparison, AppState
from llm_lite.desktop.features.steer.state import EngineInterventions
from llm_lite.desktop.language.translate import mark, tr

DIVERGENCE: Slot[AnswerDivergence] = Slot(
    "divergence", CompareAnswer, AnswerDivergence, subject=lambda state: state.comparing,
    recorded=True,
)  # fmt: skip

NO_MODEL = mark("Interventions are loaded where the model runs. Load a model here first.")


class Steer(Action, frozen=True):
    """Have these interventions, and no others."""

    interventions: Interventions


class LoadInterventions(Action, frozen=True):
    """Have the interventions of a file, once the engine has taken them."""

    interventions: Interventions


class ReadInterventions(HostAction, frozen=True):
    """Read interventions from a JSON file."""

    path: str


class SaveInterventions(HostAction, frozen=True):
    """Write those in force to a JSON file."""

    path: str


class AnswerSteered(Action, frozen=True):
    """Answer the last message again under these interventions, beside the answer that is there."""


class EndComparison(Action, frozen=True):
    pass


def _answers(state: AppState, index: int) -> bool:
    return 0 <= index < len(state.messages) and state.messages[index].role == "assistant"


def steer(action: Steer, state: AppState, now: float) -> Result:
    model, wanted = state.model, action.interventions
    if model is None or wanted == state.steering.interventions or state.elsewhere:
        return state, ()
    if wanted:
        wanted = replace(wanted, model=wanted.model or model.name)
    state = replace(state, steering=state.steering.set(wanted, model))
    return send_interventions(state)


def load(action: LoadInterventions, state: AppState, now: float) -> Result:
    if state.model is None or state.elsewhere:
        return notify(state, "warning", tr(NO_MODEL), now), ()
    found = action.interventions
    if not found:
        return steer(Steer(NO_CHANGES), state, now)
    found = replace(found, model=found.model or state.model.name)
    state = replace(state, steering=replace(state.steering, wanted=found))
    return send_interventions(state)


def without(interventions: Interventions, model: ModelInfo, number: int) -> Interventions:
    """Return interventions without one of their changes."""
    changes = interventions.changes
    return of_model(model, (*changes[:number], *changes[number + 1 :]))


def with_kept_interventions(state: AppState, kept: ModelInterventions | None) -> AppState:
    """Return the state with the interventions of the conversation that came to the front, which
    are in force if they are the loaded model's."""
    steering = replace(state.steering, kept=kept)
    return replace(state, steering=steering.fit(state.model) if state.model else steering)


def with_new_engine(state: AppState) -> AppState:
    """Return the state with an engine that has loaded a model, and has no interventions."""
    return replace(state, engine_interventions=EngineInterventions())


def send_interventions(state: AppState) -> Result:
    """Send the engine here the interventions that are in force, or those wanted of a file, where
    it has others: those of the conversation in front, whatever brought it there. A model that is
    being loaded has none."""
    steering, known = state.steering, state.engine_interventions
    wanted = steering.interventions if steering.wanted is None else steering.wanted
    same = wanted is known.sent or wanted == known.sent
    if same or (state.load and not state.load.changes):
        return state, ()
    state_of_engine = replace(known, sent=wanted)
    return replace(state, engine_interventions=state_of_engine), (SetInterventions(wanted),)


def follow_interventions(action: object, before: AppState, result: Result, now: float) -> Result:
    """Send the engine the interventions that an action brought into force, before all that is under
    these. What stops an answer or keeps its cache is of those before. A comparison that an action
    left is stopped."""
    state, commands = result
    left, still = DIVERGENCE.waiting(before), DIVERGENCE.waiting(state)
    if left is not None and (still is None or still.question is not left.question):
        commands = (Cancel(left.question), *commands)
    state, changes = send_interventions(state)
    if not changes:
        return state, commands
    first = tuple(c for c in commands if isinstance(c, Cancel | KeepConversation))
    return state, (*first, *changes, *(c for c in commands if c not in first))


def _set_replied(event: Event, asked: SetInterventions, state: AppState, now: float) -> AppState:
    """Fold what the engine made of interventions: it has taken them, by the names that their sites
    have in its model, or says why it cannot; then those hold that it took before."""
    known, steering, model = state.engine_interventions, state.steering, state.model
    is_newest = asked.interventions == known.sent
    if isinstance(event, Ended):
        if not event.failure:
            return state
        if is_newest:
            mine = known.chat == state.chat
            if steering.wanted is not None:
                steering = replace(steering, wanted=None)
            elif mine and model is not None:
                steering = steering.set(known.taken, model)
            else:  # the conversation keeps what it has for another form of the model
                steering = replace(steering, interventions=NO_CHANGES)
            known = replace(known, sent=known.taken)
            state = replace(state, steering=steering, engine_interventions=known)
        return notify(state, "error", event.failure, now)
    if not isinstance(event, InterventionsSet) or not is_newest or model is None:
        return state
    found = event.interventions
    is_renamed = found != asked.interventions and steering.interventions == asked.interventions
    if steering.wanted is not None or is_renamed:
        steering = steering.set(found, model)
    taken = EngineInterventions(found, found, state.chat)
    state = replace(state, steering=steering, engine_interventions=taken)
    return _recorded_in_answer(found, asked.interventions, state)


def _recorded_in_answer(found: Interventions, asked: Interventions, state: AppState) -> AppState:
    """Record in the answer that is being written, if it has none of its own, under which
    interventions its next tokens are computed. `found`: `asked` by the names of the model."""
    answer, running = state.answering, state.running
    if answer is None or answer.written is None or running is None or state.elsewhere:
        return state
    if isinstance(running.asked, Generate) and running.asked.interventions is not None:
        return state
    if answer.written.interventions == asked:
        written = replace(answer.written, interventions=found)
    else:
        written = answer.written
    written = written.intervened(found, len(answer.tokens))
    return with_message(state, len(state.messages) - 1, replace(answer, written=written))


def answer_steered(action: AnswerSteered, state: AppState, now: float) -> Result:
    index, interventions = len(state.messages) - 1, state.steering.interventions
    if not interventions or not _answers(state, index):
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    known = state.comparing
    base = known.base if known is not None else state.messages[index].id
    compared = state.tree.find(base)
    sampling = compared.sampling if compared else None
    state, commands = ask_again(state, index, now, sampling=sampling, interventions=interventions)
    answer = state.messages[-1].id
    return replace(state, compared=AnswerComparison(base, answer)), commands


def end_comparison(action: EndComparison, state: AppState, now: float) -> Result:
    return replace(state, compared=None), ()


def divergence_question(state: AppState) -> CompareAnswer | None:
    """Return the question about two answers that stand beside each other, once both are whole: how
    far their interventions are apart over all of the first."""
    known = state.comparing
    if known is None:
        return None
    base, steered = state.tree.find(known.base), state.messages[-1]
    if base is None or not (own_tokens(state, base) and own_tokens(state, steered)):
        return None
    before = state.messages[:-1]
    request = Generate(conversation(state, before), **state.next_prompt_settings.options)
    first, second = (
        one.written.interventions if one.written else NO_CHANGES for one in (base, steered)
    )
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
    LoadInterventions: load,
    AnswerSteered: answer_steered,
    EndComparison: end_comparison,
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    SetInterventions: _set_replied
}
