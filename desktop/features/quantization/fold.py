"""What the engine says of runs and measurements, folded into the state."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from llm_lite.core.messages import (
    DivergenceMeasured,
    KernelsStudied,
    ModesMeasured,
    RunFinished,
    RunReady,
    RunsForced,
    RunToken,
    StepProfiled,
    TaskFinished,
    TaskProgress,
    TensorReport,
    VariantDropped,
    VariantKept,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization import state as quant_state
from llm_lite.desktop.features.quantization.state import Quantization, RunAnswer, with_report
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import size


def _ready(event: RunReady, held: Quantization) -> Quantization:
    return _answer(
        held,
        event,
        lambda answer: replace(
            answer,
            executor=event.executor,
            weight_bytes=event.weight_bytes,
            cache_bytes=event.cache_bytes,
            shared=event.shared,
        ),
    )


def _token(event: RunToken, held: Quantization) -> Quantization:
    token = quant_state.RunToken(event.token, event.text, event.probability, event.alternatives)
    return _answer(
        held,
        event,
        lambda answer: replace(
            answer, text=answer.text + event.text, tokens=(*answer.tokens, token)
        ),
    )


def _finished(event: RunFinished, held: Quantization) -> Quantization:
    return _answer(
        held,
        event,
        lambda answer: replace(answer, stop_reason=event.stop_reason, stats=event.stats),
    )


def _answer(
    held: Quantization,
    event: RunReady | RunToken | RunFinished,
    change: Callable[[RunAnswer], RunAnswer],
) -> Quantization:
    known = held.comparison
    if known is None or known.request != event.request:
        return held
    answer = change(known.answers[event.run])
    return replace(held, comparison=known.with_answer(event.run, answer))


def _forced(event: RunsForced, held: Quantization) -> Quantization:
    known = held.comparison
    if known is None or known.request != event.request or event.first != len(known.forced):
        return held
    return replace(held, comparison=replace(known, forced=(*known.forced, *event.tokens)))


def _progress(event: TaskProgress, held: Quantization) -> Quantization:
    if held.work is None or held.work.request != event.request:
        return held
    return replace(held, work=replace(held.work, stage=event.stage, fraction=event.fraction))


def _end(event: TaskFinished, held: Quantization) -> Quantization:
    if held.work is None or held.work.request != event.request:
        return held
    words = "" if held.work.stopping else event.message
    return replace(held.with_problem(held.work.kind, words), work=None)


def _report(event: DivergenceMeasured, held: Quantization) -> Quantization:
    return replace(held, reports=with_report(held.reports, event.report))


def _speeds(event: ModesMeasured, held: Quantization) -> Quantization:
    return replace(held, speeds=event)


def _tensors(event: TensorReport, held: Quantization) -> Quantization:
    return replace(held, tensors=event)


def _profile(event: StepProfiled, held: Quantization) -> Quantization:
    return replace(held, profile=event.profile)


def _kernels(event: KernelsStudied, held: Quantization) -> Quantization:
    return held.with_study(event.study)


def _kept(event: VariantKept, state: AppState, now: float) -> AppState:
    if state.model is None:
        return state
    kept = MappingProxyType({**state.model.kept, event.mode: event.path})
    words = tr("{mode} is kept on disk, {size}: {path}").format(
        mode=event.mode, size=size(event.nbytes), path=event.path
    )
    return notify(replace(state, model=replace(state.model, kept=kept)), "info", words, now)


def _dropped(event: VariantDropped, state: AppState, now: float) -> AppState:
    if state.model is None:
        return state
    kept = {mode: path for mode, path in state.model.kept.items() if mode != event.mode}
    words = tr("{mode} is no longer kept on disk, which has {size} more room.").format(
        mode=event.mode, size=size(event.nbytes)
    )
    model = replace(state.model, kept=MappingProxyType(kept))
    return notify(replace(state, model=model), "info", words, now)


_FOLDS: dict[type[Any], Callable[[Any, Quantization], Quantization]] = {
    RunReady: _ready,
    RunToken: _token,
    RunFinished: _finished,
    RunsForced: _forced,
    TaskProgress: _progress,
    TaskFinished: _end,
    DivergenceMeasured: _report,
    ModesMeasured: _speeds,
    TensorReport: _tensors,
    StepProfiled: _profile,
    KernelsStudied: _kernels,
}


def _fold(event: Any, state: AppState, now: float) -> AppState:
    return replace(state, quantization=_FOLDS[type(event)](event, state.quantization))


EVENTS: dict[type[Any], Callable[[Any, AppState, float], AppState]] = {
    **dict.fromkeys(_FOLDS, _fold),
    VariantKept: _kept,
    VariantDropped: _dropped,
}


def forget(state: AppState) -> AppState:
    """Another model: what was measured of the last one says nothing of it, but for kernels."""
    held = state.quantization
    return replace(state, quantization=Quantization(choices=held.choices, studies=held.studies))
