"""What an open window costs an answer: the same one with frames drawn and without, in turns.

    python -m tests.bench.window_speed [--rounds 6] [--tokens 400] [--json FILE]

Needs a display; the window opens with settings of its own. Without frames the window only sleeps
and hears the engine, so that the rate is the terminal's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.messages import SamplingOptions
from desktop.actions import NewChat, Send
from desktop.app import SWITCH, App
from desktop.frame_times import percentiles
from desktop.keeper import Keeper
from desktop.settings import restore, settings_path
from desktop.state import AppState

QUESTION = "Tell me a very long story about a dragon and a knight, with many chapters."
AIM = 0.95  # of the rate without frames
FRAME_MS = 33.0  # 95 % of the frames, where the processor draws too
PAUSE = 0.05  # seconds between two looks at the engine without frames


class Measured(App):
    """Asks again and again; `drawn` says whether the answer under way is drawn."""

    drawn = True

    def turn(self) -> None:
        if self.drawn or not self.program.state.busy:
            super().turn()
        else:
            time.sleep(PAUSE)
            self.program.update()

    def until(self, condition: Any) -> None:
        while not condition(self.program.state):
            self.turn()

    def answer(self, drawn: bool) -> tuple[float, list[float]]:
        """Tokens a second, and milliseconds of the frames meanwhile."""
        self.program.do(NewChat())
        self.until(lambda s: not s.busy)
        self.drawn, loop = drawn, self.screen.loop
        before = loop.frames
        self.program.do(Send(QUESTION))
        self.until(lambda s: s.messages and s.messages[-1].stop_reason and not s.busy)
        self.drawn, frames = True, loop.frames - before
        stats = self.program.state.last_stats
        assert stats is not None
        return stats.decode_tok_s, list(loop.times.ms)[-frames:] if frames else []


def measure(rounds: int, tokens: int) -> dict[str, Any]:
    sys.setswitchinterval(SWITCH)
    keeper = Keeper(settings_path())
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=tokens)
    app = Measured(keeper, replace(restore(keeper.settings, AppState()), sampling=sampling))
    with_frames, without, frames = [], [], []
    try:
        app.start(None)
        app.until(lambda s: s.model is not None and s.load is None)
        for index in range(-1, rounds):  # the first one warms up
            bare, _ = app.answer(drawn=False)
            rate, times = app.answer(drawn=True)
            if index >= 0:
                without.append(bare)
                with_frames.append(rate)
                frames += times
        kind = app.device.info.kind
    finally:
        app.close()
    ratios = [a / b for a, b in zip(with_frames, without, strict=True)]
    return {
        "device": kind,
        "tok_s": {"with_frames": with_frames, "without": without},
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "frame_ms": percentiles(frames),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        report = measure(arguments.rounds, arguments.tokens)
    ratio, frames = report["ratio"], report["frame_ms"]
    print(
        f"with frames {ratio['median']:.2f} of the rate without "
        f"({ratio['min']:.2f} to {ratio['max']:.2f}), aim {AIM}; "
        f"frames p50 {frames['p50']:.1f} ms, p95 {frames['p95']:.1f} ms, aim {FRAME_MS}"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
