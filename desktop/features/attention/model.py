"""Actions that look inside an answer and change it, and what events of the engine change of
that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    AttentionRows,
    AttentionRowsMode,
    Command,
    CompareGains,
    Direction,
    Gains,
    GainsEffect,
    Inspect,
    KeepConversation,
    LensResult,
    MapsExported,
    ReadAttentionRows,
    SetGains,
    Stop,
    TokenFollowed,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import Head
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    ask_again,
    end_reading,
    obstacle,
    read_again,
    switch,
    versions,
)
from llm_lite.desktop.features.program.settings import Looks, Settings
from llm_lite.desktop.features.program.state import AnswerComparison, AppState, RowDetails
from llm_lite.desktop.features.tokens.state import XRay
from llm_lite.desktop.language.translate import mark, tr

NOTHING_LOCKED = mark("Lock heads in the Attention view first: click their maps.")
MODES: dict[str, AttentionRowsMode] = {
    "head": "heads",
    "layer": "layer-mean",
    "locked": "heads",
    "rollout": "rollout",
}

# Fields of `Looks` that are of the X-ray, and of the choice of maps
_KEPT_OF_TOKENS = ("by", "reverse", "probabilities", "drafts")
_KEPT_OF_MAPS = ("colors", "logarithmic", "high", "exclude_first")


class SetXRay(Action, frozen=True):
    """Choose what the text shows; with another `at`, where that token attends is asked."""

    xray: XRay


class ShowLens(Action, frozen=True):
    """Ask what every layer would predict after the token at `position`; `key` is the view's."""

    position: int
    key: tuple[object, ...]


class SwitchVersion(Action, frozen=True):
    index: int
    place: int


class ShowRow(Action, frozen=True):
    """Ask where the token at a position attends by one head; `key` is what the text is now."""

    position: int
    head: Head
    key: tuple[object, ...]


class ReadAgain(Action, frozen=True):
    """Bring the conversation as it is shown back into the cache, to look into it; `afresh`, with
    the queries of all its tokens."""

    afresh: bool = False


class Steer(Action, frozen=True):
    """Weigh the heads; None: all by 1."""

    gains: Gains | None


class AnswerSteered(Action, frozen=True):
    """Answer the last message again with these gains, beside the answer that is there."""


class EndComparison(Action, frozen=True):
    pass


def set_xray(action: SetXRay, state: AppState, now: float) -> Result:
    before, state = state.xray, replace(state, xray=action.xray)
    if action.xray == before:
        return state, ()
    shown = action.xray.shown or state.encodes
    if action.xray.at is None or not shown:
        xray = replace(action.xray, at=None)
        return replace(state, xray=xray, rows_request=0, attention_rows=None), ()
    return ask_rows(state)


def is_held(state: AppState, position: int) -> bool:
    """Return whether the cache holds a token of what is in front at a position: behind it there may
    be tokens of another conversation."""
    if state.elsewhere:  # a server need not report the tokens of its prompt
        return bool(state.owners)
    return position < len(state.owners) or not state.holds_conversations


def ask_rows(state: AppState) -> Result:
    """Ask again where the token under the pointer attends, if there is one."""
    xray, request = state.xray, state.next_step_request
    if xray.at is None or not is_held(state, xray.at):
        return state, ()
    direction: Direction = "to" if xray.looks_back else "from"
    heads = ((xray.layer, xray.head),) if xray.by == "head" else state.attention.locked
    if xray.by == "locked" and not heads:
        nothing = AttentionRows(0, xray.at, direction, (), NOTHING_LOCKED)
        return replace(state, rows_request=0, attention_rows=nothing), ()
    asked = ReadAttentionRows(
        request,
        xray.at,
        direction,
        MODES[xray.by],
        heads if MODES[xray.by] == "heads" else (),
        xray.layer,
        state.attention.exclude_first,
    )
    details = replace(state.row_details, request=0)  # one that waits gives way to this one
    state = replace(state, rows_request=request, row_details=details)
    return replace(state, next_step_request=request + 1), (asked,)


def show_row(action: ShowRow, state: AppState, now: float) -> Result:
    request, details = state.next_step_request, state.row_details
    if not is_held(state, action.position):
        return state, ()
    rows = details.rows if details.key == action.key else ()
    details = RowDetails(action.key, action.head, request, rows)
    asked = ReadAttentionRows(
        request, action.position, "from", "heads", (action.head,), part=state.attention.part
    )
    return replace(state, row_details=details, next_step_request=request + 1), (asked,)


def show_lens(action: ShowLens, state: AppState, now: float) -> Result:
    if not is_held(state, action.position):
        return state, ()
    request = state.next_step_request
    lens = replace(state.lens, key=action.key, request=request)
    return replace(state, lens=lens, next_step_request=request + 1), (
        Inspect(action.position, request),
    )


def switch_version(action: SwitchVersion, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    if not 0 <= action.place <= len(state.messages[action.index].versions):
        return state, ()
    if state.running:
        return notify(state, "warning", obstacle(state), now), ()
    state, stop = end_reading(state)
    return replace(switch(state, action.index, action.place), comparing=None), stop


def reread(action: ReadAgain, state: AppState, now: float) -> Result:
    problem = obstacle(state)
    if state.elsewhere:
        problem = tr("A server reads the conversation with the next answer, when it is asked.")
    if problem:
        return notify(state, "warning", problem, now), ()
    return read_again(state, action.afresh)


def _answers(state: AppState, index: int) -> bool:
    return 0 <= index < len(state.messages) and state.messages[index].role == "assistant"


def steer(action: Steer, state: AppState, now: float) -> Result:
    model, gains = state.model, action.gains
    if model is None or gains == state.steering.gains or state.elsewhere:
        return state, ()
    if gains is not None and all(gain == 1.0 for row in gains for gain in row):
        gains = None
    state = replace(state, steering=state.steering.set(gains, model))
    state, changes = send_gains(state)
    state, commands = compare_gains(state)
    return state, (*changes, *commands)


def send_gains(state: AppState) -> Result:
    """Send the engine here the gains that are in force, where it has others: those of the
    conversation in front, whatever brought it there. A model that is being loaded has its own."""
    wanted, known = state.steering.gains, state.gains_told
    if wanted == known or (state.load and not state.load.request):
        return state, ()
    gains = wanted
    if gains is None:
        gains = tuple((1.0,) * len(row) for row in known or ())
    return replace(state, gains_told=wanted), (SetGains(gains),)


def follow_gains(action: object, before: AppState, result: Result, now: float) -> Result:
    """Send the engine the gains that an action brought into force, before all that is of these.
    What stops an answer or keeps its cache is of the gains before."""
    state, commands = result
    state, gains = send_gains(state)
    if not gains:
        return state, commands
    first = tuple(c for c in commands if isinstance(c, Stop | KeepConversation))
    return state, (*first, *gains, *(c for c in commands if c not in first))


def compare_gains(state: AppState) -> Result:
    """Ask for the effect of gains that changed, one question at a time."""
    steering, request = state.steering, state.next_step_request
    if not steering.stale or steering.request or not state.context_used:
        return state, ()
    steering = replace(steering, request=request, stale=False)
    commands: tuple[Command, ...] = (CompareGains(request),)
    return replace(state, steering=steering, next_step_request=request + 1), commands


def answer_steered(action: AnswerSteered, state: AppState, now: float) -> Result:
    index, gains = len(state.messages) - 1, state.steering.gains
    if gains is None or not _answers(state, index):
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    known = state.comparing
    base = known.base if known and known.index == index else state.messages[index].place
    sampling = versions(state, index)[base][0].sampling
    state, commands = ask_again(state, index, now, sampling=sampling, gains=gains)
    return replace(state, comparing=AnswerComparison(index, base)), commands


def end_comparison(action: EndComparison, state: AppState, now: float) -> Result:
    return replace(state, comparing=None), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetXRay: set_xray,
    ShowLens: show_lens,
    SwitchVersion: switch_version,
    ReadAgain: reread,
    ShowRow: show_row,
    Steer: steer,
    AnswerSteered: answer_steered,
    EndComparison: end_comparison,
}


def _attention_rows(event: AttentionRows, state: AppState, now: float) -> AppState:
    details = state.row_details
    if event.request == details.request and details.head is not None:
        rows = (*details.rows, (details.head, event))
        return replace(state, row_details=replace(details, request=0, rows=rows))
    return (
        replace(state, rows_request=0, attention_rows=event)
        if event.request == state.rows_request
        else state
    )


def _maps_exported(event: MapsExported, state: AppState, now: float) -> AppState:
    if event.message:
        return notify(state, "warning", event.message, now)
    return notify(state, "info", tr("Saved {path}").format(path=event.path), now)


def _lens_result(event: LensResult, state: AppState, now: float) -> AppState:
    if event.request != state.lens.request:
        return state
    return replace(state, lens=replace(state.lens, request=0, result=event))


def _gains_effect(event: GainsEffect, state: AppState, now: float) -> AppState:
    if event.request != state.steering.request:
        return state
    return replace(state, steering=replace(state.steering, request=0, effect=event))


def _token_followed(event: TokenFollowed, state: AppState, now: float) -> AppState:
    lesson, trace, texts = state.lesson, event.trace, state.positions
    if event.request != lesson.request:
        return state
    if trace is None:
        return replace(state, lesson=lesson.with_problem(event.message))
    if trace.shape.path == "encoder_decoder":
        words = trace.texts
    else:  # positions know characters that several tokens make
        words = tuple(texts[p] if p < len(texts) else "" for p, _ in trace.tokens)
    return replace(state, lesson=lesson.with_trace(trace, words))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    AttentionRows: _attention_rows,
    MapsExported: _maps_exported,
    LensResult: _lens_result,
    GainsEffect: _gains_effect,
    TokenFollowed: _token_followed,
}


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    looks = {name: getattr(state.xray, name) for name in _KEPT_OF_TOKENS}
    looks |= {name: getattr(state.attention, name) for name in _KEPT_OF_MAPS}
    return {"looks": Looks(**looks)}


def restore(settings: Settings, state: AppState) -> AppState:
    tokens = {name: getattr(settings.looks, name) for name in _KEPT_OF_TOKENS}
    maps = {name: getattr(settings.looks, name) for name in _KEPT_OF_MAPS}
    xray, attention = replace(state.xray, **tokens), replace(state.attention, **maps)
    return replace(state, xray=xray, attention=attention)
