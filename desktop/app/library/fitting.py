"""What a model would take here, in a mode and with a context: of one that lies here, and of a file
that nobody has fetched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.hub.fit.machine import this_machine
from llm_lite.core.loading.backends import ExecutorChoice
from llm_lite.core.loading.fitting import Fitting, described
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.library import Fit
from llm_lite.desktop.state.library.library_state import FitQuestion


def fit_of_path(
    path: Path, question: FitQuestion, options: EngineOptions, device: DeviceInfo | None
) -> Fit:
    """LlmLiteError where it is no model that runs here."""
    choice = choice_of(options, device)
    wanted = replace(options, mode=question.mode, context=question.context)
    source = open_source(path)
    try:
        return Fitting(described(source), choice, this_machine(choice.info)).fit(wanted)
    finally:
        source.close()


def choice_of(options: EngineOptions, device: DeviceInfo | None) -> ExecutorChoice:
    """The executor that a load would choose, `device` being the one that draws; none is opened."""
    on_device = options.backend == "vulkan" or (
        options.backend == "auto" and device is not None and device.kind != "software"
    )
    if device is None or not on_device:
        return ExecutorChoice("cpu", "")
    return ExecutorChoice("vulkan", "", described=device)
