"""Long work with the loaded model that is no answer: comparisons and measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core.assets import ASSETS
from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.engine.comparison import compare_runs
from llm_lite.core.engine.interventions_comparison import compare_answer
from llm_lite.core.engine.task_context import TaskContext
from llm_lite.core.errors import CancelledError, LlmLiteError, RequestError
from llm_lite.core.files.writing import make_folder
from llm_lite.core.loading import loader
from llm_lite.core.loading.kept_variants import place_of, remove
from llm_lite.core.messages import (
    AccountStep,
    AnalyzeTensors,
    CommandProgress,
    CompareAnswer,
    CompareRuns,
    DivergenceMeasured,
    DropVariant,
    EngineOptions,
    KeepVariant,
    KernelsStudied,
    KernelStudy,
    MeasureDivergence,
    MeasureModes,
    ModesMeasured,
    ProfileStep,
    StepAccounted,
    StepProfiled,
    StudyKernels,
    Task,
    TensorReport,
    VariantDropped,
    VariantKept,
)
from llm_lite.core.metrics.kernel_study.study import products_on, study
from llm_lite.core.metrics.modes import measure_modes, recommend
from llm_lite.core.metrics.perplexity import measure, read_chunks
from llm_lite.core.metrics.step_profile import account_step, profile_step
from llm_lite.core.metrics.tensors import analyze
from llm_lite.core.records import replace

SAMPLE = ASSETS / "sample.txt"
STOPPED = "it was stopped"
LOADING = 0.1  # of the time that a measurement takes, about


def run_task(task: Task, context: TaskContext) -> str:
    """Run a task, which emits its results; return "" or, if it could not be done, a sentence."""
    try:
        _TASKS[type(task)](task, context)
    except CancelledError:
        return STOPPED
    except LlmLiteError as error:
        return str(error)
    return ""


class _Report:
    """Reports how far a task is, from `low` to `high`; CancelledError to stop it."""

    def __init__(self, context: TaskContext, low: float = 0.0, high: float = 1.0) -> None:
        self._context = context
        self._low, self._high = low, high

    def __call__(self, stage: str, fraction: float) -> None:
        if self._context.should_stop():
            raise CancelledError("stopped")
        self._context.between()
        whole = self._low + (self._high - self._low) * fraction
        self._context.emit(CommandProgress(stage, whole))


def _measure_divergence(task: MeasureDivergence, context: TaskContext) -> None:
    if context.file.model.translates:
        raise RequestError(
            f"{context.runner.model_info.name} is an encoder-decoder: perplexity is measured on "
            "running text, which it does not continue; write the same target in both modes and "
            "compare the scores"
        )
    path = Path(task.path) if task.path else SAMPLE
    chunks = read_chunks(path, context.file.tokenizer, task.chunk, task.most_chunks)

    def prepared(options: EngineOptions) -> EngineOptions:
        return replace(options, context=task.chunk, query_budget=0)

    half = LOADING / 2
    reports = _Report(context, 0.0, half), _Report(context, half, LOADING)
    scoring = _Report(context, LOADING, 1.0)
    with (
        loader.started(context.file, prepared(task.tested), context.device, reports[0]) as tested,
        loader.started(context.file, prepared(task.reference), context.device, reports[1]) as other,
    ):
        report = measure(
            tested,
            other,
            chunks,
            lambda done, total: scoring(f"{done:,} of {total:,} tokens", done / total),
            context.should_stop,
        )
    context.emit(DivergenceMeasured(report))


def _study_kernels(task: StudyKernels, context: TaskContext) -> None:
    def emit_study(found: KernelStudy) -> None:
        context.emit(KernelsStudied(found))

    products = products_on(task.backend, context.device, context.options.threads)
    study(products, _Report(context), emit_study)


def _analyze(task: AnalyzeTensors, context: TaskContext) -> None:
    report = _Report(context)
    rows = analyze(context.file.file.tensors, task.mode, report, context.file.path)
    context.emit(TensorReport(task.mode, rows))


def _keep(task: KeepVariant, context: TaskContext) -> None:
    if context.variants is None:
        raise RequestError("no folder was given to keep variants in")
    path = place_of(context.variants, context.file, task.mode)
    make_folder(context.variants)
    progress = _Report(context)
    report = quantize(context.file, path, task.mode, replace=True, progress=progress)
    context.file.kept[task.mode] = path
    context.emit(VariantKept(task.mode, str(path), report.nbytes))


def _drop(task: DropVariant, context: TaskContext) -> None:
    """Delete a kept variant; weights that are mapped from it stay valid until they are released."""
    path = context.file.kept.get(task.mode)
    if path is None:
        raise RequestError(f"no variant in {task.mode} is kept of this model")
    nbytes = remove(path)
    del context.file.kept[task.mode]
    context.emit(VariantDropped(task.mode, nbytes))


def _profile_step(task: ProfileStep, context: TaskContext) -> None:
    found = profile_step(context.runner, task.tokens, _Report(context))
    context.emit(StepProfiled(found))


def _account_step(task: AccountStep, context: TaskContext) -> None:
    found = account_step(context.runner, task.tokens, task.parameters)
    context.emit(StepAccounted(found))


def _measure_modes(task: MeasureModes, context: TaskContext) -> None:
    report = _Report(context)
    rows = measure_modes(context.file, task.options, context.device, report)
    device = context.runner.executor_info.device
    context.emit(ModesMeasured(device, rows, *recommend(rows)))


_TASKS: dict[type[Any], Callable[[Any, TaskContext], None]] = {
    CompareRuns: compare_runs,
    CompareAnswer: compare_answer,
    MeasureDivergence: _measure_divergence,
    MeasureModes: _measure_modes,
    AnalyzeTensors: _analyze,
    KeepVariant: _keep,
    DropVariant: _drop,
    ProfileStep: _profile_step,
    AccountStep: _account_step,
    StudyKernels: _study_kernels,
}
