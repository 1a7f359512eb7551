"""Actions on weight modes and measurements, and the fold of their events."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from llm_lite.core.messages import (
    AccountStep,
    AnalyzeTensors,
    Cancel,
    ChatMessage,
    Command,
    CommandProgress,
    CompareElsewhere,
    CompareRuns,
    DivergenceMeasured,
    DropVariant,
    Ended,
    EngineOptions,
    Event,
    KeepVariant,
    KernelsStudied,
    MeasureDivergence,
    MeasureModes,
    ModesMeasured,
    ProfileStep,
    RunFinished,
    RunReady,
    RunsForced,
    RunToken,
    SamplingOptions,
    StepAccounted,
    StepProfiled,
    StudyKernels,
    TensorReport,
    VariantDropped,
    VariantKept,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    end_reading,
    hindrance,
    obstacle,
    seeded,
)
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization import state as quant_state
from llm_lite.desktop.features.quantization.state import (
    Choices,
    Quantization,
    RunAnswer,
    RunComparison,
    TaskKind,
    Work,
    with_report,
)
from llm_lite.desktop.features.sampling.model import sampler
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import size

CHUNK = 512  # tokens
SMALLEST_CHUNK = 64


class SetQuantization(Action, frozen=True):
    choices: Choices


class ShowRuns(Action, frozen=True):
    """Show two runs beside the conversation, or return to the layout from before."""

    shown: bool


class RunTask(Action, frozen=True):
    kind: TaskKind


class StopTask(Action, frozen=True):
    pass


class ForgetReports(Action, frozen=True):
    pass


def set_quantization(action: SetQuantization, state: AppState, now: float) -> Result:
    return _with(state, replace(state.quantization, choices=action.choices)), ()


def show_runs(action: ShowRuns, state: AppState, now: float) -> Result:
    held = state.quantization
    if action.shown and held.comparison is None and not held.choices.prompt:
        held = replace(held, choices=first_choices(state))
    return _with(state, held), ()


def first_choices(state: AppState) -> Choices:
    """Choose for run A the chat's options, for B the same in fewer bits, and its last question."""
    asked = [message.text for message in state.messages if message.role == "user"]
    a = state.options
    b = replace(a, mode="int8" if a.mode == "int4" else "int4")
    prompt = asked[-1] if asked else ""
    return replace(state.quantization.choices, runs=(a, b), prompt=prompt)


_OF_ANSWERS: tuple[TaskKind, ...] = ("runs", "report")  # measured of models that go on with texts


def run_task(action: RunTask, state: AppState, now: float) -> Result:
    held = state.quantization
    asks = obstacle if action.kind in _OF_ANSWERS or state.elsewhere else hindrance
    problem = "" if held.work else asks(state)
    if held.work or problem:
        return (notify(state, "warning", problem, now) if problem else state), ()
    if action.kind == "runs" and not held.choices.prompt.strip():
        return state, ()
    if state.elsewhere and action.kind != "runs":
        words = tr("Only a model on this machine can be measured. Disconnect first.")
        return notify(state, "warning", words, now), ()
    state, stop = end_reading(state)
    command = _command(action.kind, state, now)
    held = replace(held, work=Work(command, action.kind)).with_problem(action.kind, "")
    if isinstance(command, CompareRuns):
        held = replace(held, comparison=RunComparison(held.choices.prompt, command.runs))
    elif isinstance(command, CompareElsewhere):
        runs, there = (state.options, state.options), state.remote.connection
        comparison = RunComparison(held.choices.prompt, runs)
        held = replace(held, comparison=replace(comparison, elsewhere=there.where if there else ""))
    return replace(state, quantization=held), (*stop, command)


def _command(kind: TaskKind, state: AppState, now: float) -> Command:
    choices, options = state.quantization.choices, state.options
    if kind == "runs" and state.elsewhere:
        return CompareElsewhere(_messages(state), _sampling(state, now))
    if kind == "runs":
        return CompareRuns(_messages(state), choices.runs, _sampling(state, now))
    if kind == "modes":
        return MeasureModes(options)
    if kind == "tensors":
        return AnalyzeTensors(choices.tensors)
    if kind == "keep":
        return KeepVariant(options.mode)
    if kind == "drop":
        return DropVariant(options.mode)
    if kind == "step":
        return ProfileStep(choices.step)
    if kind == "account":
        return AccountStep(choices.step, state.quantization.parameters(state.executor))
    if kind == "kernels":
        return StudyKernels(choices.kernels)
    exact: EngineOptions = replace(options, activations="a32", keys="fp32", values="fp32")
    tested = replace(exact, mode=choices.tested, activations=options.activations)
    reference = replace(exact, mode=choices.reference)
    context = state.model.trained_context if state.model else CHUNK
    chunk = max(SMALLEST_CHUNK, min(CHUNK, context))
    return MeasureDivergence(choices.path.strip(), tested, reference, chunk)


def _messages(state: AppState) -> tuple[ChatMessage, ...]:
    system = state.system_prompt.strip()
    asked = ChatMessage("user", state.quantization.choices.prompt.strip())
    return (ChatMessage("system", system), asked) if system else (asked,)


def _sampling(state: AppState, now: float) -> SamplingOptions:
    choices, sampling = state.quantization.choices, seeded(sampler(state), state, now)
    sampling = replace(sampling, max_new_tokens=choices.length)
    if choices.greedy:
        sampling = replace(sampling, temperature=0.0, repetition_penalty=1.0)
    return sampling


def stop_task(action: StopTask, state: AppState, now: float) -> Result:
    work = state.quantization.work
    if work is None or work.stopping:
        return state, ()
    work = replace(work, stopping=True)
    return _with(state, replace(state.quantization, work=work)), (Cancel(work.asked),)


def forget_reports(action: ForgetReports, state: AppState, now: float) -> Result:
    return _with(state, replace(state.quantization, reports=())), ()


def _with(state: AppState, quantization: Quantization) -> AppState:
    return replace(state, quantization=quantization)


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetQuantization: set_quantization,
    ShowRuns: show_runs,
    RunTask: run_task,
    StopTask: stop_task,
    ForgetReports: forget_reports,
}


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
    if known is None:
        return held
    answer = change(known.answers[event.run])
    return replace(held, comparison=known.with_answer(event.run, answer))


def _forced(event: RunsForced, held: Quantization) -> Quantization:
    known = held.comparison
    if known is None or event.first != len(known.forced):
        return held
    return replace(held, comparison=replace(known, forced=(*known.forced, *event.tokens)))


def _progress(event: CommandProgress, held: Quantization) -> Quantization:
    if held.work is None:
        return held
    return replace(held, work=replace(held.work, stage=event.stage, fraction=event.fraction))


def _end(event: Ended, held: Quantization) -> Quantization:
    if held.work is None:
        return held
    return replace(held.with_problem(held.work.kind, event.failure), work=None)


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


FOLDS: dict[type[Any], Callable[[Any, Quantization], Quantization]] = {
    RunReady: _ready,
    RunToken: _token,
    RunFinished: _finished,
    RunsForced: _forced,
    CommandProgress: _progress,
    Ended: _end,
    DivergenceMeasured: _report,
    ModesMeasured: _speeds,
    TensorReport: _tensors,
    StepProfiled: _profile,
    KernelsStudied: _kernels,
}


def _task_replied(event: Event, asked: Command, state: AppState, now: float) -> AppState:
    """Fold an event of the task that is running; one that a new model has ended is not any more."""
    if isinstance(event, VariantKept):
        return _kept(event, state, now)
    if isinstance(event, VariantDropped):
        return _dropped(event, state, now)
    held = state.quantization
    if held.work is None or held.work.asked is not asked:
        return state
    if isinstance(event, StepAccounted):
        return replace(state, quantization=held.with_account(event.account, state.executor))
    return replace(state, quantization=FOLDS[type(event)](event, held))


_TASKS = (
    CompareRuns,
    CompareElsewhere,
    MeasureDivergence,
    MeasureModes,
    AnalyzeTensors,
    KeepVariant,
    DropVariant,
    ProfileStep,
    AccountStep,
    StudyKernels,
)
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    **dict.fromkeys(_TASKS, _task_replied),
}
