"""The ways from a number of the lesson to the view that shows it, and back by the status bar."""

from __future__ import annotations

from typing import Literal

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetXRay
from llm_lite.desktop.features.cache.model import PointAt
from llm_lite.desktop.features.commands.hints import with_keys
from llm_lite.desktop.features.layouts.model import ShowInspector
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.lesson.numbers import Name
from llm_lite.desktop.features.lesson.state import LessonState, StepName
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetAttention
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_LESSON
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import tip

Source = Literal["attention", "xray", "lens", "cache"]
OF_NUMBERS: dict[str, Source] = {
    "probability": "attention",
    "cross_probability": "attention",
    "position_bytes": "cache",
}
OF_STEPS: dict[StepName, Source] = {
    "softmax": "attention",
    "residual": "lens",
    "sampling": "xray",
    "cache": "cache",
    "cross": "attention",
}
TITLES: dict[Source, str] = {
    "attention": mark("See this head in the Head view"),
    "xray": mark("See the token in the X-ray of the chat"),
    "lens": mark("See the layers in the Lens view"),
    "cache": mark("See the KV cache view"),
}
THERE: dict[Source, str] = {  # what is to be seen there
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


def source_of(name: Name, lesson: LessonState) -> Source | None:
    """The view that shows this very number."""
    return _known(OF_NUMBERS.get(str(name[0])), lesson)


def source_of_step(lesson: LessonState) -> Source | None:
    """The view that shows what the step shows."""
    return _known(OF_STEPS.get(lesson.name), lesson)


def _known(source: Source | None, lesson: LessonState) -> Source | None:
    """Encoders have maps alone; the X-ray is of the chat, which holds no targets."""
    path = lesson.trace.shape.path if lesson.trace else "decoder"
    lacking: dict[str, tuple[Source, ...]] = {
        "encoder": ("xray", "lens", "cache"),
        "encoder_decoder": ("xray",),
    }
    return None if source in lacking.get(path, ()) else source


def place_of(name: Name, lesson: LessonState) -> str:
    """What a press on the number does; "" where it does nothing."""
    source = source_of(name, lesson)
    return tr("Click: {view}").format(view=tr(TITLES[source])) if source is not None else ""


def follow(name: Name, state: AppState, ui: Ui) -> list[Action]:
    """To the view that shows the number."""
    source = source_of(name, state.lesson)
    return [] if source is None else leave_for(source, state, ui)


def leave_for(source: Source, state: AppState, ui: Ui) -> list[Action]:
    """Close the lesson, and show the view with the lesson's token, layer and head; a notice says
    what is to be seen there. The lesson stays where it was."""
    trace = state.lesson.trace
    actions: list[Action] = [ShowLesson(False, away=True, note=tr(THERE[source]))]
    if trace is None:
        return actions
    chosen = (trace.layer, trace.head)
    choice = state.attention
    if trace.shape.path == "encoder_decoder":
        choice = choice.showing("cross" if state.lesson.name == "cross" else "decoder")
    choice = replace(choice, row=trace.position)
    if source == "attention" and chosen not in choice.locked:
        choice = choice.toggled(chosen)
    actions.append(SetAttention(choice))
    if source == "xray":
        xray = replace(
            state.xray, shown=True, by="head", layer=trace.layer, head=chosen[1], at=trace.position
        )
        return [*actions, SetXRay(xray)]
    if not state.layouts.shows_inspector:
        actions.append(ShowInspector(True))
    if source == "cache":
        actions.append(PointAt(trace.position))
    ui.ask({"attention": "view:head", "lens": "view:lens", "cache": "view:kv_cache"}[source])
    return actions


def way_back_label(lesson: LessonState) -> str:
    """ "" where nobody left it so."""
    if lesson.shown or not lesson.away:
        return ""
    words = tr("Back to the lesson, step {n}").format(n=lesson.step + 1)
    return f"{ICON_LESSON}  {words}"


def way_back_width(state: AppState, ui: Ui) -> float:
    """Pixels that it takes, with the gap before it; in the font of the bar."""
    words = way_back_label(state.lesson)
    return imgui.calc_text_size(words).x + ui.u(5) if words else 0.0


def draw_way_back(state: AppState, ui: Ui, height: float) -> list[Action]:
    """Behind the last item of the bar."""
    words = way_back_label(state.lesson)
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
