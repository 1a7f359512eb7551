"""Long work with the loaded model that is no answer: comparisons and measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llm_lite.core.assets import ASSETS
from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.engine.comparison import compare_lanes
from llm_lite.core.engine.task_context import Workbench
from llm_lite.core.errors import CancelledError, LlmLiteError, RequestError
from llm_lite.core.files.writing import make_folder
from llm_lite.core.loading import loader
from llm_lite.core.loading.kept_variants import place_of, remove
from llm_lite.core.messages import (
    AnalyzeTensors,
    CompareLanes,
    DivergenceMeasured,
    DropVariant,
    EngineOptions,
    KeepVariant,
    MeasureDivergence,
    ModesMeasured,
    ProfileStep,
    StepProfiled,
    Task,
    TaskProgress,
    TensorReport,
    VariantDropped,
    VariantKept,
)
from llm_lite.core.metrics.modes import measure_modes, recommend
from llm_lite.core.metrics.perplexity import measure, read_chunks
from llm_lite.core.metrics.step_profile import profile_step
from llm_lite.core.metrics.tensors import analyze

SAMPLE = ASSETS / "sample.txt"
STOPPED = "it was stopped"
LOADING = 0.1  # of the time that a measurement takes, about


def run_task(task: Task, bench: Workbench) -> str:
    """Emits what was found; "" or, where it did not come to its end, a sentence."""
    try:
        if isinstance(task, CompareLanes):
            compare_lanes(task, bench)
        elif isinstance(task, MeasureDivergence):
            _measure_divergence(task, bench)
        elif isinstance(task, AnalyzeTensors):
            _analyze(task, bench)
        elif isinstance(task, KeepVariant):
            _keep(task, bench)
        elif isinstance(task, DropVariant):
            _drop(task, bench)
        elif isinstance(task, ProfileStep):
            found = profile_step(bench.runner, task.tokens, _Report(task.request, bench))
            bench.emit(StepProfiled(task.request, found))
        else:
            report = _Report(task.request, bench)
            rows = measure_modes(bench.file, task.options, bench.device, report)
            device = bench.runner.executor_info.device
            bench.emit(ModesMeasured(task.request, device, rows, *recommend(rows)))
    except CancelledError:
        return STOPPED
    except LlmLiteError as error:
        return str(error)
    return ""


class _Report:
    """Says how far `request` is, from `low` to `high` of the whole; CancelledError to stop it."""

    def __init__(self, request: int, bench: Workbench, low: float = 0.0, high: float = 1.0) -> None:
        self._request, self._bench = request, bench
        self._low, self._high = low, high

    def __call__(self, stage: str, fraction: float) -> None:
        if self._bench.should_stop():
            raise CancelledError("stopped")
        whole = self._low + (self._high - self._low) * fraction
        self._bench.emit(TaskProgress(self._request, stage, whole))


def _measure_divergence(task: MeasureDivergence, bench: Workbench) -> None:
    path = Path(task.path) if task.path else SAMPLE
    chunks = read_chunks(path, bench.file.tokenizer, task.chunk, task.most_chunks)

    def prepared(options: EngineOptions) -> EngineOptions:
        return replace(options, context=task.chunk, query_budget=0)

    request, half = task.request, LOADING / 2
    reports = _Report(request, bench, 0.0, half), _Report(request, bench, half, LOADING)
    scoring = _Report(request, bench, LOADING, 1.0)
    with (
        loader.started(bench.file, prepared(task.tested), bench.device, reports[0]) as tested,
        loader.started(bench.file, prepared(task.reference), bench.device, reports[1]) as other,
    ):
        report = measure(
            tested,
            other,
            chunks,
            lambda done, total: scoring(f"{done:,} of {total:,} tokens", done / total),
            bench.should_stop,
        )
    bench.emit(DivergenceMeasured(request, report))


def _analyze(task: AnalyzeTensors, bench: Workbench) -> None:
    report = _Report(task.request, bench)
    rows = analyze(bench.file.file.tensors, task.mode, report, bench.file.path)
    bench.emit(TensorReport(task.request, task.mode, rows))


def _keep(task: KeepVariant, bench: Workbench) -> None:
    if bench.variants is None:
        raise RequestError("no folder was given to keep variants in")
    path = place_of(bench.variants, bench.file, task.mode)
    make_folder(bench.variants)
    progress = _Report(task.request, bench)
    report = quantize(bench.file, path, task.mode, replace=True, progress=progress)
    bench.file.kept[task.mode] = path
    bench.emit(VariantKept(task.request, task.mode, str(path), report.nbytes))


def _drop(task: DropVariant, bench: Workbench) -> None:
    """Weights that are mapped from it stay where they are until they are let go."""
    path = bench.file.kept.get(task.mode)
    if path is None:
        raise RequestError(f"no variant in {task.mode} is kept of this model")
    nbytes = remove(path)
    del bench.file.kept[task.mode]
    bench.emit(VariantDropped(task.request, task.mode, nbytes))
