"""Actions that look inside an answer and change it, and what events of the engine change of
that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    AnswerDivergence,
    AttentionRows,
    AttentionRowsMode,
    Cancel,
    CompareAnswer,
    CompareGains,
    Direction,
    Ended,
    Event,
    ExportMaps,
    FollowToken,
    Gains,
    GainsEffect,
    Generate,
    Inspect,
    KeepConversation,
    LensResult,
    MapsExported,
    ReadAttentionRows,
    ReadStates,
    SetGains,
    StatesRead,
    TokenFollowed,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import Head
from llm_lite.desktop.features.chat.reading import is_sentence_only, offered, template_values
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    ask_again,
    comparison_under_way,
    conversation,
    end_reading,
    hindrance,
    obstacle,
    own_tokens,
    read_again,
    show_tree,
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


class LookAtState(Action, frozen=True):
    """Ask what a head of a recurrent state holds; `key` is what the text is now."""

    head: Head
    key: tuple[object, ...]


class ReadAgain(Action, frozen=True):
    """Bring the conversation as it is shown back into the cache, with the queries of all its
    tokens, to look into it."""


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
        return replace(state, xray=xray, rows_asked=None, attention_rows=None), ()
    return ask_rows(state)


def is_held(state: AppState, position: int) -> bool:
    """Return whether the cache holds a token of what is in front at a position: behind it there may
    be tokens of another conversation."""
    if state.elsewhere:  # a server need not report the tokens of its prompt
        return bool(state.owners)
    return position < len(state.owners) or not state.holds_conversations


def ask_rows(state: AppState) -> Result:
    """Ask again where the token under the pointer attends, if there is one."""
    xray = state.xray
    if xray.at is None or not is_held(state, xray.at):
        return state, ()
    direction: Direction = "to" if xray.looks_back else "from"
    heads = ((xray.layer, xray.head),) if xray.by == "head" else state.attention.locked
    if xray.by == "locked" and not heads:
        nothing = AttentionRows(xray.at, direction, (), NOTHING_LOCKED)
        return replace(state, rows_asked=None, attention_rows=nothing), ()
    asked = ReadAttentionRows(
        xray.at,
        direction,
        MODES[xray.by],
        heads if MODES[xray.by] == "heads" else (),
        xray.layer,
        state.attention.exclude_first,
    )
    details = replace(state.row_details, asked=None)  # one that waits gives way to this one
    return replace(state, rows_asked=asked, row_details=details), (asked,)


def show_row(action: ShowRow, state: AppState, now: float) -> Result:
    details = state.row_details
    if not is_held(state, action.position):
        return state, ()
    rows = details.rows if details.key == action.key else ()
    part = state.attention.part
    asked = ReadAttentionRows(action.position, "from", "heads", (action.head,), part=part)
    details = RowDetails(action.key, action.head, asked, rows)
    return replace(state, row_details=details), (asked,)


def show_lens(action: ShowLens, state: AppState, now: float) -> Result:
    if not is_held(state, action.position):
        return state, ()
    asked = Inspect(action.position)
    return replace(state, lens=replace(state.lens, key=action.key, asked=asked)), (asked,)


def look_at_state(action: LookAtState, state: AppState, now: float) -> Result:
    if not is_held(state, state.context_used - 1):
        return state, ()
    asked = ReadStates(*action.head)
    states = replace(state.states, key=action.key, asked=asked, problem="")
    return replace(state, states=states), (asked,)


def switch_version(action: SwitchVersion, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    versions = state.tree.versions(action.index)
    if not 0 <= action.place < len(versions):
        return state, ()
    if state.running:
        return notify(state, "warning", obstacle(state), now), ()
    state, stop = end_reading(state)
    state = show_tree(state, state.tree.showing(versions[action.place]))
    return replace(state, comparing=None), stop


def reread(action: ReadAgain, state: AppState, now: float) -> Result:
    problem = obstacle(state)
    if state.elsewhere:
        problem = tr("A server reads the conversation with the next answer, when it is asked.")
    if problem:
        return notify(state, "warning", problem, now), ()
    return read_again(state)


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
    left = comparison_under_way(before)
    if left and left != comparison_under_way(state):
        commands = (*map(Cancel, left), *commands)
    state, gains = send_gains(state)
    if not gains:
        return state, commands
    first = tuple(c for c in commands if isinstance(c, Cancel | KeepConversation))
    return state, (*first, *gains, *(c for c in commands if c not in first))


def compare_gains(state: AppState) -> Result:
    """Ask for the effect of gains that changed, one question at a time."""
    steering = state.steering
    if not steering.stale or steering.asked or not state.context_used:
        return state, ()
    asked = CompareGains()
    return replace(state, steering=replace(steering, asked=asked, stale=False)), (asked,)


def answer_steered(action: AnswerSteered, state: AppState, now: float) -> Result:
    index, gains = len(state.messages) - 1, state.steering.gains
    if gains is None or not _answers(state, index):
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    known = state.comparing
    base = known.base if known and known.index == index else state.messages[index].id
    compared = state.tree.find(base)
    sampling = compared.sampling if compared else None
    state, commands = ask_again(state, index, now, sampling=sampling, gains=gains)
    return replace(state, comparing=AnswerComparison(index, base)), commands


def end_comparison(action: EndComparison, state: AppState, now: float) -> Result:
    return replace(state, comparing=None), ()


def compare_answer_due(state: AppState) -> Result:
    """Ask, once both answers of a comparison are whole, how far their gains are apart over all of
    the first."""
    known = state.comparing
    if known is None or known.asked is not None or not 0 <= known.index < len(state.messages):
        return state, ()
    if hindrance(state) or state.reading or state.elsewhere or not state.holds_conversations:
        return state, ()
    base, steered = state.tree.find(known.base), state.messages[known.index]
    if base is None or not (own_tokens(state, base) and own_tokens(state, steered)):
        return state, ()
    before = state.messages[: known.index]
    request = Generate(
        conversation(state, before),
        thinking=state.thinking,
        tools=offered(state),
        raw=is_sentence_only(state),
        values=template_values(state),
    )
    first, second = (one.written.gains if one.written else None for one in (base, steered))
    asked = CompareAnswer(request, tuple(token.id for token in base.tokens), (first, second))
    return replace(state, comparing=replace(known, asked=asked)), (asked,)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetXRay: set_xray,
    ShowLens: show_lens,
    SwitchVersion: switch_version,
    ReadAgain: reread,
    ShowRow: show_row,
    LookAtState: look_at_state,
    Steer: steer,
    AnswerSteered: answer_steered,
    EndComparison: end_comparison,
}


def _rows_replied(event: Event, asked: ReadAttentionRows, state: AppState, now: float) -> AppState:
    if isinstance(event, AttentionRows):
        found = event
    elif isinstance(event, Ended) and event.failure:
        found = AttentionRows(asked.position, asked.direction, (), event.failure)
    else:
        return state
    details = state.row_details
    if asked is details.asked and details.head is not None:
        rows = (*details.rows, (details.head, found))
        return replace(state, row_details=replace(details, asked=None, rows=rows))
    if asked is state.rows_asked:
        return replace(state, rows_asked=None, attention_rows=found)
    return state


def _export_replied(event: Event, asked: ExportMaps, state: AppState, now: float) -> AppState:
    if isinstance(event, MapsExported):
        return notify(state, "info", tr("Saved {path}").format(path=event.path), now)
    if isinstance(event, Ended) and event.failure:
        return notify(state, "warning", event.failure, now)
    return state


def _lens_replied(event: Event, asked: Inspect, state: AppState, now: float) -> AppState:
    lens = state.lens
    if asked is not lens.asked:
        return state
    if isinstance(event, LensResult):
        return replace(state, lens=replace(lens, result=event, problem=""))
    if isinstance(event, Ended):
        problem = event.failure or lens.problem
        return replace(state, lens=replace(lens, asked=None, problem=problem))
    return state


def _states_replied(event: Event, asked: ReadStates, state: AppState, now: float) -> AppState:
    states = state.states
    if asked is not states.asked:
        return state
    if isinstance(event, StatesRead):
        return replace(state, states=replace(states, read=event, read_of=states.key))
    if isinstance(event, Ended):
        return replace(state, states=replace(states, asked=None, problem=event.failure))
    return state


def _effect_replied(event: Event, asked: CompareGains, state: AppState, now: float) -> AppState:
    steering = state.steering
    if asked is not steering.asked:
        return state
    if isinstance(event, GainsEffect):
        return replace(state, steering=replace(steering, effect=event))
    effect = None if isinstance(event, Ended) and event.problem else steering.effect
    return replace(state, steering=replace(steering, asked=None, effect=effect))


def _divergence_replied(
    event: Event, asked: CompareAnswer, state: AppState, now: float
) -> AppState:
    known = state.comparing
    if known is None or asked is not known.asked:
        return state
    if isinstance(event, AnswerDivergence):
        return replace(state, comparing=replace(known, over=True, kl=event.kl))
    return replace(state, comparing=replace(known, over=isinstance(event, Ended) or known.over))


def _trace_replied(event: Event, asked: FollowToken, state: AppState, now: float) -> AppState:
    lesson, texts = state.lesson, state.positions
    if asked is not lesson.asked:
        return state
    if isinstance(event, Ended):
        ended = lesson.with_problem(event.failure) if event.failure else replace(lesson, asked=None)
        return replace(state, lesson=ended)
    if not isinstance(event, TokenFollowed):
        return state
    trace = event.trace
    if trace.shape.path == "encoder_decoder":
        words = trace.texts
    else:  # positions know characters that several tokens make
        words = tuple(texts[p] if p < len(texts) else "" for p, _ in trace.tokens)
    return replace(state, lesson=lesson.with_trace(trace, words))


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    ReadAttentionRows: _rows_replied,
    ExportMaps: _export_replied,
    Inspect: _lens_replied,
    ReadStates: _states_replied,
    CompareGains: _effect_replied,
    CompareAnswer: _divergence_replied,
    FollowToken: _trace_replied,
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
