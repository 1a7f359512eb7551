"""Frames of the lesson while its pictures move, in a real window; for an X display.

    python -m tools.bench.lesson_frames [MODEL] [--size 1280 720] [--language ko] [--json FILE]

A sentence is read by the model, and each step's picture plays once from its beginning to its end,
as when a person goes on. Of every step: frames drawn in a second; the drawing thread's processor
time in a frame for the views and for all else (lists to the device, the present); and the time of
all processors together, where a software driver has its own. The window opens with settings of its
own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app.app import SWITCH, App
from llm_lite.desktop.app.settings import SettingsStore, restore, settings_path
from llm_lite.desktop.features.lesson.animation import Animation
from llm_lite.desktop.features.lesson.model import (
    TRACE,
    GoToStep,
    RunSentence,
    ShowLesson,
    lesson_page,
)
from llm_lite.desktop.features.lesson.state import STEPS
from llm_lite.desktop.features.program.settings import WindowPlace
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.frame_times import percentiles
from llm_lite.desktop.widgets.markup.process import markup
from tools.bench.frame_cost import clock_calls

SENTENCE = "The cat sat on the mat because it was"
AIM = 60.0  # frames a second
REST = 0.5  # seconds before a step, so that what the one before asked for is drawn


@dataclass(slots=True)
class Spent:
    """Milliseconds of the drawing thread's processor time, a value a frame."""

    views: list[float] = field(default_factory=list)
    frames: list[float] = field(default_factory=list)  # the views among them


class Lesson(App):
    """The window, which can be drawn until something is true."""

    def until(self, condition: Any, seconds: float = 300.0) -> None:
        end = time.monotonic() + seconds
        while not condition(self.program.state):
            self.turn()
            if time.monotonic() > end:
                raise SystemExit(f"nothing happened in {seconds} s")

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()

    def begin(self, model: str | None) -> None:
        self.start(model)
        self.until(lambda s: s.model is not None and s.load is None)
        self.program.do(ShowLesson(True))
        self.program.do(RunSentence(SENTENCE))
        self.until(lambda s: bool(s.messages) and not s.busy)
        self.until(lambda s: lesson_page(s).trace is not None and TRACE.waiting(s) is None)
        self.rest(REST)
        markup().wait()

    def play(self, step: int, spent: Spent) -> dict[str, Any]:
        """One picture from its beginning to its end."""
        self.rest(REST)
        self.program.do(GoToStep(step))
        self._draw()
        spent.views.clear()
        spent.frames.clear()
        before, began, worked = self.screen.loop.frames, time.monotonic(), time.process_time()
        moves = self.program.interface.ui.local(Animation)
        self.until(lambda s: not moves.playing)
        frames, seconds = self.screen.loop.frames - before, time.monotonic() - began
        rest = [whole - views for whole, views in zip(spent.frames, spent.views, strict=True)]
        return {
            "frames_s": frames / seconds,
            "views_ms": percentiles(spent.views),
            "render_ms": percentiles(rest),
            "processors_ms": 1e3 * (time.process_time() - worked) / max(frames, 1),
        }


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    sys.setswitchinterval(SWITCH)
    store = SettingsStore(settings_path())
    width, height = arguments.size
    store.settings = replace(store.settings, window=WindowPlace(None, None, width, height, False))
    state = restore(replace(store.settings, language=arguments.language), AppState())
    sampling = SamplingOptions(seed=1, temperature=0.0)
    app = Lesson(store, replace(state, sampling=sampling))
    spent = Spent()
    clock_calls(app.program, "paint", spent.views)
    clock_calls(app.screen.loop, "run", spent.frames)
    try:
        app.begin(arguments.model)
        found = {name: app.play(step, spent) for step, name in enumerate(STEPS)}
        return {"device": app.device.info.name, "size": [width, height], "steps": found}
    finally:
        app.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720))
    parser.add_argument("--language", default="en")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_DATA_HOME"] = folder
        report = measure(arguments)
    print(f"{report['device']}, {report['size'][0]} x {report['size'][1]}, aim {AIM:.0f} frames/s")
    for name, one in report["steps"].items():
        views, render = one["views_ms"], one["render_ms"]
        print(
            f"  {name:10} {one['frames_s']:5.1f} frames/s; views p50 {views['p50']:.2f} "
            f"p95 {views['p95']:.2f} ms; render p50 {render['p50']:.2f} p95 {render['p95']:.2f} ms;"
            f" all processors {one['processors_ms']:.1f} ms a frame"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
