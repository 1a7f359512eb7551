"""Estimates of the memory that a model takes here, by mode and context: of a local model, and of
files that are not downloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.hub.fit.bandwidth import known_gb_s, measured_gb_s
from llm_lite.core.hub.fit.machine import this_machine
from llm_lite.core.hub.fit.remote import coarse_fit, described_by_config
from llm_lite.core.hub.remote.cards import parse_config
from llm_lite.core.loading.backends import ExecutorChoice, choose
from llm_lite.core.loading.fitting import Fitting, described
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import BACKENDS, EngineOptions, Mode
from llm_lite.core.messages.library import Fit, HubFile, HubModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.state import FitAnswer, FitQuestion
from llm_lite.desktop.language.translate import tr

Answers = Mapping[FitQuestion, FitAnswer]
BITS: dict[Mode, float] = {"fp32": 32.0, "fp16": 16.0, "int8": 8.5, "int4": 4.5}  # a weight


def fits_of_path(
    path: Path,
    questions: Sequence[FitQuestion],
    device: DeviceInfo | None,
) -> Answers:
    """Estimate a local model, for questions that differ by mode and context alone. Raise
    LlmLiteError where it is none; a mode that cannot run is an answer."""
    choice = choice_of(questions[0].options, device)
    gb_s = bandwidth(choice)
    source = open_source(path)
    try:
        fitting = Fitting(described(source), choice, this_machine(choice.info))
        return {one: _answer(fitting, one, gb_s) for one in questions}
    finally:
        source.close()


def _answer(fitting: Fitting, one: FitQuestion, gb_s: float | None) -> FitAnswer:
    try:
        return FitAnswer(fitting.fit(one.options, gb_s))
    except LlmLiteError as error:
        return FitAnswer(None, str(error))


def fits_of_files(
    model: HubModel,
    questions: Sequence[FitQuestion],
    device: DeviceInfo | None,
) -> Answers:
    """Estimate files by their config.json where the hub gave it, else roughly, by their sizes."""
    choice = choice_of(questions[0].options, device)
    machine, gb_s = this_machine(choice.info), bandwidth(choice)
    files = {file.name: file for file in model.files}
    found: dict[FitQuestion, FitAnswer] = {}
    for one in questions:
        file, bits = files.get(one.file), BITS.get(one.mode)
        if file is None:  # the hub was asked again meanwhile
            found[one] = FitAnswer(None, tr("It is not listed any more."))
            continue
        if exact := _by_config(model, file, one, choice, gb_s):
            found[one] = exact
            continue
        if bits is not None and model.parameters:
            file = replace(file, size=round(model.parameters * bits / 8))
        fit: Fit = coarse_fit(file, model.parameters, one.options, machine, gb_s)
        found[one] = FitAnswer(replace(fit, mode=one.mode), rough=True)
    return found


def _by_config(
    model: HubModel,
    file: HubFile,
    one: FitQuestion,
    choice: ExecutorChoice,
    gb_s: float | None,
) -> FitAnswer | None:
    """Return None where the hub gave no config.json, or one that is incomplete or wrong."""
    if not model.config:
        return None
    try:
        description = described_by_config(file, parse_config(model.config))
    except LlmLiteError:
        return None
    return _answer(Fitting(description, choice, this_machine(choice.info)), one, gb_s)


def bandwidth(choice: ExecutorChoice) -> float | None:
    """Return GB/s. That of the processor is measured once, in a tenth of a second; that of a
    device, which draws meanwhile, is known where it was measured."""
    if choice.backend == "vulkan":
        return known_gb_s(choice.info)
    return measured_gb_s()


def choice_of(options: EngineOptions, device: DeviceInfo | None) -> ExecutorChoice:
    """Return the executor that a load would choose; `device` is the one that draws. An accelerator
    whose package fails is not chosen: a load says why."""
    if options.backend not in BACKENDS:
        try:
            return choose(options, None)
        except LlmLiteError:
            return ExecutorChoice("cpu", "")
    on_device = options.backend == "vulkan" or (
        options.backend == "auto" and device is not None and device.kind != "software"
    )
    if device is None or not on_device:
        return ExecutorChoice("cpu", "")
    return ExecutorChoice("vulkan", "", described=device)
