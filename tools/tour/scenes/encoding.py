"""The pages of models that hold no conversation, and the lesson that follows one token.

An encoder: a text and the attention of its tokens, how alike sentences are, candidates for masked
tokens. An encoder-decoder: a source and its target, cross-attention, other hypotheses of a beam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from imgui_bundle import imgui

from llm_lite.core.messages import AttentionPart
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.encoder.model import ENCODED, SIMILARITIES, ChooseEncoding
from llm_lite.desktop.features.encoder.state import EncodingMode
from llm_lite.desktop.features.lesson.animation import Animation
from llm_lite.desktop.features.lesson.model import TRACE, lesson_page
from llm_lite.desktop.features.lesson.state import STEPS, StepName
from llm_lite.desktop.features.program.model import DismissNotice, OpenModel, SetTheme
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.translator.model import ChooseBeams, WriteTarget
from llm_lite.desktop.widgets.markup.process import markup
from tools.tour.input_driver import PATIENCE, InputDriver

BUNDLED = "all-minilm-l6-v2"  # the encoder that comes as a package
SHARE = 0.6  # of the text, where the token stands that is pointed at
SOURCE = "The house is wonderful."  # what an encoder-decoder translates
BEAMS = 4
SENTENCE = "The cat sat on the mat because it was"  # of the lesson
AGAIN: tuple[StepName, ...] = ("scores", "residual", "sampling")  # in the light theme too
OF_ENCODERS: tuple[StepName, ...] = ("position", "scores", "norm")  # and their last step
MIDWAY = {"tokens": 0.6, "scores": 0.5}  # pictures that are shown on their way too


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
    driver.wait("where it looks", lambda s: ROWS.answer(s) is not None, PATIENCE)
    driver.frames(3)
    picture(name)


def _look_at_pairs(driver: InputDriver, picture: Callable[[str], None], name: str) -> None:
    _open_page(driver, "pairs")
    driver.wait("cosines", lambda s: SIMILARITIES.answer(s) is not None, PATIENCE)
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
    before = driver.state.encoding
    if ENCODED.answer(driver.state) is not None:  # of the page that is open: of masks
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
    """Wait for the text on the screen; examples may change once for a vocabulary."""
    driver.frames(3)
    driver.wait("the text", lambda s: ENCODED.waiting(s) is None and ENCODED.answer(s) is not None)
    driver.frames(3)


def look_at_lesson(driver: InputDriver, picture: Callable[[str], None]) -> None:
    """Show the lesson from the rail through all steps, each at the end of its motion."""
    driver.program.do(SetTheme("dark"))
    driver.click("rail.lesson")
    if driver.shows("lesson.own"):
        driver.click("lesson.own")
    driver.leave()
    picture("16-lesson-begin")
    driver.click("lesson.draft")
    driver.type(SENTENCE)
    driver.click("lesson.run")
    driver.wait("the sentence", lambda s: not s.busy and bool(s.messages), PATIENCE)
    driver.wait("the trace", lambda s: _is_traced(s) or bool(lesson_page(s).problem), PATIENCE)
    driver.leave()
    if lesson_page(driver.state).problem:  # of a model whose layers it does not know
        picture("16-lesson-none")
        driver.click("rail.new_chat")
        driver.leave()
        return
    for step, name in enumerate(STEPS):
        _hold(driver, 1.0)
        picture(f"16-lesson-{step + 1:02d}-{name}")
        if name in MIDWAY:
            _hold(driver, MIDWAY[name])
            picture(f"16-lesson-{step + 1:02d}-{name}-midway")
        driver.click("lesson.next")
        driver.leave()
    driver.program.do(SetTheme("light"))
    for name in AGAIN:
        driver.click(f"lesson.step.{STEPS.index(name)}")
        driver.leave()
        _hold(driver, 1.0)
        picture(f"16-lesson-{STEPS.index(name) + 1:02d}-{name}-light")
    driver.click("rail.new_chat")
    driver.leave()


def look_at_encoders_lesson(
    driver: InputDriver, picture: Callable[[str], None], name: str, beside: str
) -> None:
    """Show the steps that differ from a decoder's, on the text of the encoder's page; in the light
    theme only the last one. Where the text becomes a vector, compare it with the text `beside`."""
    driver.click("rail.lesson")
    driver.wait("the trace", _is_traced, PATIENCE)
    steps = lesson_page(driver.state).steps
    for number, step in enumerate(steps):
        seen = step in OF_ENCODERS and driver.state.theme == "dark"
        if not seen and number < len(steps) - 1:
            continue
        driver.click(f"lesson.step.{number}")
        if step == "pooling":
            driver.click("lesson.beside")
            driver.press(imgui.Key.mod_ctrl, imgui.Key.a)
            driver.type(beside)
            driver.press(imgui.Key.enter)
            driver.wait("the other text", _is_compared, PATIENCE)
        driver.leave()
        _hold(driver, 1.0)
        picture(f"{name}-{number + 1:02d}-{step}")
    driver.click("lesson.close")
    driver.leave()


def _hold(driver: InputDriver, at: float) -> None:
    driver.program.interface.ui.local(Animation).hold_at(at)
    driver.frames(2)
    markup().wait()  # formulas come from a process apart
    driver.frames(6)


def _is_compared(state: AppState) -> bool:
    trace = lesson_page(state).trace
    return (
        _is_traced(state)
        and trace is not None
        and trace.pooled is not None
        and (trace.pooled.beside is not None)
    )


def _is_traced(state: AppState) -> bool:
    return lesson_page(state).trace is not None and not TRACE.waiting(state)


def look_at_targets(
    driver: InputDriver, picture: Callable[[str], None], complete: Callable[[], None]
) -> None:
    """Show the page from its empty state on; `complete` draws until the maps are complete."""
    for notice in driver.state.notices:
        driver.program.do(DismissNotice(notice.id))
    driver.leave()
    picture("18-target-begin")
    driver.program.do(ChooseBeams(BEAMS))
    driver.program.do(WriteTarget(SOURCE))
    driver.wait("the target", _is_written, PATIENCE)
    for theme in ("dark", "light"):
        driver.program.do(SetTheme(theme))
        _point(driver, picture, "target", f"18-target-looks-{theme}")
        _point(driver, picture, "source", f"18-target-looked-at-{theme}")
        for part in get_args(AttentionPart):
            driver.program.do(SetAttention(driver.state.attention.showing(part)))
            driver.leave()
            complete()
            picture(f"18-target-{part}-{theme}")
    driver.program.do(SetAttention(replace(driver.state.attention, row=None)))


def _point(driver: InputDriver, picture: Callable[[str], None], side: str, name: str) -> None:
    """Show the attention of a token in the target or in the source."""
    driver.point("tab.attention")
    driver.point(f"translating.{side}.1")
    driver.wait("where it looks", lambda s: ROWS.answer(s) is not None, PATIENCE)
    driver.frames(3)
    picture(name)
    driver.leave()


def _is_written(state: AppState) -> bool:
    return state.translating.result is not None and not state.busy
