"""A model that thinks, for the tour: the events are written here, as the tour's own model may not
think."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from imgui_bundle import imgui

from llm_lite.core.messages import (
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Thinking,
    TokenDecoded,
)
from llm_lite.desktop.actions.chatting import UnfoldThought
from llm_lite.desktop.state.apply import apply
from llm_lite.desktop.state.state import AppState, Message, Running
from llm_lite.desktop.tour.input_driver import InputDriver

QUESTION = (
    "A bat and a ball cost 1.10 together, and the bat costs 1 more than the ball. What does the "
    "ball cost?"
)
THOUGHT = (
    "The first number that comes to mind is 0.10. But then the bat would cost 1.10, and both "
    "together 1.20. So that is not right.\n\nLet the ball cost x. The bat costs x + 1, so 2x + 1 = "
    "1.10, and x = 0.05.\n\nCheck: 0.05 + 1.05 = 1.10. Yes. The difference is 1.05 - 0.05 = 1. "
    "Both hold, so I can answer."
)
SAID = (
    "The ball costs **0.05**, and the bat 1.05.\n\nIt is tempting to say 0.10, but then the bat "
    "would cost 1.10 and both together 1.20."
)
PIECE = 4  # characters of a token
SECONDS = 0.04  # a token


def look_at_thoughts(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """Thoughts as they come, folded above the answer, and unfolded, in pictures of some name."""
    kept = driver.state
    request = kept.next_request
    text = f"{THOUGHT}\n</think>\n\n{SAID}"
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    begun = replace(
        kept,
        messages=(Message("user", QUESTION), Message("assistant", "")),
        running=Running(request, 0.0),
        next_request=request + 1,
    )
    started = GenerationStarted(request, 40, 0, (), Thinking("think", inside=True))
    begun = apply(started, begun, 0.1)
    driver.program.state = _heard(begun, pieces[: len(THOUGHT) * 2 // 3 // PIECE])
    driver.leave()
    picture(f"{name}-coming")
    count = len(pieces)
    ended = _heard(begun, pieces)
    stats = GenerationStats(40, 0, count, 400.0, 1 / SECONDS, 120.0, 40 + count)
    ended = apply(GenerationFinished(request, "end", stats), ended, count * SECONDS)
    driver.program.state = ended
    driver.leave()
    picture(f"{name}-folded")
    driver.program.do(UnfoldThought(1, True))
    driver.leave()
    picture(f"{name}-unfolded")
    _select_all(driver)
    picture(f"{name}-selected")
    driver.press(imgui.Key.escape)
    driver.program.state = replace(kept, next_request=request + 1)
    driver.frames(2)


def _select_all(driver: InputDriver) -> None:
    """Both messages, with the keys that a person has after a click on a text."""
    driver.click("message.1.thoughts")
    driver.point("message.1.thoughts")
    for _ in range(2):
        driver.press(imgui.Key.mod_ctrl, imgui.Key.a)
    driver.leave()


def _heard(state: AppState, pieces: list[str]) -> AppState:
    assert state.running is not None
    request = state.running.request
    for number, piece in enumerate(pieces):
        step = 1e3 * SECONDS
        event = TokenDecoded(request, number, piece, 0.5, 40 + number, (), step)
        state = apply(event, state, 0.1 + number * SECONDS)
    return state
