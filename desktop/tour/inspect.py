"""The tour's way through tokens, lens and steering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llm_lite.desktop.actions.chatting import StopAnswer
from llm_lite.desktop.actions.inspecting import SetXRay
from llm_lite.desktop.actions.program import SetAttention
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.tour.input_driver import InputDriver

LIMIT = 900.0  # seconds
STEERED_TOKENS = 40
ABLATED = ((1, 0), (1, 1), (2, 0))  # layer, head; those of them that the model has


def look_inside(
    robot: InputDriver, picture: Callable[[str], None], figure: Callable[[], None]
) -> None:
    """Under the X-ray a token's look, its rollout, likelihoods and a choice; lens; steering."""
    robot.click("chat.xray")
    robot.leave()
    picture("05-xray")
    _look(robot, by="layer")
    picture("05-xray-looks")
    _look(robot, by="layer", reverse=True)
    picture("05-xray-looked-at")
    _look(robot, by="rollout", reverse=False)
    picture("05-xray-rollout")
    robot.program.do(SetXRay(replace(robot.state.xray, by="layer", probabilities=True, at=None)))
    robot.leave()
    picture("05-xray-likelihood")
    robot.click(_token(robot))
    picture("05-xray-choice")
    robot.click("tokens.choice.close")
    robot.click("tab.lens")
    robot.wait("the lens", lambda s: s.lens.result is not None and not s.lens.request, LIMIT)
    robot.leave()
    picture("05-lens-held")
    figure()
    _steer(robot, picture)
    robot.program.do(SetAttention(replace(robot.state.attention, row=None)))
    robot.click("chat.xray")


def _steer(robot: InputDriver, picture: Callable[[str], None]) -> None:
    robot.click("tab.steer")
    names = [f"steer.{layer}.{head}" for layer, head in ABLATED]
    for name in [name for name in names if robot.shows(name)] or ["steer.0.0"]:
        robot.click(name)
    robot.wait("the effect", lambda s: not s.steering.request and not s.steering.stale, LIMIT)
    robot.click("steer.again")
    robot.wait("the steered answer", _has_said(STEERED_TOKENS), LIMIT)
    robot.program.do(StopAnswer())
    robot.wait("its end", lambda s: not s.busy, LIMIT)
    robot.leave()
    picture("05-steered")
    robot.click("compare.close")
    robot.click("steer.reset")


def _look(robot: InputDriver, **changes: object) -> None:
    """Point at a token and wait for what it looks at."""
    robot.leave()
    robot.program.do(SetXRay(replace(robot.state.xray, at=None, **changes)))  # type: ignore[arg-type]
    robot.frames(2)
    robot.point(_token(robot))
    robot.wait("the look", lambda s: s.looked is not None, LIMIT)
    robot.frames(2)


def _token(robot: InputDriver) -> str:
    """One of the answer that is in sight, two thirds down."""
    last = len(robot.state.messages) - 1
    _, y0, _, y1 = robot.rect("view.chat")
    top, bottom = y0 + (y1 - y0) * 0.2, y0 + (y1 - y0) * 0.8
    names = [
        name
        for name, rect in robot.program.interface.ui.rects.items()
        if name.startswith(f"token.{last}.") and "-" not in name and top < rect[1] < bottom
    ]
    return names[len(names) * 2 // 3]


def _has_said(count: int) -> Callable[[AppState], bool]:
    return lambda s: not s.busy or len(s.messages[-1].tokens) >= count
