"""The page of an encoder in both themes: a text and where its tokens look, how alike sentences are,
what could stand in the place of masked tokens."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.model import ChooseEncoding
from llm_lite.desktop.features.encoder.state import EncodingMode
from llm_lite.desktop.features.program.model import DismissNotice, OpenModel, SetTheme
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver
from llm_lite.desktop.tour.scenes.lesson import look_at_encoders_lesson

BUNDLED = "all-minilm-l6-v2"
SHARE = 0.6  # of the text, where the token stands that is pointed at


def bundled_encoder(state: AppState) -> bool:
    """Return True if the encoder that comes as a package is installed."""
    return any(entry.source == BUNDLED and entry.path for entry in state.catalogue)


def open_encoder(driver: InputDriver) -> None:
    driver.program.do(OpenModel(BUNDLED))
    driver.wait("the encoder", lambda s: s.load is None and s.encodes, PATIENCE)


def look_at_encoder(
    driver: InputDriver, picture: Callable[[str], None], figure: Callable[[str], None]
) -> None:
    """Show every page in both themes. `figure` saves the text as a picture, under a name."""
    for notice in driver.state.notices:
        driver.program.do(DismissNotice(notice.id))
    for theme in ("dark", "light"):
        driver.program.do(SetTheme(theme))
        _look_at_text(driver, picture, f"17-encoder-text-{theme}")
        figure(f"17-encoder-figure-{theme}")
        driver.leave()
        _look_at_pairs(driver, picture, f"17-encoder-pairs-{theme}")
        _look_at_masks(driver, picture, f"17-encoder-fill-{theme}")
        _look_at_lesson(driver, picture, f"17-encoder-lesson-{theme}")


def _look_at_text(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """Show the text with the pointer on a token of its second half."""
    _open_page(driver, "text")
    driver.point("tab.attention")
    at = int(len(driver.state.positions) * SHARE)
    driver.point(f"encoding.token.{at}")
    driver.wait("where it looks", lambda s: s.attention_rows is not None, PATIENCE)
    driver.frames(3)
    picture(name)


def _look_at_pairs(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    _open_page(driver, "pairs")
    driver.wait("cosines", lambda s: s.encoding.compared is not None, PATIENCE)
    driver.frames(3)
    driver.click("encoding.pair.1.0")
    _wait_for_text(driver)
    driver.point("encoding.pair.0.1")
    picture(name)
    driver.leave()


def _look_at_masks(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """Show candidates for the first masked token, and the text with the likeliest one in its
    place."""
    _open_page(driver, "fill")
    if driver.shows("encoding.no_head"):
        picture(name)
        return
    driver.frames(3)
    driver.point("encoding.word.0.1")
    picture(name)
    driver.click("encoding.word.0.0")
    _wait_for_text(driver)
    driver.leave()
    picture(f"{name}-filled")
    driver.click("encoding.back")


def _look_at_lesson(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    """Show the lesson on the first sentence, compared with the second; with a head, on the masked
    text."""
    before = driver.state.encoding.choice
    if driver.state.encoding.shown is not None:  # of the page that is open: of masks
        look_at_encoders_lesson(driver, picture, name, "")
        return
    _open_page(driver, "text")
    text, beside = before.shown_sentences[:2]
    driver.program.do(ChooseEncoding(replace(before, mode="text", text=text)))
    _wait_for_text(driver)
    look_at_encoders_lesson(driver, picture, name, beside)
    driver.program.do(ChooseEncoding(before))


def _open_page(driver: InputDriver, mode: EncodingMode) -> None:
    driver.click(f"encoding.mode.{mode}")
    driver.leave()
    if not driver.shows("encoding.no_head"):
        _wait_for_text(driver)


def _wait_for_text(driver: InputDriver) -> None:
    """That is on the screen; examples may change once for a vocabulary."""
    driver.frames(3)
    driver.wait("the text", lambda s: not s.encoding.request and s.encoding.shown is not None)
    driver.frames(3)
