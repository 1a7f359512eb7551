"""The lesson that follows one token: a sentence, every step in one theme, and some in the other."""

from __future__ import annotations

from collections.abc import Callable

from imgui_bundle import imgui

from llm_lite.desktop.features.lesson import motion
from llm_lite.desktop.features.lesson.state import STEPS, StepName
from llm_lite.desktop.features.program.model import SetTheme
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.tour.input_driver import PATIENCE, InputDriver
from llm_lite.desktop.widgets.markup.process import markup

SENTENCE = "The cat sat on the mat because it was"
AGAIN: tuple[StepName, ...] = ("scores", "residual", "sampling")  # in the light theme too
OF_ENCODERS: tuple[StepName, ...] = ("position", "scores", "norm")  # and their last step
MIDWAY = {"tokens": 0.6, "scores": 0.5}  # pictures that are shown on their way too


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
    driver.wait("the trace", _is_traced, PATIENCE)
    driver.leave()
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
    steps = driver.state.lesson.steps
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
    motion.hold_at(driver.program.interface.ui, at)
    driver.frames(2)
    markup().wait()  # formulas come from a process apart
    driver.frames(6)


def _is_compared(state: AppState) -> bool:
    trace = state.lesson.trace
    return (
        _is_traced(state)
        and trace is not None
        and trace.pooled is not None
        and (trace.pooled.beside is not None)
    )


def _is_traced(state: AppState) -> bool:
    return state.lesson.trace is not None and not state.lesson.request
