"""How soon the program is there; for a machine with Xvfb.

    python -m tools.bench.start [--rounds 10] [--large FOLDER]

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

from tests.paths import ROOT
from tools.cross.hostile_window import x_server

FRAME_AIM, TOKEN_AIM = 0.5, 1.0  # seconds
CHAT = ("chat", "-p", "Hi", "--max-new-tokens", "1", "--temperature", "0")
# What the other processes do; they are told when they began.
WINDOW = """
import sys, time
from llm_lite.desktop.app.app import SWITCH, App
from llm_lite.desktop.app.settings import restore, settings_path
from llm_lite.desktop.app.settings import SettingsStore
from llm_lite.desktop.features.program.state import AppState
sys.setswitchinterval(SWITCH)
store = SettingsStore(settings_path())
app = App(store, restore(store.settings, AppState()))
app._draw()
print(time.monotonic() - float(sys.argv[1]), flush=True)
"""
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


def first_frame(display: str, home: Path) -> float:
    homes = {f"XDG_{kind}_HOME": os.fspath(home) for kind in ("CONFIG", "DATA", "STATE")}
    return told(WINDOW, repr(time.monotonic()), DISPLAY=display, **homes)


def opened(*model: str) -> float:
    """`load` alone, without the imports."""
    return told(OPEN, *model)


def told(script: str, *words: str, **environment: str) -> float:
    ran = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
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
        f"first frame (aim {FRAME_AIM} s)": lambda: first_frame(display, home),
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
