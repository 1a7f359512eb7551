"""The animation of a step's picture: it moves by the clock of the frames, or is held."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.features.lesson.model import lesson_page
from llm_lite.desktop.features.lesson.state import LessonPage, StepName
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.ui import Ui

SECONDS: dict[StepName, float] = {
    "tokens": 4.0,
    "position": 3.5,
    "norm": 3.0,
    "queries": 4.0,
    "scores": 6.0,
    "softmax": 4.0,
    "values": 5.0,
    "output": 4.5,
    "neurons": 4.5,
    "residual": 4.0,
    "sampling": 4.0,
    "cache": 5.0,
    "source": 4.5,
    "cross": 6.0,
    "choosing": 4.0,
    "filling": 4.0,
    "pooling": 5.0,
    "summary": 7.0,
}
LONGEST_FRAME = 0.1  # seconds that a late frame counts at most


class Animation(Struct):
    """The state of a picture's animation."""

    what: object = None  # the step and trace that it belongs to
    at: float = 0.0
    playing: bool = True
    last: float = 0.0  # seconds, when it was moved last

    def toggle(self, now: float) -> None:
        """Hold the picture, let it move on, or begin again at its end."""
        if self.at >= 1.0:
            self.at, self.playing = 0.0, True
        else:
            self.playing = not self.playing
        self.last = now

    def hold_at(self, at: float) -> None:
        self.at, self.playing = min(1.0, max(0.0, at)), False


def advance(state: AppState, ui: Ui) -> float:
    """Move the picture by the time since the last frame and return where it stands; ask for another
    frame while it moves."""
    animation, lesson = ui.local(Animation), lesson_page(state)
    what = (lesson.step_name, lesson.draws if lesson.step_name == "cache" else 0, *_traced(lesson))
    if animation.what != what:
        animation.what, animation.at = what, 0.0
        animation.playing, animation.last = True, ui.now
        if state.less_motion:
            animation.hold_at(1.0)
    passed = min(max(0.0, ui.now - animation.last), LONGEST_FRAME)
    animation.last = ui.now
    if animation.playing:
        animation.at = min(1.0, animation.at + passed / SECONDS[lesson.step_name])
        animation.playing = animation.at < 1.0
        if animation.playing:
            ui.redraw_in(0.0)
    return animation.at


def _traced(lesson: LessonPage) -> tuple[object, ...]:
    """Return what identifies a picture; it stays the same when its trace is requested again."""
    trace = lesson.trace
    return () if trace is None else (trace.position, trace.layer, trace.head, trace.tokens)


def progress(at: float, begin: float, end: float) -> float:
    """How far the part of a picture between two moments is, 0..1, slow at both ends."""
    share = min(1.0, max(0.0, (at - begin) / (end - begin)))
    return share * share * (3.0 - 2.0 * share)
