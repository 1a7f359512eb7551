"""What a person does with weight modes, as pure functions of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from llm_lite.core.messages import (
    AnalyzeTensors,
    ChatMessage,
    Command,
    CompareElsewhere,
    CompareRuns,
    DropVariant,
    EngineOptions,
    KeepVariant,
    MeasureDivergence,
    MeasureModes,
    ProfileStep,
    SamplingOptions,
    Stop,
    StudyKernels,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, end_reading, hindrance, obstacle
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.state import (
    Choices,
    Quantization,
    RunComparison,
    TaskKind,
    Work,
)
from llm_lite.desktop.features.sampling.model import sampler
from llm_lite.desktop.language.translate import tr

CHUNK = 512  # tokens
SMALLEST_CHUNK = 64


class SetQuantization(Struct, frozen=True):
    choices: Choices


class ShowRuns(Struct, frozen=True):
    """The runs beside the conversation, or the layout from before."""

    shown: bool


class RunTask(Struct, frozen=True):
    kind: TaskKind


class StopTask(Struct, frozen=True):
    pass


class ForgetReports(Struct, frozen=True):
    pass


QuantAction = SetQuantization | ShowRuns | RunTask | StopTask | ForgetReports


def set_quantization(action: SetQuantization, state: AppState, now: float) -> Result:
    return _with(state, replace(state.quantization, choices=action.choices)), ()


def show_runs(action: ShowRuns, state: AppState, now: float) -> Result:
    held, layouts = state.quantization, state.layouts
    if not action.shown:
        back = layouts.before if layouts.name == "compare" else layouts.name
        return replace(state, layouts=layouts.to(back)), ()
    if held.comparison is None and not held.choices.prompt:
        held = replace(held, choices=first_choices(state))
    return _with(replace(state, layouts=layouts.to("compare")), held), ()


def first_choices(state: AppState) -> Choices:
    """Run A is the chat as it is, B the same in fewer bits; the prompt is what was asked last."""
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
    request = state.next_request
    command = _command(action.kind, request, state, now)
    held = replace(held, work=Work(request, action.kind)).with_problem(action.kind, "")
    if isinstance(command, CompareRuns):
        held = replace(held, comparison=RunComparison(request, held.choices.prompt, command.runs))
    elif isinstance(command, CompareElsewhere):
        runs, there = (state.options, state.options), state.remote.connection
        comparison = RunComparison(request, held.choices.prompt, runs)
        held = replace(held, comparison=replace(comparison, elsewhere=there.where if there else ""))
    state = replace(state, quantization=held, next_request=request + 1)
    return state, (*stop, command)


def _command(kind: TaskKind, request: int, state: AppState, now: float) -> Command:
    choices, options = state.quantization.choices, state.options
    if kind == "runs" and state.elsewhere:
        return CompareElsewhere(request, _messages(state), _sampling(state, request))
    if kind == "runs":
        return CompareRuns(request, _messages(state), choices.runs, _sampling(state, request))
    if kind == "modes":
        return MeasureModes(request, options)
    if kind == "tensors":
        return AnalyzeTensors(request, choices.tensors)
    if kind == "keep":
        return KeepVariant(request, options.mode)
    if kind == "drop":
        return DropVariant(request, options.mode)
    if kind == "step":
        return ProfileStep(request, choices.step)
    if kind == "kernels":
        return StudyKernels(request, choices.kernels)
    exact: EngineOptions = replace(options, activations="a32", keys="fp32", values="fp32")
    tested = replace(exact, mode=choices.tested, activations=options.activations)
    reference = replace(exact, mode=choices.reference)
    context = state.model.trained_context if state.model else CHUNK
    chunk = max(SMALLEST_CHUNK, min(CHUNK, context))
    return MeasureDivergence(request, choices.path.strip(), tested, reference, chunk)


def _messages(state: AppState) -> tuple[ChatMessage, ...]:
    system = state.system_prompt.strip()
    asked = ChatMessage("user", state.quantization.choices.prompt.strip())
    return (ChatMessage("system", system), asked) if system else (asked,)


def _sampling(state: AppState, request: int) -> SamplingOptions:
    choices, sampling = state.quantization.choices, sampler(state)
    seed = request if sampling.seed is None else sampling.seed
    sampling = replace(sampling, max_new_tokens=choices.length, seed=seed)
    if choices.greedy:
        sampling = replace(sampling, temperature=0.0, repetition_penalty=1.0)
    return sampling


def stop_task(action: StopTask, state: AppState, now: float) -> Result:
    work = state.quantization.work
    if work is None or work.stopping:
        return state, ()
    work = replace(work, stopping=True)
    return _with(state, replace(state.quantization, work=work)), (Stop(),)


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
