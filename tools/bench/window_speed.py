"""What an open window costs an answer, and what an answer costs the window; for an X display.

    python -m tools.bench.window_speed [--rounds 6] [--tokens 400] [--words 2000] [--json FILE]

The same answer is given with frames drawn and without, in turns. Without, the window only sleeps
and hears the engine, so that the rate is the terminal's. Then a long prompt is read and answered
while a pointer moves, and each movement is timed until a frame has shown it. The window opens with
settings of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import glfw
from imgui_bundle import imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app.app import SWITCH, App
from llm_lite.desktop.app.settings import SettingsStore, restore, settings_path
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.frame_times import percentiles
from tests.desktop import x11
from tools.bench.prompt_frames import long_prompt

QUESTION = "Tell me a very long story about a dragon and a knight, with many chapters."
AIM = 0.95  # of the rate without frames
INPUT_MS = 100.0  # no input waits for longer
MOVES = 0.15  # seconds between two movements
FRAME_MS = 33.0  # 95 % of the frames, where the processor draws too
PAUSE = 0.05  # seconds between two looks at the engine without frames


class Measured(App):
    """Asks again and again; `drawn` says whether the answer under way is drawn."""

    drawn = True
    pointer: Pointer | None = None

    def turn(self) -> None:
        if self.drawn or not self.program.state.busy:
            super().turn()
            if self.pointer is not None:
                self.pointer.look()
        else:
            time.sleep(PAUSE)
            self.program.update()

    def until(self, condition: Any) -> None:
        while not condition(self.program.state):
            self.turn()

    def answer(self, drawn: bool) -> tuple[float, list[float]]:
        """Tokens a second, and milliseconds of the frames meanwhile."""
        self.ask(QUESTION)
        self.drawn, before = drawn, self.screen.loop.frames
        self.until(lambda s: s.messages and s.messages[-1].stop_reason and not s.busy)
        self.drawn = True
        stats = self.program.state.last_stats
        assert stats is not None
        return stats.decode_tok_s, self.since(before)

    def ask(self, question: str) -> None:
        self.program.do(NewChat())
        self.until(lambda s: not s.busy)
        self.program.do(Send(question))

    def since(self, before: int) -> list[float]:
        """Milliseconds of the frames drawn since there were so many."""
        frames = self.screen.loop.frames - before
        return list(self.program.interface.frames.ms)[-frames:] if frames else []

    def read(self, words: int) -> dict[str, dict[str, list[float]]]:
        """Frames and movements while a prompt of so many words is read and answered."""
        found, loop = {}, self.screen.loop
        self.ask(long_prompt(words))
        steps = (
            ("prefill", lambda s: s.running is None or s.running.phase == "decode"),
            ("decode", lambda s: not s.busy),
        )
        for phase, done in steps:
            before = loop.frames
            with Pointer(self) as self.pointer:
                self.until(done)
            found[phase] = {"frame": self.since(before), "input": self.pointer.took}
            self.pointer = None
        return found


class Pointer:
    """Moves over the window as a window system tells it, again when a frame has shown it."""

    def __init__(self, app: Measured) -> None:
        self._window = glfw.get_x11_window(app.window.handle)
        self._at, self._sent, self._over = (100, 300), 0.0, threading.Event()
        self._seen = threading.Event()
        self._thread = threading.Thread(target=self._move)
        self.took: list[float] = []  # milliseconds

    def __enter__(self) -> Pointer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._seen.set()
        self._thread.join()

    def _move(self) -> None:
        while not self._over.wait(MOVES):
            self._at = (100 + (self._at[0] - 93) % 400, 300)
            self._seen.clear()
            self._sent = time.perf_counter()
            x11.move_mouse(os.environ["DISPLAY"], self._window, *self._at)
            self._seen.wait()

    def look(self) -> None:
        """Note, after a frame, whether it showed the last movement."""
        shown = imgui.get_io().mouse_pos
        if self._sent and not self._seen.is_set() and (shown.x, shown.y) == self._at:
            self.took.append(1e3 * (time.perf_counter() - self._sent))
            self._sent = 0.0
            self._seen.set()


def measure(rounds: int, tokens: int, words: int) -> dict[str, Any]:
    sys.setswitchinterval(SWITCH)
    keeper = SettingsStore(settings_path())
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
        read = app.read(words)
        kind = app.device.info.kind
    finally:
        app.close()
    ratios = [a / b for a, b in zip(with_frames, without, strict=True)]
    return {
        "device": kind,
        "tok_s": {"with_frames": with_frames, "without": without},
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "frame_ms": percentiles(frames),
        "long_prompt": {
            phase: {what: spread(values) for what, values in found.items()}
            for phase, found in read.items()
        },
    }


def spread(values: list[float]) -> dict[str, float]:
    """Percentiles and the largest, of milliseconds."""
    return {**percentiles(values), "max": max(values)} if values else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--words", type=int, default=2000, help="of the long prompt")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        report = measure(arguments.rounds, arguments.tokens, arguments.words)
    ratio, frames = report["ratio"], report["frame_ms"]
    print(
        f"with frames {ratio['median']:.2f} of the rate without "
        f"({ratio['min']:.2f} to {ratio['max']:.2f}), aim {AIM}; "
        f"frames p50 {frames['p50']:.1f} ms, p95 {frames['p95']:.1f} ms, aim {FRAME_MS}"
    )
    for phase, found in report["long_prompt"].items():
        frame, waited = found["frame"], found["input"]
        print(
            f"{phase} of a long prompt: frames p95 {frame['p95']:.1f} ms; input shown after "
            f"p50 {waited['p50']:.1f} ms, at most {waited['max']:.1f} ms; "
            f"aim {INPUT_MS}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
