"""What a frame of the interface costs its thread: every view open, a conversation of 200 messages.

    python -m tools.bench.frame_cost [--messages 200] [--frames 200] [--json FILE] [--picture FILE]

The default model answers first, so that maps, cache and profile are real; the answer is then said
again and again, and a token is added in every frame, as while an answer is written. Some frames
follow the engine, and views are drawn in turn; others have input, and draw everything. Seconds are
of the thread's own processor time: the time of the device does not count.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec.structs import force_setattr

from llm_lite.core.engine.engine import Engine
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import EngineOptions, Generate, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app import layout
from llm_lite.desktop.app.program import Program, open_first_model
from llm_lite.desktop.features.program.cached_text import decoded
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, Message, Running, Token
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.render.frame import FrameLoop
from llm_lite.desktop.render.png import write_png
from llm_lite.desktop.widgets.frame_times import percentiles
from tests.desktop.tiled import tiled
from tools.tour.input_driver import InputDriver
from tools.tour.offscreen_app import OffscreenApp

AIM_MS = 3.0  # the views' own cost
SIZE = (2560, 1600, 1.0)
QUESTION = "Explain **attention** in a few sentences, with a list and `code`."


def main() -> None:
    arguments = _arguments()
    sampling = SamplingOptions(seed=1, max_new_tokens=120)
    state = AppState(options=EngineOptions(backend="cpu"), sampling=sampling)
    stage = OffscreenApp(state, Settings(), size=SIZE)
    engine = Engine(stage.device, lambda: None)
    try:
        with mock.patch.object(layout, "build_layout", tiled):
            report = measure(arguments, stage, engine)
        if arguments.picture:
            stage.screen.loop.wait()
            write_png(arguments.picture, stage.target.read_rgba())
    finally:
        engine.close(5.0)
        stage.close()
    for kind, times in report["ms"].items():
        print(f"{kind} frames")
        for name, spread in times.items():
            print(f"  {name:14} p50 {spread['p50']:.2f} ms, p95 {spread['p95']:.2f} ms")
    print(f"aim: views in {AIM_MS} ms a frame")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def measure(arguments: argparse.Namespace, stage: OffscreenApp, engine: Engine) -> dict[str, Any]:
    program, following = stage.program, False
    driver = InputDriver(program, lambda: stage.draw(following=following))
    open_first_model(program, None)
    program.start(engine)
    driver.wait("the model", lambda s: s.load is None and s.model is not None, 120.0)
    driver.click("chat.input")
    driver.type(QUESTION)
    driver.click("chat.send")
    driver.wait("the answer", lambda s: bool(s.messages) and not s.busy, 300.0)
    driver.leave()
    program.state = grown(program.state, arguments.messages)
    driver.frames(30)
    times, report = _timed(program), {}
    for kind in ("following", "whole"):
        following = kind == "following"
        for values in times.values():
            values.clear()
        for _ in range(arguments.frames):
            program.state = written(program.state)
            driver.frames()
        report[kind] = {name: percentiles(values) for name, values in times.items()}
    return {"messages": arguments.messages, "views": len(VIEWS), "ms": report}


def grown(state: AppState, count: int) -> AppState:
    """The conversation said again until it has so many messages, the last of them being written."""
    again = state.messages * (count // len(state.messages) + 1)
    last = replace(again[1], stop_reason=None, stats=None)
    return replace(
        state,
        tree=ConversationTree((*again[: count - 1], last)),
        running=Running(Generate(()), time.monotonic(), "decode"),
    )


def written(state: AppState) -> AppState:
    """One more token in the last message."""
    last: Message = state.messages[-1]
    token: Token = last.tokens[len(last.tokens) % 40]
    last = replace(last, text=last.text + token.text, tokens=(*last.tokens, token))
    return replace(
        state,
        tree=state.tree.with_path((*state.messages[:-1], last)),
        cached=decoded(
            state.cached, [(token.id, token.text)], len(state.messages) - 1, state.cached.used + 1
        ),
    )


def _timed(program: Program) -> dict[str, list[float]]:
    """Milliseconds of the thread's time in the whole frame, in all views and in each."""
    times: dict[str, list[float]] = {"frame": [], "views": []}
    clock_calls(FrameLoop, "run", times["frame"])
    clock_calls(program, "paint", times["views"])
    for view in VIEWS:
        times[view.name] = []
        force_setattr(view, "draw", _clocked(view.draw, times[view.name]))
    return times


def clock_calls(owner: Any, name: str, into: list[float]) -> None:
    """Milliseconds of the thread's processor time of every call of a method."""
    setattr(owner, name, _clocked(getattr(owner, name), into))


def _clocked(call: Callable[..., Any], into: list[float]) -> Callable[..., Any]:
    def clocked(*arguments: Any, **options: Any) -> Any:
        began = time.thread_time()
        try:
            return call(*arguments, **options)
        finally:
            into.append(1e3 * (time.thread_time() - began))

    return clocked


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="a PNG of the last frame")
    return parser.parse_args()


if __name__ == "__main__":
    main()
