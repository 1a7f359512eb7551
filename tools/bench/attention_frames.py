"""Frame times with grid and head view open over a long context.

A source of random queries and keys in SmolLM2's shape (30 layers, 9 heads, 3 key heads of 64,
float16) grows a token a frame from LENGTH; then all maps are completed at rest.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np

from llm_lite.core.messages import Generate
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, Running
from llm_lite.desktop.widgets.frame_times import percentiles
from tests.desktop.engine.attention import RandomSource
from tests.desktop.engine.model import EXECUTOR, MODEL
from tools.tour.input_driver import InputDriver
from tools.tour.offscreen_app import OffscreenApp

LENGTH, TOKENS = 4096, 150


def main() -> None:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else LENGTH
    source = RandomSource(
        layers=30, heads=9, kv_heads=3, head_dim=64, context=length + 256, dtype="f16"
    )
    source.grow(length - TOKENS)
    chosen = AttentionChoice(locked=((0, 0), (3, 2)))
    busy = Running(Generate(()), 0.0, "decode")
    state = AppState(model=MODEL, executor=EXECUTOR, attention=chosen, running=busy)
    stage, took = OffscreenApp(state, Settings()), []
    program, screen = stage.program, stage.screen
    program.engine = SimpleNamespace(
        poll=list, attention=lambda: source, send=lambda c: None, close=lambda t=0: None
    )

    def draw() -> None:
        start = time.perf_counter()
        stage.draw()
        screen.loop.wait()
        took.append((time.perf_counter() - start) * 1e3)

    driver = InputDriver(program, draw)
    driver.frames(3)
    for tab in ("tab.attention", "tab.head"):
        driver.click(tab)
    driver.frames(10)
    took.clear()
    for _ in range(TOKENS):
        source.grow(1)
        driver.frames()
    print(f"growing to {length}:", _line(took), "device ms:", round(screen.maps.milliseconds, 1))
    took.clear()
    program.state = replace(program.state, running=None)
    start = time.perf_counter()
    while screen.maps.pending and time.perf_counter() - start < 30:
        driver.frames()
    print(f"completing {time.perf_counter() - start:.1f} s:", _line(took))
    print(f"rate {screen.maps._budget.rate:,.0f} pairs/ms")
    took.clear()
    driver.frames(60)
    print("at rest:", _line(took))
    print("memory:", {k: f"{v / 2**20:.0f} MiB" for k, v in screen.maps.memory.items()})
    print("bytes read back:", screen.maps.read_back)
    stage.close()


def _line(times: list[float]) -> str:
    found = percentiles(times) if times else {}
    return f"{found} longest {np.max(times, initial=0):.1f} ms"


if __name__ == "__main__":
    main()
