"""How far a picture has moved: by the clock of the frames, or held."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.features.lesson.state import LessonState, StepName
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
MEMORY = "lesson.motion"


class Motion(Struct):
    """`at`: 0..1 of the picture."""

    what: object = None  # the step and trace that it belongs to
    at: float = 0.0
    playing: bool = True
    last: float = 0.0  # when it was moved last


def motion(ui: Ui) -> Motion:
    found: Motion = ui.memory.setdefault(MEMORY, Motion())
    return found


def advance(state: AppState, ui: Ui) -> float:
    """Where the picture stands in this frame; another frame follows while it moves."""
    moves, lesson = motion(ui), state.lesson
    what = (lesson.name, lesson.draws if lesson.name == "cache" else 0, *_followed(lesson))
    if moves.what != what:
        moves.what, moves.at, moves.playing, moves.last = what, 0.0, True, ui.now
        if state.less_motion:
            moves.at, moves.playing = 1.0, False
    passed = min(max(0.0, ui.now - moves.last), LONGEST_FRAME)
    moves.last = ui.now
    if moves.playing:
        moves.at = min(1.0, moves.at + passed / SECONDS[lesson.name])
        moves.playing = moves.at < 1.0
        if moves.playing:
            ui.redraw_in(0.0)
    return moves.at


def _followed(lesson: LessonState) -> tuple[object, ...]:
    """A trace that is asked for again, of the same token, is the same picture."""
    trace = lesson.trace
    return () if trace is None else (trace.position, trace.layer, trace.head, trace.tokens)


def toggle(ui: Ui) -> None:
    """Play, hold, or begin again at the end."""
    moves = motion(ui)
    if moves.at >= 1.0:
        moves.at, moves.playing = 0.0, True
    else:
        moves.playing = not moves.playing
    moves.last = ui.now


def hold_at(ui: Ui, at: float) -> None:
    moves = motion(ui)
    moves.at, moves.playing = min(1.0, max(0.0, at)), False


def part(at: float, begin: float, end: float) -> float:
    """How far the part of a picture between two moments is, 0..1, slow at both ends."""
    share = min(1.0, max(0.0, (at - begin) / (end - begin)))
    return share * share * (3.0 - 2.0 * share)
