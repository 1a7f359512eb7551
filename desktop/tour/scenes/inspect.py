"""The tour's way through tokens, lens and steering."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetXRay
from llm_lite.desktop.features.chat.model import StopAnswer
from llm_lite.desktop.features.program.model import SetAttention
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.tour.input_driver import InputDriver

LIMIT = 900.0  # seconds
STEERED_TOKENS = 40
ABLATED = ((1, 0), (1, 1), (2, 0))  # layer, head; those of them that the model has


def look_inside(
    driver: InputDriver, picture: Callable[[str], None], figure: Callable[[], None]
) -> None:
    """Show a token's attention under the X-ray, its rollout, likelihoods and a choice; lens;
    steering."""
    driver.click("chat.xray")
    driver.leave()
    picture("05-xray")
    _point_at_token(driver, by="layer")
    picture("05-xray-looks")
    _point_at_token(driver, by="layer", reverse=True)
    picture("05-xray-looked-at")
    _point_at_token(driver, by="rollout", reverse=False)
    picture("05-xray-rollout")
    driver.program.do(SetXRay(replace(driver.state.xray, by="layer", probabilities=True, at=None)))
    driver.leave()
    picture("05-xray-likelihood")
    driver.click(_token(driver))
    picture("05-xray-choice")
    driver.click("tokens.choice.close")
    driver.click("tab.lens")
    driver.wait("the lens", lambda s: s.lens.result is not None and not s.lens.request, LIMIT)
    driver.leave()
    picture("05-lens-held")
    figure()
    _steer(driver, picture)
    driver.program.do(SetAttention(replace(driver.state.attention, row=None)))
    driver.click("chat.xray")


def _steer(driver: InputDriver, picture: Callable[[str], None]) -> None:
    driver.click("tab.steer")
    names = [f"steer.{layer}.{head}" for layer, head in ABLATED]
    for name in [name for name in names if driver.shows(name)] or ["steer.0.0"]:
        driver.click(name)
    driver.wait("the effect", lambda s: not s.steering.request and not s.steering.stale, LIMIT)
    driver.click("steer.again")
    driver.wait("the steered answer", has_tokens(STEERED_TOKENS), LIMIT)
    driver.program.do(StopAnswer())
    driver.wait("its end", lambda s: not s.busy, LIMIT)
    driver.leave()
    picture("05-steered")
    driver.click("compare.close")
    driver.click("steer.reset")


def _point_at_token(driver: InputDriver, **changes: object) -> None:
    """Point at a token and wait for what it looks at."""
    driver.leave()
    driver.program.do(SetXRay(replace(driver.state.xray, at=None, **changes)))  # type: ignore[arg-type]
    driver.frames(2)
    driver.point(_token(driver))
    driver.wait("the look", lambda s: s.attention_rows is not None, LIMIT)
    driver.frames(2)


def _token(driver: InputDriver) -> str:
    """Return the widget of a visible token of the answer, two thirds down."""
    last = len(driver.state.messages) - 1
    _, y0, _, y1 = driver.rect("view.chat")
    top, bottom = y0 + (y1 - y0) * 0.2, y0 + (y1 - y0) * 0.8
    names = [
        name
        for name, rect in driver.program.interface.ui.rects.items()
        if name.startswith(f"token.{last}.") and "-" not in name and top < rect[1] < bottom
    ]
    return names[len(names) * 2 // 3]


def has_tokens(count: int) -> Callable[[AppState], bool]:
    """Return a condition: the answer has `count` tokens or has ended."""

    def holds(state: AppState) -> bool:
        return not state.busy or (bool(state.messages) and len(state.messages[-1].tokens) >= count)

    return holds
