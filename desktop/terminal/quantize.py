"""`llm-lite quantize`: a model's weights in another mode, as a directory that loads at once."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from core import loading
from core.calibrating import calibrate
from core.formats.variant_writer import check_destination
from core.quantizing import QuantizationReport, check_mode, lossy_source, quantize
from desktop.terminal.files import warn


def run(arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, _interrupt)  # so that nothing half made is left behind
    check_mode(arguments.mode)
    destination = Path(arguments.destination).expanduser()
    check_destination(destination, replace=arguments.force)
    model = loading.open_model(arguments.source, lambda *_: None, warn, check_weights=False)
    try:
        if warning := lossy_source(model.file.tensors, arguments.mode):
            warn(warning)
        moments = None
        if arguments.calibrate is not None:
            moments = calibrate(
                model,
                arguments.calibrate,
                destination.parent,
                _Bar(),
                threads=arguments.threads,
            )
        report = quantize(
            model,
            destination,
            arguments.mode,
            moments=moments,
            replace=arguments.force,
            progress=_Bar(),
        )
    finally:
        model.close()
    if arguments.json:
        print(json.dumps(asdict(report)))
    else:
        _print(report, destination)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class _Bar:
    """A line that is written anew, with the time left; on no terminal, a line every tenth."""

    _WIDTH = 30

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = -1.0

    def __call__(self, stage: str, fraction: float) -> None:
        terminal = sys.stderr.isatty()
        if fraction < 1 and fraction - self._shown < (0.005 if terminal else 0.1):
            return
        self._shown = fraction
        elapsed = time.monotonic() - self._began
        left = elapsed / fraction * (1 - fraction) if fraction > 0 else 0.0
        full = int(fraction * self._WIDTH)
        bar = "#" * full + "." * (self._WIDTH - full)
        line = f"[{bar}] {100 * fraction:3.0f} %  {left:4.0f} s left  {stage}"
        end = "\n" if fraction >= 1 or not terminal else ""
        print(f"\r\x1b[K{line}" if terminal else line, end=end, file=sys.stderr, flush=True)


def _print(report: QuantizationReport, destination: Path) -> None:
    print(f"{'tensor':40} {'shape':>16} {'stored':>7} {'mode':>5} {'bits':>6} {'SNR dB':>7}")
    for tensor in report.tensors:
        shape = " x ".join(map(str, tensor.shape))
        snr = "exact" if tensor.snr_db is None else f"{tensor.snr_db:.1f}"
        print(
            f"{tensor.name[:40]:40} {shape:>16} {tensor.stored:>7} {tensor.format:>5} "
            f"{tensor.bits:6.2f} {snr:>7}"
        )
    print(
        f"{destination}: {report.nbytes / 1e6:.1f} MB, "
        f"{report.bits_per_weight:.3f} bits a weight over the matrices"
    )
