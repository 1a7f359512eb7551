"""The memory of quantizing, and what two processes with one variant share (Linux only)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from llm_lite.core.hub import catalog
from llm_lite.core.loading.sources import open_source
from tests.paths import ROOT

SPARE = 300_000_000  # bytes that quantizing may take beside 1.5 times the largest tensor
_MAPS = ("Rss", "Pss", "Shared_Clean", "Private_Clean", "Private_Dirty")

# The process tells of itself: what the system tells of ended children counts their parents too. Of
# the peak psutil does not know.
_COMMAND = """
import re, sys
from llm_lite.cli.main import main
code = main(sys.argv[1:])
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(f"peak {peak} kB", file=sys.stderr)
sys.exit(code)
"""
_READER = """
import sys
from llm_lite.core.loading.loader import open_model, start
from llm_lite.core.messages import EngineOptions
file = open_model(sys.argv[1], lambda *_: None, print)
runner = start(file, EngineOptions(backend="cpu", context=64), None, lambda *_: None)
for _ in runner.session.score(list(range(32)), 31, 1):
    pass
print("ready", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Ran:
    output: str
    peak_bytes: int
    seconds: float


@dataclass(frozen=True)
class Quantizing:
    """Bytes; the largest tensor as the source has it."""

    model: str
    mode: str
    calibrated: str  # "": not; by a "text", or by its own: "self"
    peak_bytes: int
    limit_bytes: int
    largest_tensor_bytes: int
    seconds: float


def run_command(words: list[str]) -> Ran:
    """`llm-lite WORDS` in a process of its own; RuntimeError with what it said where it fails."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words], cwd=ROOT, capture_output=True, text=True
    )
    peak = re.search(r"peak (\d+) kB", done.stderr)
    if done.returncode or peak is None:
        raise RuntimeError(f"llm-lite {' '.join(words)}: {done.stderr[-2000:]}")
    return Ran(done.stdout, int(peak[1]) * 1024, time.monotonic() - began)


def measure_quantizing(
    model: str, target: Path, mode: str, calibrate: Path | Literal["self"] | None = None
) -> Quantizing:
    words = ["quantize", model, str(target), "--mode", mode, "--json", "--force"]
    ran = run_command(words + (["--calibrate", str(calibrate)] if calibrate else []))
    largest = _largest_tensor(model)
    return Quantizing(
        Path(model).name,
        mode,
        "text" if isinstance(calibrate, Path) else calibrate or "",
        ran.peak_bytes,
        int(1.5 * largest) + SPARE,
        largest,
        round(ran.seconds, 1),
    )


def _largest_tensor(model: str) -> int:
    source = open_source(catalog.resolve(model))
    try:
        return max(tensor.nbytes for tensor in source.tensors.values())
    finally:
        source.close()


def measure_sharing(variant: Path) -> dict[str, Any]:
    """One process that has run a step, then two: bytes of the variant's mapping in each."""
    first = _started(variant)
    alone = _mapping(first.pid, variant)
    second = _started(variant)
    both = [_mapping(first.pid, variant), _mapping(second.pid, variant)]
    for process in (first, second):
        process.communicate()
    size = (variant / "model.safetensors").stat().st_size
    return {"file_bytes": size, "alone": alone, "both": both}


def _started(variant: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _READER, str(variant)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", "the process ended"
    return process


def _mapping(process: int, variant: Path) -> dict[str, int]:
    """The sums over all pieces of the file's mapping, bytes."""
    file = os.path.realpath(variant / "model.safetensors")
    maps = [each for each in psutil.Process(process).memory_maps() if each.path == file]
    return {name: sum(getattr(each, name.lower()) for each in maps) for name in _MAPS}
