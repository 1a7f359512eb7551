"""`llm-lite quantize`: a model's weights in another mode, as a directory that loads at once."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from llm_lite.cli.terminal.output import overwrite, show, show_json, warn
from llm_lite.core.convert.calibration_run import calibrate
from llm_lite.core.convert.quantizing import (
    QuantizationReport,
    check_mode,
    lossy_source,
    quantize,
    writer_for,
)
from llm_lite.core.files.places import expanded
from llm_lite.core.formats.variant_writer import check_destination
from llm_lite.core.loading import loader
from llm_lite.core.records import asdict

OWN_TEXT = "self"


def run(arguments: argparse.Namespace) -> int:
    check_mode(arguments.mode)
    destination = expanded(arguments.destination)
    check_destination(destination, replace=arguments.force)
    report = _quantize(arguments, destination)
    if arguments.json:
        show_json(asdict(report))
    else:
        _print(report, destination)
    return 0


def _quantize(arguments: argparse.Namespace, destination: Path) -> QuantizationReport:
    mode, force = arguments.mode, arguments.force
    model = loader.open_model(arguments.source, lambda *_: None, warn, check_weights=False)
    try:
        writer_for(model, destination, mode, replace=force)  # says now what would fail later
        if warning := lossy_source(model.file.tensors, mode):
            warn(warning)
        moments = None
        if arguments.calibrate is not None:
            text = None if arguments.calibrate == OWN_TEXT else expanded(arguments.calibrate)
            folder = destination.parent
            moments = calibrate(model, text, folder, _Bar(), threads=arguments.threads)
        return quantize(model, destination, mode, moments=moments, replace=force, progress=_Bar())
    finally:
        model.close()


class _Bar:
    """A line that is written over, with the time left; on no terminal, a line every tenth."""

    _WIDTH = 30
    _TELLING = 1.0  # seconds, after which the time left is no mere guess

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._shown = 0.0

    def __call__(self, stage: str, fraction: float) -> None:
        if fraction < self._shown:  # what comes next begins
            self._begin()
        if fraction < 1 and fraction - self._shown < (0.005 if self._terminal else 0.1):
            return
        self._shown = fraction
        full = int(fraction * self._WIDTH)
        bar = "#" * full + "." * (self._WIDTH - full)
        line = f"[{bar}] {100 * fraction:3.0f} %  {self._left(fraction):12}  {stage}"
        overwrite(line, last=fraction >= 1)

    def _left(self, fraction: float) -> str:
        elapsed = time.monotonic() - self._began
        if fraction >= 1:
            return f"{elapsed:.0f} s"
        return f"{elapsed / fraction - elapsed:.0f} s left" if elapsed > self._TELLING else ""


def _print(report: QuantizationReport, destination: Path) -> None:
    show(f"{'tensor':40} {'shape':>16} {'stored':>7} {'mode':>5} {'bits':>6} {'SNR dB':>7}")
    for tensor in report.tensors:
        shape = " x ".join(map(str, tensor.shape))
        snr = "exact" if tensor.snr_db is None else f"{tensor.snr_db:.1f}"
        show(
            f"{tensor.name[:40]:40} {shape:>16} {tensor.stored:>7} {tensor.format:>5} "
            f"{tensor.bits:6.2f} {snr:>7}"
        )
    show(
        f"{destination}: {report.nbytes / 1e6:.1f} MB, "
        f"{report.bits_per_weight:.3f} bits a weight over the matrices"
    )
