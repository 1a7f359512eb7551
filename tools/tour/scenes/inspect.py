"""The tour's way through tokens, lens, steering and the tokenizer."""

from __future__ import annotations

from collections.abc import Callable

from imgui_bundle import imgui

from llm_lite.core.messages import Interventions
from llm_lite.core.messages.interventions import Shift
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import ReadAgain, SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.chat.model import StopAnswer
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.steer.model import DIVERGENCE, LoadInterventions
from llm_lite.desktop.features.steer.view import EFFECT
from llm_lite.desktop.features.tokenizer.model import TOKENS, ChooseTokenizing
from llm_lite.desktop.features.tokenizer.state import (
    MODEL,
    OTHER,
    TokenizerChoice,
    most_cut_word,
    steps_in,
)
from llm_lite.desktop.features.tokenizer.view import result_of
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.model import SetXRay
from tools.tour.input_driver import PATIENCE, InputDriver

LOWEST = 0.82  # of the height, where the panel ends that is shown
KOREAN_WORDS = "하늘이 파랗습니다. The sky is unbelievably blue."
LIMIT = 900.0  # seconds
STEERED_TOKENS = 40
SMALL = (0.05, -0.05) * 8192  # a direction; as long as a model is wide
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
    driver.wait("the lens", _has_lens, LIMIT)
    driver.leave()
    picture("05-lens-held")
    figure()
    _steer(driver, picture)
    driver.program.do(SetAttention(replace(driver.state.attention, row=None)))
    driver.click("chat.xray")


def _has_lens(state: AppState) -> bool:
    return LENS.answer(state) is not None and LENS.waiting(state) is None


def _steer(driver: InputDriver, picture: Callable[[str], None]) -> None:
    driver.click("tab.steer")
    names = [f"steer.{layer}.{head}" for layer, head in ABLATED]
    any_layer = next(f"steer.{at}.0" for at in range(1000) if driver.shows(f"steer.{at}.0"))
    for name in [name for name in names if driver.shows(name)] or [any_layer]:
        driver.click(name)
    driver.wait("the effect", lambda s: EFFECT.answered(s) is not None, LIMIT)
    driver.click("steer.again")
    driver.wait("the steered answer", has_tokens(STEERED_TOKENS), LIMIT)
    driver.program.do(StopAnswer())
    driver.wait("its end", lambda s: not s.busy, LIMIT)
    driver.wait("its lens", _has_lens, LIMIT)
    driver.wait("how far apart they are", lambda s: DIVERGENCE.answered(s) is not None, LIMIT)
    driver.leave()
    picture("05-steered")
    driver.click("compare.close")
    _load_direction(driver, picture)
    driver.click("steer.reset")
    driver.wait("no change", lambda s: s.steering.wanted is None, LIMIT)
    driver.program.do(ReadAgain())  # what is kept of it later is of no changes either
    driver.wait("the conversation", lambda s: s.reading is None, LIMIT)


def _load_direction(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Add a direction to what a layer leaves, beside the heads that are off, as a file does."""
    state = driver.state
    if state.model is None:
        return
    direction = Shift(
        f"blocks.{state.model.layers // 2}.hook_resid_post", SMALL[: state.model.width]
    )
    changes = (*state.steering.interventions.changes, direction)
    driver.program.do(LoadInterventions(Interventions(changes)))
    driver.wait("the direction", lambda s: s.steering.wanted is None, LIMIT)
    driver.wait("its effect", lambda s: EFFECT.answered(s) is not None, LIMIT)
    driver.leave()
    picture("05-steer-direction")
    driver.click("steer.file")
    driver.leave()
    picture("05-steer-file")
    driver.press(imgui.Key.escape)
    driver.frames(2)


def _point_at_token(driver: InputDriver, **changes: object) -> None:
    """Point at a token and wait for its attention."""
    driver.leave()
    driver.program.do(SetXRay(replace(driver.state.xray, at=None, **changes)))  # type: ignore[arg-type]
    driver.frames(2)
    driver.point(_token(driver))
    driver.wait("the look", lambda s: ROWS.answer(s) is not None, LIMIT)
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


def look_at_tokenizer(
    driver: InputDriver,
    picture: Callable[[str], None],
    number: str = "04",
    suffix: str = "",
    other: str = "",
) -> None:
    """Show the tokenizer's stages; `other` is the path of a tokenizer to set beside the model's."""
    driver.click("tab.tokenizer")
    _, _, _, border = driver.rect("view.tokenizer")
    _drag_border(driver, imgui.get_io().display_size.y * LOWEST)
    driver.click("tokenizer.text")
    driver.wait("the tokens", _is_answered(MODEL), PATIENCE)
    begin(driver)
    driver.leave()
    picture(f"{number}-tokenizer-tokens{suffix}")
    driver.click("tokenizer.stage.text")
    driver.leave()
    picture(f"{number}-tokenizer-text{suffix}")
    driver.click("tokenizer.stage.steps")
    _choose(driver, step=0)
    driver.leave()
    picture(f"{number}-tokenizer-words{suffix}")
    _choose(driver, step=_halfway(driver.state))
    driver.frames(2)
    picture(f"{number}-tokenizer-merging{suffix}")
    _choose(driver, step=None)
    driver.leave()
    picture(f"{number}-tokenizer-merged{suffix}")
    driver.click("tokenizer.stage.tokens")
    if driver.shows("tokenizer.chat"):
        driver.click("tokenizer.chat")
        driver.wait("the prompt", _is_prompt, PATIENCE)
        driver.leave()
        picture(f"{number}-tokenizer-chat{suffix}")
        driver.click("tokenizer.chat")
    _compare(driver, picture, f"{number}-tokenizer-compare{suffix}", other)
    driver.program.do(ChooseTokenizing(TokenizerChoice()))
    driver.frames(2)
    _drag_border(driver, border)


def _halfway(state: AppState) -> int:
    """Return half of the steps of the word that is shown."""
    result = result_of(state, MODEL)
    word = most_cut_word(result) if result is not None else None
    return 0 if result is None or word is None else (steps_in(result, word) + 1) // 2


def _drag_border(driver: InputDriver, to: float) -> None:
    """Move the border between this panel and the one below, by dragging, to a height in pixels."""
    x0, _, x1, y1 = driver.rect("view.tokenizer")
    driver.point_at((x0 + x1) / 2, y1 + 1)
    imgui.get_io().add_mouse_button_event(0, True)
    driver.frames(2)
    for share in (0.5, 1.0):
        driver.point_at((x0 + x1) / 2, y1 + 1 + (to - y1) * share)
    imgui.get_io().add_mouse_button_event(0, False)
    driver.frames(3)
    driver.leave()


def begin(driver: InputDriver) -> None:
    driver.program.do(ChooseTokenizing(TokenizerChoice()))
    driver.frames(3)
    driver.wait("the tokens", _is_answered(MODEL), PATIENCE)


def _compare(driver: InputDriver, picture: Callable[[str], None], name: str, other: str) -> None:
    driver.click("tokenizer.stage.compare")
    _choose(driver, text=KOREAN_WORDS, other=other)
    slots = (MODEL, OTHER) if other else (MODEL,)
    driver.wait("the tokenizers", lambda s: all(map(_holds(s), slots)), PATIENCE)
    driver.leave()
    picture(name)


def _choose(driver: InputDriver, **changes: object) -> None:
    choice = replace(driver.state.tokenizer, **changes)  # type: ignore[arg-type]
    driver.program.do(ChooseTokenizing(choice))
    driver.frames(2)


def _is_answered(slot: int) -> Callable[[AppState], bool]:
    return lambda s: _holds(s)(slot)


def _holds(state: AppState) -> Callable[[int], bool]:
    """Return a condition on a slot: the typed text was tokenized, or could not be."""

    def holds(slot: int) -> bool:
        tokens, result = TOKENS[slot], result_of(state, slot)
        same = result is not None and result.text == state.tokenizer.text
        return tokens.waiting(state) is None and (same or bool(tokens.problem(state)))

    return holds


def _is_prompt(state: AppState) -> bool:
    result = result_of(state, MODEL)
    return TOKENS[MODEL].waiting(state) is None and result is not None and bool(result.typed)
