"""The tour's way through the key and value cache: turns, an edit, a full context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from imgui_bundle import imgui

from llm_lite.core.messages import Overflow
from llm_lite.desktop.actions.caching import ColorCache, SetOverflow
from llm_lite.desktop.actions.chatting import EditMessage, Send, SetSampling
from llm_lite.desktop.actions.program import SetOptions
from llm_lite.desktop.state.cache_state import ColorBy
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.tour.input_driver import InputDriver

Picture = Callable[[str], None]
LIMIT = 900.0  # seconds
TOKENS = 40  # of an answer
SMALL = 512  # tokens of the context that is filled
MOST_TURNS = 12
QUESTIONS = ("And why is it red in the evening?", "How would it look on Mars?")
EDITED = "How would it look from the Moon?"
MEASURED: tuple[ColorBy, ...] = ("key-norm", "received", "age")


def look_at_cache(robot: InputDriver, picture: Picture) -> None:
    """Turns and an edit, whose prefix is reused; tokens; what was measured; forgetting."""
    before = robot.state.sampling
    robot.program.do(SetSampling(replace(before, max_new_tokens=TOKENS)))
    robot.click("tab.kv_cache")
    robot.click("tab.performance")
    for question in QUESTIONS:
        _say(robot, question)
    robot.program.do(EditMessage(len(robot.state.messages) - 2))
    _say(robot, EDITED)
    robot.leave()
    picture("05-cache")
    _point(robot, "kv_cache.map", 0.91, 0.4)
    picture("05-cache-hover")
    for _ in range(16):
        robot.wheel(1.0)
    picture("05-cache-tokens")
    robot.click("kv_cache.used")
    for by in MEASURED:
        robot.program.do(ColorCache(by, False))
        robot.frames(2)
        robot.wait("the numbers", lambda s: not s.cache.request, LIMIT)
        robot.leave()
        picture(f"05-cache-{by}")
    robot.program.do(ColorCache("owner", False))
    _point(robot, "kv_cache.legend", 0.5, 0.5)
    robot.wheel(-60.0)
    robot.leave()
    picture("05-cache-memory")
    _point(robot, "kv_cache.pool", 0.5, 0.5)
    robot.wheel(60.0)
    robot.click("kv_cache.used")
    _overflow(robot, picture, "forget-middle", "05-cache-forgotten")
    _overflow(robot, picture, "rolling", "05-cache-rolling")
    _in_bytes(robot, picture)
    robot.program.do(SetSampling(before))


def _overflow(robot: InputDriver, picture: Picture, overflow: Overflow, name: str) -> None:
    """A small context is filled: what the model no longer sees is marked."""
    before = robot.state.options
    _reconfigure(robot, context=SMALL)
    robot.program.do(SetOverflow(overflow))
    forgotten = robot.state.cache.forgotten
    for _ in range(MOST_TURNS):
        if robot.state.cache.forgotten != forgotten:
            break
        _say(robot, QUESTIONS[0])
    _point(robot, "view.chat", 0.5, 0.5)
    for _ in range(200):
        if any(name.endswith(".unseen") for name in robot.program.interface.ui.rects):
            break
        robot.wheel(2.0)
    robot.wheel(2.0)
    robot.leave()
    picture(name)
    robot.program.do(SetOverflow("stop"))
    _reconfigure(robot, context=before.context)


def _in_bytes(robot: InputDriver, picture: Picture) -> None:
    """Keys and values in 8 bits: what that takes, chosen and then in use."""
    before = robot.state.options
    robot.click("rail.memory")
    robot.click("memory.keys.int8")
    robot.click("memory.values.int8")
    robot.leave()
    picture("05-cache-int8-chosen")
    robot.click("memory.apply")
    robot.wait("the other precision", lambda s: s.load is None, LIMIT)
    robot.click("memory.close")
    _say(robot, QUESTIONS[1])
    robot.leave()
    picture("05-cache-int8")
    _reconfigure(robot, keys=before.keys, values=before.values)


def _reconfigure(robot: InputDriver, **changes: Any) -> None:
    robot.program.do(SetOptions(replace(robot.state.options, **changes)))
    robot.wait("the change", lambda s: s.load is None, LIMIT)


def _say(robot: InputDriver, words: str) -> None:
    robot.program.do(Send(words))
    robot.wait("an answer", _at_rest, LIMIT)
    robot.frames(2)


def _at_rest(state: AppState) -> bool:
    return not state.busy


def _point(robot: InputDriver, name: str, across: float, down: float) -> None:
    x0, y0, x1, y1 = robot.rect(name)
    imgui.get_io().add_mouse_pos_event(x0 + (x1 - x0) * across, y0 + (y1 - y0) * down)
    robot.frames(3)
