"""The tour: drives the real interface offscreen, and writes its pictures and a report.

Same device, renderer, interface and engine as the window; only the surface is an image, and the
person a `InputDriver`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.gpu.device import Device
from llm_lite.core.messages import EngineOptions, SamplingOptions
from tools.tour.stage import PROMPT, SAMPLING, Stage


def run_tour(
    directory: Path,
    prompt: str | None,
    options: EngineOptions,
    source: str | None,
    process_start: float,
    sampling: SamplingOptions = SAMPLING,
    engine: Callable[[Device, Callable[[], None]], Any] | None = None,
    language: str = "en",
) -> dict[str, Any]:
    """Write pictures and report.json into `directory`; return the report. `process_start` is on the
    clock of time.monotonic. Raises DeviceError without a device to draw with, InputDriverError when
    the interface does not behave, and what the model's loading raises as LlmLiteError. `engine`
    makes another engine than the real one, for tests."""
    make_folder(directory)
    stage = Stage(options, sampling, process_start, language)
    try:
        stage.play(source, prompt or PROMPT, engine)
        report = stage.report()
    finally:
        stage.close()
    report["validation_messages"] = list(stage.device.validation_messages)
    report["pictures"] = stage.write_pictures(directory)
    text = json.dumps(report, ensure_ascii=False, indent=2, allow_nan=False)
    write_file(directory / "report.json", text.encode(errors="backslashreplace"))
    return report
