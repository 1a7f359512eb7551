"""What a large history costs the start of the window; for a machine with Xvfb.

    python -m tools.bench.first_frame [--rounds 10] [--history FILE]

Windows are started in turns with no history and with one of 10,000 conversations and 200,000
messages (FILE, built there if it is missing; `tools.bench.history`). Seconds count from before the
process is made: to the first frame, and to the frame that shows the list of conversations. The
bundled model is opened as always.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.paths import ROOT
from tools.bench import history as large
from tools.cross.hostile_window import x_server

AIM = 0.05  # seconds that the first frame may be later
KINDS = ("none", "large")
LONGEST = 60.0  # seconds until the list is there


def child(began: float) -> None:
    """One window, until it shows the list; the two times."""
    from llm_lite.desktop.app.app import SWITCH, App
    from llm_lite.desktop.app.settings import SettingsStore, history_file, restore, settings_path
    from llm_lite.desktop.features.program.state import AppState

    sys.setswitchinterval(SWITCH)
    store = SettingsStore(settings_path())
    app = App(store, restore(store.settings, AppState()), history=history_file())
    app.start(None)
    first = time.monotonic() - began
    while app.program.history is None or not app.program.state.history.read:
        app.turn()
        if time.monotonic() - began > LONGEST:
            raise SystemExit("the list did not come")
    app.turn()
    print(first, time.monotonic() - began, flush=True)
    os._exit(0)


def start(display: str, home: Path) -> tuple[float, float]:
    kinds = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "STATE")}
    ran = subprocess.run(
        [sys.executable, "-m", "tools.bench.first_frame", "--child", repr(time.monotonic())],
        cwd=ROOT, env={**os.environ, **kinds, "DISPLAY": display},
        stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    first, listed = map(float, ran.stdout.split())
    return first, listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--history", type=Path)
    parser.add_argument("--child", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
        return
    with tempfile.TemporaryDirectory() as folder, x_server() as display:
        homes = {kind: Path(folder) / kind for kind in KINDS}
        kept = options.history or Path(folder) / "history.db"
        if not kept.exists():
            large.build(kept, 10_000, 200_000)
        place = homes["large"] / "DATA" / "llm-lite"
        place.mkdir(parents=True)
        shutil.copy(kept, place / "history.db")
        times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for number in range(-1, options.rounds):  # the first one warms up
            for kind in KINDS:
                taken = start(display, homes[kind])
                if number >= 0:
                    times[kind].append(taken)
    for kind, taken in times.items():
        firsts, lists = zip(*taken, strict=True)
        print(
            f"history {kind}: first frame after {median(firsts):.3f} s "
            f"({min(firsts):.3f} to {max(firsts):.3f}), the list after {median(lists):.3f} s"
        )
    pairs = zip(times["large"], times["none"], strict=True)
    later = [with_it[0] - without[0] for with_it, without in pairs]
    print(f"later by {1e3 * median(later):.0f} ms in the median of pairs; aim {1e3 * AIM:.0f}")


if __name__ == "__main__":
    main()
