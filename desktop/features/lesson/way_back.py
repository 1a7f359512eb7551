"""The way back to the lesson in the status bar, after a number of it led to another view."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.lesson.state import LessonState
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.icons import ICON_LESSON
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import tip


def label(lesson: LessonState) -> str:
    """ "" where nobody left it so."""
    if lesson.shown or not lesson.away:
        return ""
    words = tr("Back to the lesson, step {n}").format(n=lesson.step + 1)
    return f"{ICON_LESSON}  {words}"


def width(state: AppState, ui: Ui) -> float:
    """Pixels that it takes, with the gap before it; in the font of the bar."""
    words = label(state.lesson)
    return imgui.calc_text_size(words).x + ui.u(5) if words else 0.0


def draw_way_back(state: AppState, ui: Ui, height: float) -> list[Action]:
    """Behind the last item of the bar."""
    words = label(state.lesson)
    if not words:
        return []
    side = ui.u(6.5)
    imgui.same_line(0, ui.u(2))
    imgui.set_cursor_pos_y((height - side) / 2)
    with ui.colored(button="-", text="link"), ui.styled(frame_padding=(ui.u(1.5), 0.0)):
        clicked = imgui.button(f"{words}##lesson.back_there", ImVec2(0, side))
    ui.mark("status.lesson")
    tip(ui, with_keys(tr("The lesson is where you left it."), "lesson"))
    return [ShowLesson(True)] if clicked else []
