"""The head of the page: where one is in the whole, a number for each step, and the way out."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.lesson.model import GoToStep, ShowLesson
from llm_lite.desktop.features.lesson.state import LessonState, StepName
from llm_lite.desktop.features.lesson.words import title_of
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_LESSON
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, text, tip

STAGES: tuple[tuple[str, tuple[StepName, ...]], ...] = (
    (mark("Text"), ("source", "tokens")),
    (
        mark("Attention"),
        ("norm", "queries", "position", "scores", "softmax", "values", "output", "cross"),
    ),
    (mark("Neurons"), ("neurons",)),
    (mark("All layers"), ("residual",)),
    (mark("Next token"), ("sampling", "choosing", "cache")),
    (mark("Result"), ("filling", "pooling")),
    (mark("Overview"), ("summary",)),
)
EACH = 6.5  # spacing units of a number
NO_SENTENCE = mark("Write a sentence first: then each number is a step of the way.")


class StepGroup(Struct, frozen=True):
    """Steps that stand together; `words`: their name where there is room for it."""

    words: str
    first: int
    count: int


def stages_of(lesson: LessonState) -> list[StepGroup]:
    """In the order of the model's steps; a position that is added to the embedding is of the
    text."""
    found: list[StepGroup] = []
    for number, name in enumerate(lesson.steps):
        words = next(tr(words) for words, steps in STAGES if name in steps)
        if name == "position" and found and found[-1].words == tr(STAGES[0][0]):
            words = tr(STAGES[0][0])
        if found and found[-1].words == words:
            found[-1] = StepGroup(words, found[-1].first, found[-1].count + 1)
        else:
            found.append(StepGroup(words, number, 1))
    return found


def draw_header(state: AppState, ui: Ui, begun: bool) -> list[Action]:
    """`begun`: there is a sentence whose steps can be gone to."""
    actions: list[Action] = []
    side, top, step = ui.u(7.5), imgui.get_cursor_pos_y(), state.lesson.step if begun else 0
    room = imgui.get_content_region_avail().x
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("title")) / 2)
    stages = stages_of(state.lesson)
    title = _title(ui, stages, room - side - ui.u(6))
    text(ui, title, style="title", bold=True)
    taken = imgui.get_item_rect_size().x + ui.u(4)
    if sum(_numbers_widths(ui, stages)) > room - taken - side - ui.u(2):  # the stage where one is
        stages = [one for one in stages if one.first <= step < one.first + one.count]
    widths, named = _fitting(ui, stages, room - taken - side - ui.u(2), step)
    imgui.same_line(ui.right(sum(widths) + side + ui.u(2)))
    imgui.set_cursor_pos_y(top)
    actions += _draw_stages(state, ui, stages, widths, named, side, begun)
    imgui.same_line(ui.right(side))
    imgui.set_cursor_pos_y(top)
    hint = with_keys(tr("Back to the conversation"), "close")
    if icon_button(ui, "lesson.close", ICON_CLOSE, hint, side=side):
        actions.append(ShowLesson(False))
    return actions


def _title(ui: Ui, stages: list[StepGroup], room: float) -> str:
    """Its sign alone where words would leave no room for the numbers."""
    words = f"{ICON_LESSON}  {tr('Follow one token')}"
    with ui.font("bold", "title"):
        wide = imgui.calc_text_size(words).x
    return words if wide + sum(_numbers_widths(ui, stages)) <= room else ICON_LESSON


def _numbers_widths(ui: Ui, stages: list[StepGroup]) -> list[float]:
    return [stage.count * ui.u(EACH) + ui.u(3.5) for stage in stages]


def _fitting(
    ui: Ui, stages: list[StepGroup], room: float, step: int
) -> tuple[list[float], tuple[bool, ...]]:
    """Widths in pixels of the stages, and which are named: all, else the one where one is."""
    with ui.font(style="small"):
        words = [float(imgui.calc_text_size(stage.words).x) + ui.u(3.5) for stage in stages]
    numbers = _numbers_widths(ui, stages)
    here = tuple(stage.first <= step < stage.first + stage.count for stage in stages)

    def with_names(named: tuple[bool, ...]) -> list[float]:
        return [n + (w if on else 0) for n, w, on in zip(numbers, words, named, strict=True)]

    for named in ((True,) * len(stages), here):
        if sum(with_names(named)) <= room:
            return with_names(named), named
    return numbers, (False,) * len(stages)


def _draw_stages(
    state: AppState, ui: Ui, stages: list[StepGroup], widths: list[float], named: tuple[bool, ...],
    height: float, begun: bool,
) -> list[Action]:  # fmt: skip
    """Each on a ground of its own: its name, and the numbers of its steps."""
    actions: list[Action] = []
    at, draw, small = (
        imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), ui.theme.size("small"),
    )  # fmt: skip
    x = at.x
    for stage, wide, has_name in zip(stages, widths, named, strict=True):
        here = begun and stage.first <= state.lesson.step < stage.first + stage.count
        low = ImVec2(x + ui.u(0.5), at.y + ui.u(0.5))
        high = ImVec2(x + wide - ui.u(0.5), at.y + height - ui.u(0.5))
        ground = ui.color("accent_soft" if here else "panel")
        draw.add_rect_filled(low, high, ground, ui.u(3))
        draw.add_rect(low, high, ui.color("accent" if here else "border"), ui.u(3), 1.0)
        left = x + ui.u(1.75)
        if has_name:
            ink = ui.color("text" if here else "muted" if begun else "faint")
            y = round(at.y + (height - small) / 2 - ui.u(0.25))
            with ui.font(style="small"):
                draw.add_text(ImVec2(round(left + ui.u(1)), y), ink, stage.words)
                left += imgui.calc_text_size(stage.words).x + ui.u(3.5)
        for step in range(stage.first, stage.first + stage.count):
            actions += _draw_number(state, ui, step, (left, at.y), height, begun)
            left += ui.u(EACH)
        x += wide
    return actions


def _draw_number(
    state: AppState, ui: Ui, step: int, at: tuple[float, float], height: float, begun: bool
) -> list[Action]:
    """A round number; those of steps that were taken are filled."""
    lesson, actions = state.lesson, list[Action]()
    draw, each, radius = imgui.get_window_draw_list(), ui.u(EACH), ui.u(2.5)
    name = lesson.steps[step]
    imgui.set_cursor_screen_pos(ImVec2(*at))
    imgui.begin_disabled(not begun)
    if press_area(f"lesson.step.{name}", ImVec2(each, height)):
        actions.append(GoToStep(step))
    imgui.end_disabled()
    ui.mark(f"lesson.step.{step}")
    hovered = begun and imgui.is_item_hovered()
    tip(ui, tr(title_of(name, lesson)) if begun else tr(NO_SENTENCE))
    done, here = begun and step <= lesson.step, begun and step == lesson.step
    fill = "accent" if done else "pressed" if hovered else "hover"
    center = ImVec2(at[0] + each / 2, at[1] + height / 2)
    draw.add_circle_filled(center, radius, ui.color(fill, 1.0 if here or not done else 0.55))
    if here:
        draw.add_circle(center, radius + ui.u(0.5), ui.color("link"), 0, ui.u(0.375))
    with ui.font("bold" if here else "regular", "small"):
        size = imgui.calc_text_size(str(step + 1))
        spot = ImVec2(round(center.x - size.x / 2), round(center.y - size.y / 2))
        ink = "on_accent" if done else "muted" if begun else "faint"
        draw.add_text(spot, ui.color(ink), str(step + 1))
    return actions
