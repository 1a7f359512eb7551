"""The other views that show a number of the lesson, and the button that returns from there."""

from __future__ import annotations

from typing import Literal

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.cache.model import PointAt
from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.layouts.model import ShowInspector
from llm_lite.desktop.features.lesson.model import ShowLesson, lesson_page
from llm_lite.desktop.features.lesson.numbers import Name
from llm_lite.desktop.features.lesson.state import LessonPage, StepName
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_LESSON
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import tip

OtherView = Literal["attention", "xray", "lens", "cache"]
VIEWS_OF_NUMBERS: dict[str, OtherView] = {
    "probability": "attention",
    "cross_probability": "attention",
    "position_bytes": "cache",
}
VIEWS_OF_STEPS: dict[StepName, OtherView] = {
    "softmax": "attention",
    "residual": "lens",
    "sampling": "xray",
    "cache": "cache",
    "cross": "attention",
}
TITLES: dict[OtherView, str] = {
    "attention": mark("See this head in the Head view"),
    "xray": mark("See the token in the X-ray of the chat"),
    "lens": mark("See the layers in the Lens view"),
    "cache": mark("See the KV cache view"),
}
EXPLANATIONS: dict[OtherView, str] = {  # what the view shows
    "attention": mark(
        "The Head view, at the right, shows these shares for all tokens at once: a row is a token "
        "that looks, a column one that is looked at. The row of our token is marked."
    ),
    "xray": mark(
        "The X-ray shows below each token what the model thought likely, at temperature 1, or what "
        "a head looked at. Its number for the first token of an answer can differ a little from "
        "the lesson's: the answer read the whole prompt in one step, the lesson its last token "
        "alone, and int8 activations round differently."
    ),
    "lens": mark(
        "The Lens view, at the right, shows which token the model would say after each layer."
    ),
    "cache": mark(
        "The KV cache view, at the right, shows a column for every token, and what each takes."
    ),
}


def view_of_number(name: Name, lesson: LessonPage) -> OtherView | None:
    """Return the view that shows this very number."""
    return _unless_lacking(VIEWS_OF_NUMBERS.get(str(name[0])), lesson)


def view_of_step(lesson: LessonPage) -> OtherView | None:
    """Return the view that shows what the step shows."""
    return _unless_lacking(VIEWS_OF_STEPS.get(lesson.step_name), lesson)


def _unless_lacking(view: OtherView | None, lesson: LessonPage) -> OtherView | None:
    """Return the view unless the model lacks it: encoders have maps alone, and the X-ray belongs to
    the chat, which holds no targets."""
    path = lesson.trace.shape.path if lesson.trace else "decoder"
    lacking: dict[str, tuple[OtherView, ...]] = {
        "encoder": ("xray", "lens", "cache"),
        "encoder_decoder": ("xray",),
    }
    return None if view in lacking.get(path, ()) else view


def press_hint(name: Name, lesson: LessonPage) -> str:
    """Return what a press on the number does; "" where it does nothing."""
    view = view_of_number(name, lesson)
    return tr("Click: {view}").format(view=tr(TITLES[view])) if view is not None else ""


def open_view_of_number(name: Name, state: AppState, ui: Ui) -> list[Action]:
    """Return the actions that show the number in its view; nothing where no view shows it."""
    view = view_of_number(name, lesson_page(state))
    return [] if view is None else open_view(view, state, ui)


def open_view(view: OtherView, state: AppState, ui: Ui) -> list[Action]:
    """Return the actions that close the lesson and show the view with the lesson's token, layer and
    head; a notice says what it shows. The lesson stays at its step."""
    trace = lesson_page(state).trace
    actions: list[Action] = [ShowLesson(False, can_return=True, note=tr(EXPLANATIONS[view]))]
    if trace is None:
        return actions
    chosen = (trace.layer, trace.head)
    choice = state.attention
    if trace.shape.path == "encoder_decoder":
        choice = choice.showing("cross" if lesson_page(state).step_name == "cross" else "decoder")
    choice = replace(choice, row=trace.position)
    if view == "attention" and chosen not in choice.locked:
        choice = choice.toggled(chosen)
    actions.append(SetAttention(choice))
    if view == "xray":
        xray = replace(
            state.xray, shown=True, by="head", layer=trace.layer, head=chosen[1], at=trace.position
        )
        return [*actions, SetXRay(xray)]
    if not ui.shows_inspector:
        actions.append(ShowInspector(True))
    if view == "cache":
        actions.append(PointAt(trace.position))
    ui.request({"attention": "view:head", "lens": "view:lens", "cache": "view:kv_cache"}[view])
    return actions


def return_label(lesson: LessonPage) -> str:
    """Return the label of the button that returns; "" where the lesson was not left for a view."""
    if lesson.shown or not lesson.can_return:
        return ""
    words = tr("Back to the lesson, step {n}").format(n=lesson.step + 1)
    return f"{ICON_LESSON}  {words}"


def return_width(state: AppState, ui: Ui) -> float:
    """Return the width of the button in pixels, with the gap before it, in the font of the bar."""
    words = return_label(lesson_page(state))
    return imgui.calc_text_size(words).x + ui.u(5) if words else 0.0


def draw_return_button(state: AppState, ui: Ui, height: float) -> list[Action]:
    """Draw the button behind the last item of the bar."""
    words = return_label(lesson_page(state))
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
