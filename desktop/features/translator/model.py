"""Actions on the page of an encoder-decoder, the fold of its events, and what is derived of them:
gains of one part of the model, and measures of speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import (
    AttentionPart,
    Cancel,
    Direction,
    Ended,
    Event,
    Gains,
    ModelInfo,
    ReadAttentionRows,
    ReadTarget,
    SourceRead,
    TargetFinished,
    TargetGrown,
    Translate,
    TranslationStats,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.performance import speed
from llm_lite.desktop.features.program import cached_text
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.cached_text import CachedText, common
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, hindrance
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.state import TARGET
from llm_lite.desktop.features.translator.state import (
    LONGEST,
    CrossHeads,
    TokenAt,
    TranslatingState,
    grown,
)
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import milliseconds, rate, tokens

SOURCE_HINT = mark("How fast the encoder read the source.")
TARGET_HINT = mark("How fast the decoder wrote the target: tokens of its best hypothesis.")
STEP_HINT = mark("Decoder time for one token of every hypothesis.")
FULL_HINT = mark("Tokens of the target in the decoder's cache, of those that fit.")


class SetSource(Action, frozen=True):
    """Keep the source as it is typed."""

    text: str


class ChooseTask(Action, frozen=True):
    """Put the prefix of a task before the source, as the model's file has it; "" means none."""

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
    """Tint tokens by how likely they were, or do not."""

    tinted: bool


class ChooseCrossHeads(Action, frozen=True):
    """Tint by other heads of cross-attention."""

    cross: CrossHeads


class PointAtToken(Action, frozen=True):
    """Point at a token, to see its weights of cross-attention; None: at none."""

    token: TokenAt | None


class ClearTarget(Action, frozen=True):
    """Empty the page; what was there can be brought back until another target is written."""


class RestoreTarget(Action, frozen=True):
    """Bring back the source and target that were cleared."""


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
    translating = state.translating
    if not translating.draft.strip():
        return state, ()
    if problem := hindrance(state):
        return notify(state, "warning", problem, now), ()
    source = translating.prefix + translating.draft.strip()
    command = Translate(source, translating.beams, translating.longest)
    return replace(state, translating=translating.begun(command, now)), (command,)


def choose_hypothesis(action: ChooseHypothesis, state: AppState, now: float) -> Result:
    # The decoder reads the hypothesis that was chosen, in a step.
    result, number = state.translating.result, action.number
    if result is None or not 0 <= number < len(result.others):
        return state, ()
    if problem := hindrance(state):
        return notify(state, "warning", problem, now), ()
    translating = state.translating.choosing(number)
    read = ReadTarget(tuple(token.token for token in translating.tokens))
    return shown(state, translating, used=0), (read,)


def stop_target(action: StopTarget, state: AppState, now: float) -> Result:
    writing = state.translating.writing
    if writing is None or state.translating.stopping:
        return state, ()
    translating = replace(state.translating, stopping=True)
    return replace(state, translating=translating), (Cancel(writing),)


def tint_target(action: TintTarget, state: AppState, now: float) -> Result:
    return replace(state, translating=replace(state.translating, tinted=action.tinted)), ()


def choose_cross_heads(action: ChooseCrossHeads, state: AppState, now: float) -> Result:
    return replace(state, translating=replace(state.translating, cross=action.cross)), ()


def point_at(action: PointAtToken, state: AppState, now: float) -> Result:
    return replace(state, translating=replace(state.translating, pointed=action.token)), ()


def pointed_question(state: AppState) -> ReadAttentionRows | None:
    """Return what is asked about the token under the pointer; None while there is none."""
    token, model = state.translating.pointed, state.model
    if token is None or model is None:
        return None
    heads = state.translating.cross.heads(model.layers, model.heads)
    direction: Direction = "from" if token.side == "target" else "to"
    return ReadAttentionRows(token.position, direction, "heads", heads, part="cross")


def clear(action: ClearTarget, state: AppState, now: float) -> Result:
    """Empty the page. A target that is being written is stopped first."""
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
    status = state.cache.status
    return shown(state, cleared, used=status.length if status is not None else 0), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetSource: set_source,
    ChooseTask: choose_task,
    ChooseBeams: choose_beams,
    ChooseLongest: choose_longest,
    WriteTarget: write_target,
    ChooseHypothesis: choose_hypothesis,
    StopTarget: stop_target,
    TintTarget: tint_target,
    ChooseCrossHeads: choose_cross_heads,
    PointAtToken: point_at,
    ClearTarget: clear,
    RestoreTarget: restore,
}


def _target_replied(event: Event, asked: Translate, state: AppState, now: float) -> AppState:
    """Fold an event of the target that is being written."""
    if asked is not state.translating.writing:
        return state
    match event:
        case SourceRead():
            return _source_read(event, state)
        case TargetGrown():
            tokens = grown(event.tokens, event.texts)
            return shown(state, replace(state.translating, tokens=tokens))
        case TargetFinished():
            return _ended(state, event, now)
        case Ended(failure=""):
            return _ended(state, TargetFinished(stop_reason="stopped"), now)
        case Ended():
            return _failed(state, event.failure, now)
    return state


def _source_read(event: SourceRead, state: AppState) -> AppState:
    translating = replace(state.translating, source=event.tokens, start=event.start)
    return shown(state, replace(translating, tokens=(), result=None, pointed=None))


def _ended(state: AppState, target: TargetFinished, now: float) -> AppState:
    mode = state.executor.mode if state.executor else None
    ended = replace(state.translating, result=target, tokens=target.tokens, mode=mode)
    return _at_rest(speed.of_target(state, target, now), ended)


def _failed(state: AppState, problem: str, now: float) -> AppState:
    """Note why the target could not be written; the tokens that came stay."""
    state = _at_rest(state, replace(state.translating, problem=problem))
    return notify(state, "error", problem, now)


def _at_rest(state: AppState, translating: TranslatingState) -> AppState:
    """Show the page's state when nothing is written any more."""
    state = shown(state, replace(translating, writing=None, stopping=False))
    return emptied(state) if translating.clearing else state


def emptied(state: AppState) -> AppState:
    """Empty the page; the engine still holds the source and its target."""
    known = state.translating
    if not (known.draft or known.asked):
        return state
    return replace(
        state, translating=known.emptied(), cached=CachedText(computed=state.cached.computed)
    )


def shown(state: AppState, translating: TranslatingState, used: int | None = None) -> AppState:
    """Show another state of the page, with the texts of the target's positions; `used` of them are
    in the cache, if it is known."""
    texts = (translating.start, *(token.text for token in translating.tokens))
    owners, cached = (TARGET,) * len(texts), state.cached
    if texts != cached.texts or translating.source is not state.translating.source:
        kept = common(cached.texts, texts) if translating.source is state.translating.source else 0
        cached = cached_text.plain(cached, texts, owners, cached.used, kept)
    cached = replace(cached, used=min(cached.used if used is None else used, len(texts)))
    return replace(state, translating=translating, cached=cached)


REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    Translate: _target_replied
}


def rows_of(model: ModelInfo, part: AttentionPart) -> slice:
    """Return the rows of a part among all gains: all, if the model is no encoder-decoder."""
    if model.translator is None:
        return slice(0, model.layers)
    layers = model.layers
    match part:
        case "decoder":
            return slice(0, layers)
        case "cross":
            return slice(layers, 2 * layers)
        case "encoder":
            return slice(2 * layers, 2 * layers + model.translator.encoder_layers)


def with_part(gains: Gains, rows: slice, part: Gains) -> Gains:
    """Replace the rows of one part."""
    return (*gains[: rows.start], *part, *gains[rows.stop :])


def target_measures(state: AppState) -> list[tuple[str, str, str]]:
    """Return name, text and tip of each measure in the status bar, from left to right."""
    result = state.translating.result
    stats = result.stats if result is not None else TranslationStats()
    used, whole = state.context_used, state.model.context if state.model else 0
    return [
        ("source", tr("Source {speed}").format(speed=_speed(source_rate(stats))), tr(SOURCE_HINT)),
        ("target", tr("Target {speed}").format(speed=_speed(stats.tokens_per_s)), tr(TARGET_HINT)),
        ("context", f"{used:,} / {whole:,}", tr(FULL_HINT)),
    ]


def target_facts(stats: TranslationStats) -> list[tuple[str, str, str]]:
    """Name what was read and written for the last target, how fast, with how many hypotheses."""
    pace = tr("{tokens} at {rate} tok/s")
    read = pace.format(tokens=tokens(stats.source_tokens), rate=rate(source_rate(stats)))
    wrote = pace.format(tokens=tokens(stats.new_tokens), rate=rate(stats.tokens_per_s))
    each = stats.decode_ms / stats.new_tokens if stats.new_tokens else 0.0
    return [
        (tr("Source"), read, tr(SOURCE_HINT)),
        (tr("Target"), wrote, tr(TARGET_HINT)),
        (tr("Hypotheses"), f"{stats.beams:,}", tr("They share each step of the decoder.")),
        (tr("A step"), milliseconds(each / 1e3), tr(STEP_HINT)),
    ]


def source_rate(stats: TranslationStats) -> float:
    """Return how many tokens of the source were read a second; 0 if none were."""
    return 1e3 * stats.source_tokens / stats.encode_ms if stats.encode_ms > 0 else 0.0


def _speed(tokens_per_second: float) -> str:
    return f"{rate(tokens_per_second)} tok/s" if tokens_per_second > 0 else "–"
