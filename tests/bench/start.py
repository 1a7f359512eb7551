"""How soon the program is there; for a machine with Xvfb.

    python -m tests.bench.start [--rounds 10] [--large FOLDER]

Seconds count from before the process is made, with warm files:

- to the first frame of the window,
- to the first token of `llm-lite chat -p Hi` on the bundled model,
- until a model is open, of a small file and of Gemma 3n's E4B in int4 with random weights (4.0 GB,
  written to FOLDER if it is missing; without --large it is left out).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.first_frame import start
from tests.cross.hostile_window import x_server
from tests.paths import ROOT

FRAME_AIM, TOKEN_AIM = 0.5, 1.0  # seconds
CHAT = ("chat", "-p", "Hi", "--max-new-tokens", "1", "--temperature", "0")
# The other processes: what `import` and `load` take together, and `load` alone.
OPEN = """
import sys, time
import llm_lite
began = time.monotonic()
model = llm_lite.load(*sys.argv[1:], backend="cpu", context=512)
print(time.monotonic() - began, flush=True)
"""


def first_token() -> float:
    began = time.monotonic()
    command = [sys.executable, "-m", "llm_lite.cli.entry", *CHAT]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as ran:
        assert ran.stdout is not None
        if not ran.stdout.read(1):
            raise SystemExit("chat answered nothing")
        return time.monotonic() - began


def opened(*model: str) -> float:
    command = [sys.executable, "-c", OPEN, *model]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return float(ran.stdout)


def large_model(folder: Path) -> Path:
    variant = folder / "gemma-3n-e4b-int4"
    folder.mkdir(parents=True, exist_ok=True)
    if not variant.exists():
        command = [sys.executable, "-m", "llm_lite.cli.entry", "synth", "gemma-3n-e4b"]
        subprocess.run([*command, os.fspath(variant)], cwd=ROOT, check=True)
    return variant


def measures(display: str, home: Path, large: Path | None) -> dict[str, Callable[[], float]]:
    found: dict[str, Callable[[], float]] = {
        f"first frame (aim {FRAME_AIM} s)": lambda: start(display, home)[0],
        f"first token (aim {TOKEN_AIM} s)": first_token,
        "open, bundled model": opened,
    }
    if large is not None:
        model = os.fspath(large_model(large))
        size = sum(file.stat().st_size for file in Path(model).rglob("*") if file.is_file())
        found[f"open, {size / 1e9:.1f} GB"] = lambda: opened(model)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--large", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = measures(stack.enter_context(x_server()), home, options.large)
        taken: dict[str, list[float]] = {name: [] for name in found}
        for number in range(-1, options.rounds):  # the first one warms up
            for name, measure in found.items():
                seconds = measure()
                if number >= 0:
                    taken[name].append(seconds)
    for name, all_of_it in taken.items():
        print(f"{name}: {median(all_of_it):.3f} s ({min(all_of_it):.3f} to {max(all_of_it):.3f})")


if __name__ == "__main__":
    main()
