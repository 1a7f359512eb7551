"""What a person does on the page of an encoder-decoder, as pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import ReadAttentionRows, ReadTarget, Stop, Translate
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, hindrance
from llm_lite.desktop.features.program.state import AppState, Lens
from llm_lite.desktop.features.translator.fold import emptied, shown
from llm_lite.desktop.features.translator.state import (
    LONGEST,
    CrossLook,
    TokenAt,
)
from llm_lite.desktop.language.incoming import typed


class SetSource(Action, frozen=True):
    """The text to be translated, as it is typed."""

    text: str


class ChooseTask(Action, frozen=True):
    """What goes before the source, as the model's file has it for a task; "": nothing."""

    prefix: str


class ChooseBeams(Action, frozen=True):
    """Hypotheses at a time; 0: as many as the model's file says."""

    beams: int


class ChooseLongest(Action, frozen=True):
    """Tokens that a target may have; 0: as many as its source asks for."""

    longest: int


class WriteTarget(Action, frozen=True):
    """Write a target about this text."""

    text: str


class ChooseHypothesis(Action, frozen=True):
    """Look into another hypothesis of the beam, by its place among the others."""

    number: int


class StopTarget(Action, frozen=True):
    """Stop; what was written stays."""


class TintTarget(Action, frozen=True):
    """Whether tokens are tinted by how likely they were."""

    tinted: bool


class LookAcross(Action, frozen=True):
    """Tint by other heads of cross-attention."""

    look: CrossLook


class PointAtToken(Action, frozen=True):
    """Ask where a token of the target looks, or who looks at one of the source; None: at none."""

    token: TokenAt | None


class ClearTarget(Action, frozen=True):
    """An empty page; what was there can be brought back until another target is written."""


class RestoreTarget(Action, frozen=True):
    """The source and target that were cleared."""


def set_source(action: SetSource, state: AppState, now: float) -> Result:
    draft = typed(action.text[:LONGEST])
    return replace(state, translating=replace(state.translating, draft=draft)), ()


def choose_task(action: ChooseTask, state: AppState, now: float) -> Result:
    return replace(state, translating=replace(state.translating, prefix=action.prefix)), ()


def choose_beams(action: ChooseBeams, state: AppState, now: float) -> Result:
    return replace(state, translating=replace(state.translating, beams=action.beams)), ()


def choose_longest(action: ChooseLongest, state: AppState, now: float) -> Result:
    longest = max(0, action.longest)
    return replace(state, translating=replace(state.translating, longest=longest)), ()


def write_target(action: WriteTarget, state: AppState, now: float) -> Result:
    state, _ = set_source(SetSource(action.text), state, now)
    translating, request = state.translating, state.next_request
    if not translating.draft.strip():
        return state, ()
    if problem := hindrance(state):
        return notify(state, "warning", problem, now), ()
    source = translating.prefix + translating.draft.strip()
    translating = translating.begun(request, source, now)
    state = replace(state, translating=translating, next_request=request + 1)
    return state, (Translate(request, source, translating.beams, translating.longest),)


def choose_hypothesis(action: ChooseHypothesis, state: AppState, now: float) -> Result:
    """It is read by the decoder, in a step."""
    result, number = state.translating.result, action.number
    if result is None or not 0 <= number < len(result.others):
        return state, ()
    if problem := hindrance(state):
        return notify(state, "warning", problem, now), ()
    translating = state.translating.choosing(number)
    choice = replace(state.attention, row=None)
    state = replace(
        shown(state, translating), attention=choice, rows_request=0, attention_rows=None
    )
    read = ReadTarget(tuple(token.token for token in translating.tokens))
    return replace(state, context_used=0, lens=Lens()), (read,)


def stop_target(action: StopTarget, state: AppState, now: float) -> Result:
    if not state.translating.running or state.translating.stopping:
        return state, ()
    return replace(state, translating=replace(state.translating, stopping=True)), (Stop(),)


def tint_target(action: TintTarget, state: AppState, now: float) -> Result:
    return replace(state, translating=replace(state.translating, tinted=action.tinted)), ()


def look_across(action: LookAcross, state: AppState, now: float) -> Result:
    state = replace(state, translating=replace(state.translating, look=action.look))
    return _ask_rows(state)


def point_at(action: PointAtToken, state: AppState, now: float) -> Result:
    if action.token == state.translating.pointed:
        return state, ()
    state = replace(state, translating=replace(state.translating, pointed=action.token))
    return _ask_rows(state)


def clear(action: ClearTarget, state: AppState, now: float) -> Result:
    """A target that is being written is stopped first: the page is empty when it has ended."""
    if state.translating.running:
        state, stop = stop_target(StopTarget(), state, now)
        return replace(state, translating=replace(state.translating, clearing=True)), stop
    return emptied(state), ()


def restore(action: RestoreTarget, state: AppState, now: float) -> Result:
    cleared = state.translating.cleared
    if cleared is None or state.translating.running:
        return state, ()
    if cleared.result is None:
        return replace(state, translating=cleared), ()
    state = shown(state, cleared)
    length = state.cache.status.length if state.cache.status is not None else 0
    return replace(state, context_used=length, owners=state.owners[:length]), ()


def _ask_rows(state: AppState) -> Result:
    """Of the token under the pointer; what was told of another is forgotten."""
    token, model, request = state.translating.pointed, state.model, state.next_step_request
    state = replace(state, rows_request=0, attention_rows=None)
    if token is None or model is None:
        return state, ()
    heads = state.translating.look.heads(model.layers, model.heads)
    asked = ReadAttentionRows(
        request,
        token.position,
        "from" if token.side == "target" else "to",
        "heads",
        heads,
        part="cross",
    )
    details = replace(state.row_details, request=0)  # one that waits gives way to this one
    state = replace(state, rows_request=request, row_details=details)
    return replace(state, next_step_request=request + 1), (asked,)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetSource: set_source,
    ChooseTask: choose_task,
    ChooseBeams: choose_beams,
    ChooseLongest: choose_longest,
    WriteTarget: write_target,
    ChooseHypothesis: choose_hypothesis,
    StopTarget: stop_target,
    TintTarget: tint_target,
    LookAcross: look_across,
    PointAtToken: point_at,
    ClearTarget: clear,
    RestoreTarget: restore,
}
