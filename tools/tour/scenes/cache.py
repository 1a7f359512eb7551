"""The tour's way through the key and value cache: turns, an edit, a full context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import imgui

from llm_lite.core.messages import Overflow
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.model import MEASURE, ColorCache, SetOverflow
from llm_lite.desktop.features.cache.state import ColorBy
from llm_lite.desktop.features.chat.model import EditMessage, Send, SetSampling
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from tools.tour.input_driver import InputDriver

Picture = Callable[[str], None]
LIMIT = 900.0  # seconds
TOKENS = 40  # of an answer
SMALL = 512  # tokens of the context that is filled
MOST_TURNS = 12
QUESTIONS = ("And why is it red in the evening?", "How would it look on Mars?")
EDITED = "How would it look from the Moon?"
MEASURED: tuple[ColorBy, ...] = ("key-norm", "received", "age")


def look_at_cache(driver: InputDriver, picture: Picture) -> None:
    """Show turns and an edit whose prefix is reused, tokens, measured colors, overflow and
    precision."""
    before = driver.state.sampling
    driver.program.do(SetSampling(replace(before, max_new_tokens=TOKENS)))
    driver.click("tab.kv_cache")
    driver.click("tab.performance")
    for question in QUESTIONS:
        _send(driver, question)
    driver.program.do(EditMessage(len(driver.state.messages) - 2))
    _send(driver, EDITED)
    driver.leave()
    picture("05-cache")
    _point(driver, "kv_cache.map", 0.62, 0.4)
    picture("05-cache-hover")
    for _ in range(16):
        driver.wheel(1.0)
    picture("05-cache-tokens")
    driver.click("kv_cache.used")
    for by in MEASURED:
        driver.program.do(ColorCache(by, False))
        driver.frames(2)
        driver.wait("the numbers", lambda s: not MEASURE.waiting(s), LIMIT)
        driver.leave()
        picture(f"05-cache-{by}")
    driver.program.do(ColorCache("owner", False))
    _point(driver, "kv_cache.legend", 0.5, 0.5)
    driver.wheel(-60.0)
    driver.leave()
    picture("05-cache-memory")
    _point(driver, "kv_cache.pool", 0.5, 0.5)
    driver.wheel(60.0)
    driver.click("kv_cache.used")
    _overflow(driver, picture, "forget-middle", "05-cache-forgotten")
    _overflow(driver, picture, "rolling", "05-cache-rolling")
    _in_bytes(driver, picture)
    driver.program.do(SetSampling(before))


def _overflow(driver: InputDriver, picture: Picture, overflow: Overflow, name: str) -> None:
    """Fill a small context, and show the marks on what the model no longer sees."""
    before = driver.state.options
    _reconfigure(driver, context=SMALL)
    driver.program.do(SetOverflow(overflow))
    forgotten = driver.state.in_front.forgotten
    for _ in range(MOST_TURNS):
        if driver.state.in_front.forgotten != forgotten:
            break
        _send(driver, QUESTIONS[0])
    _point(driver, "view.chat", 0.5, 0.5)
    for _ in range(200):
        if any(name.endswith(".unseen") for name in driver.program.interface.ui.rects):
            break
        driver.wheel(2.0)
    driver.wheel(2.0)
    driver.leave()
    picture(name)
    driver.program.do(SetOverflow("stop"))
    _reconfigure(driver, context=before.context)


def _in_bytes(driver: InputDriver, picture: Picture) -> None:
    """Show keys and values in 8 bits: what they take, chosen and then in use."""
    before = driver.state.options
    driver.click("rail.memory")
    driver.click("memory.keys.int8")
    driver.click("memory.values.int8")
    driver.leave()
    picture("05-cache-int8-chosen")
    driver.click("memory.apply")
    driver.wait("the other precision", lambda s: s.load is None, LIMIT)
    driver.click("memory.close")
    _send(driver, QUESTIONS[1])
    driver.leave()
    picture("05-cache-int8")
    _reconfigure(driver, keys=before.keys, values=before.values)


def _reconfigure(driver: InputDriver, **changes: Any) -> None:
    driver.program.do(SetOptions(replace(driver.state.options, **changes)))
    driver.wait("the change", lambda s: s.load is None, LIMIT)


def _send(driver: InputDriver, words: str) -> None:
    driver.program.do(Send(words))
    driver.wait("an answer", _at_rest, LIMIT)
    driver.frames(2)


def _at_rest(state: AppState) -> bool:
    return not state.busy


def _point(driver: InputDriver, name: str, across: float, down: float) -> None:
    x0, y0, x1, y1 = driver.rect(name)
    imgui.get_io().add_mouse_pos_event(x0 + (x1 - x0) * across, y0 + (y1 - y0) * down)
    driver.frames(3)
