"""Slices and variants of a model, written where the program finds them again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_lite.core.convert.calibration import Moments
from llm_lite.core.convert.calibration_run import calibrate
from llm_lite.core.convert.quantizing import quantize, writer_for
from llm_lite.core.convert.slicing import find_slice, slice_model
from llm_lite.core.convert.stages.report import StageReport
from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import make_folder
from llm_lite.core.formats.variant_reader import is_variant, read_manifest
from llm_lite.core.loading import loader
from llm_lite.core.loading.kept_variants import open_weights, place_of, place_of_slice
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import Mode
from llm_lite.core.models.model import Slice

_CALIBRATED: tuple[Mode, ...] = ("int4",)  # of the others nothing is left to gain


def convert(task: Mapping[str, Any], report: StageReport) -> dict[str, Any]:
    """Write the variant of `input` in `mode`, unless it is there already."""
    mode, models = task["mode"], Path(task["models"])
    make_folder(models)
    report.part(0.0, 0.01)("reading the model", 0.0)
    model = loader.open_model(task["input"], report.part(0.0, 0.01), _nobody, check_weights=False)
    try:
        place = place_of(models, model, mode)
        calibrated = task["calibrate"] and mode in _CALIBRATED
        if not _is_there(place, model, mode, calibrated):
            writer_for(model, place, mode, replace=True)  # says now what would fail later
            moments = _moments(model, models, report) if calibrated else None
            low = 0.85 if calibrated else 0.01
            quantize(
                model,
                place,
                mode,
                moments=moments,
                replace=True,
                made_of=task["source"],
                progress=report.part(low, 1.0),
            )
    finally:
        model.close()
    return {"path": str(place)}


def cut(task: Mapping[str, Any], report: StageReport) -> dict[str, Any]:
    """Write the slice of `input`, unless it is there already."""
    source, models = Path(task["input"]), Path(task["models"])
    make_folder(models)
    wanted = find_slice(task["slice"])
    report.part(0.0, 1.0)("reading the model", 0.0)
    opened = open_source(source)
    try:
        place = place_of_slice(models, opened, _name_of(task["slice"], wanted))
    finally:
        opened.close()
    if not place.exists():  # it appears whole
        progress = report.part(0.0, 1.0)
        slice_model(source, place, wanted, progress=lambda done: progress("cutting", done))
    return {"path": str(place)}


def _name_of(text: str, cut: Slice) -> str:
    """Return a slice's name in the table; for a JSON file its stem and a hash of its values, since
    several files may have one name."""
    path = Path(text)
    if path.suffix != ".json":
        return text
    return f"{path.stem}-{hashlib.sha256(repr(cut).encode()).hexdigest()[:8]}"


def _is_there(place: Path, model: ModelFile, mode: Mode, calibrated: bool) -> bool:
    """Return True if an earlier run has finished the variant in the same way."""
    try:
        if not is_variant(place):
            return False
        open_weights(place, model, mode)
        tokens = read_manifest(place)["report"].get("calibration_tokens", 0)
    except FileError:  # a damaged one is written again
        return False
    return bool(tokens) == calibrated


def _moments(model: ModelFile, folder: Path, report: StageReport) -> Moments:
    """Measure the moments with a text that the model writes itself, which takes most time."""
    writing, measuring = report.part(0.01, 0.6), report.part(0.6, 0.85)

    def progress(what: str, fraction: float) -> None:
        (measuring if what == "calibrating" else writing)(what, fraction)

    return calibrate(model, None, folder, progress)


def _nobody(_: str) -> None:
    """Ignore a warning that was given when the job was added, or is given when the model is
    opened."""
