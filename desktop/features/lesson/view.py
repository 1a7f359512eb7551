"""The page of the lesson: the steps at the top, words beside the picture, and the buttons to the
next step below. A narrow page has the picture between the words and the formula, and is scrolled.
"""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.inspecting.lesson import TokenTrace
from llm_lite.core.records import replace
from llm_lite.desktop.features.lesson.animation import Animation, advance
from llm_lite.desktop.features.lesson.first_page import draw_first_page
from llm_lite.desktop.features.lesson.formulas import formula
from llm_lite.desktop.features.lesson.glossary import draw_explained
from llm_lite.desktop.features.lesson.header import draw_header, draw_token_line
from llm_lite.desktop.features.lesson.model import (
    TRACE,
    GoToStep,
    ShowLesson,
    ShowWhy,
    lesson_page,
    question,
)
from llm_lite.desktop.features.lesson.numbers import Name, Number, numbers_of
from llm_lite.desktop.features.lesson.other_views import (
    EXPLANATIONS,
    TITLES,
    open_view,
    view_of_step,
)
from llm_lite.desktop.features.lesson.pictures import PICTURES
from llm_lite.desktop.features.lesson.scene import Scene, ShownNumbers
from llm_lite.desktop.features.lesson.state import LessonPage
from llm_lite.desktop.features.lesson.step_texts import (
    DENSE_LEGEND,
    explanation,
    texts_of,
    title_of,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import sentence as as_sentence
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.icons import (
    ICON_CHEVRON_DOWN,
    ICON_CHEVRON_LEFT,
    ICON_CHEVRON_RIGHT,
    ICON_CHEVRON_UP,
    ICON_LINK,
    ICON_PAUSE,
    ICON_PLAY,
    ICON_REGENERATE,
)
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.theme import UNIT
from llm_lite.desktop.widgets.ui import Rect, Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, primary_button, tip, wrapped

WORDS_WIDTH = 84.0  # spacing units
LARGEST_PAGE = (400.0, 210.0)  # width and height of the page, in spacing units
WIDE_PAGE = 190.0  # width of a page from which the picture stands beside the words
LEAST_PICTURE = (124.0, 80.0)  # spacing units, width and height of a picture
LEAST_TEXT = 13.0  # pixels, to which the text of a picture shrinks before the page scrolls sideways
NARROW_PICTURE_HEIGHT = 96.0  # height of one on a narrow page, which is scrolled anyway
STILL = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
OVER = imgui.HoveredFlags_.allow_when_blocked_by_active_item


class _Page(Struct):
    """The step, popup and numbers of the last frame."""

    step: int | None = None  # drawn last
    popup_open: bool = False
    lesson: LessonPage | None = None  # to which `numbers` belong
    numbers: dict[Name, Number] = field(default_factory=dict)
    prepared: TokenTrace | None = None  # whose formulas were requested


def draw(state: AppState, ui: Ui) -> list[Action]:
    """Draw the page, in the middle of a window that is larger than a page needs to be."""
    ui.local(ShownNumbers).texts.clear()
    room, at = imgui.get_content_region_avail(), imgui.get_cursor_pos()
    size = ImVec2(min(room.x, ui.u(LARGEST_PAGE[0])), min(room.y, ui.u(LARGEST_PAGE[1])))
    left, top = (room.x - size.x) / 2, (room.y - size.y) / 3
    imgui.set_cursor_pos(ImVec2(round(at.x + left), round(at.y + top)))
    imgui.begin_child("lesson.page", size, FLAT, STILL)
    actions = _draw_page(state, ui) + _keys(state, ui)
    imgui.end_child()
    return actions


def _draw_page(state: AppState, ui: Ui) -> list[Action]:
    wanted = question(state)
    has_sentence = wanted is not None and not state.lesson.typing
    actions = draw_header(state, ui, has_sentence)
    if wanted is None or not has_sentence:
        return actions + draw_first_page(state, ui)
    actions += TRACE.wanted(state, wanted)
    actions += draw_token_line(state, ui)
    actions += _draw_step(state, ui)
    return actions + _draw_navigation(state, ui)


def _draw_step(state: AppState, ui: Ui) -> list[Action]:
    """Draw words, formula and picture; they are scrolled where they do not fit."""
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
    height = max(room.y - ui.u(11), ui.u(LEAST_PICTURE[1]) / 4)
    narrow = room.x < ui.u(WIDE_PAGE)
    scrolls = narrow or height < ui.u(LEAST_PICTURE[1])
    flags = imgui.WindowFlags_.horizontal_scrollbar if scrolls else STILL
    imgui.begin_child("lesson.step", ImVec2(room.x, height), FLAT, flags)
    page = ui.local(_Page)
    if page.step != state.lesson.step:
        page.step = state.lesson.step
        imgui.set_scroll_y(0.0)
    actions = _draw_narrow(state, ui) if narrow else _draw_wide(state, ui, height, scrolls)
    imgui.end_child()
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + height + ui.u(2)))
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_wide(state: AppState, ui: Ui, height: float, scrolls: bool) -> list[Action]:
    """Draw the words left of the picture; they scroll where the step does not."""
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
    wide, tall = min(ui.u(WORDS_WIDTH), room.x * 0.34), max(height, ui.u(LEAST_PICTURE[1]))
    grows = imgui.ChildFlags_.auto_resize_y if scrolls else FLAT
    imgui.begin_child("lesson.words", ImVec2(wide, 0 if scrolls else tall), grows)
    _draw_explanation(state, ui)
    actions = _draw_details(state, ui)
    imgui.end_child()
    left = top.x + wide + ui.u(5)
    return actions + _draw_framed(state, ui, (left, top.y, top.x + room.x, top.y + tall))


def _draw_narrow(state: AppState, ui: Ui) -> list[Action]:
    """Draw the picture between the words and the formula, so that it is in sight."""
    wide = imgui.get_content_region_avail().x - ui.u(1)
    grows, size = imgui.ChildFlags_.auto_resize_y, ImVec2(wide, 0)
    imgui.begin_child("lesson.words", size, grows)
    _draw_explanation(state, ui)
    imgui.end_child()
    at, theme = imgui.get_cursor_screen_pos(), ui.theme
    ui.theme = replace(theme, text=_picture_text(theme.text, wide))
    try:
        end = (at.x + max(wide, ui.u(LEAST_PICTURE[0])), at.y + ui.u(NARROW_PICTURE_HEIGHT))
        actions = _draw_framed(state, ui, (at.x, at.y, *end))
    finally:
        ui.theme = theme
    imgui.begin_child("lesson.more", size, grows)
    actions += _draw_details(state, ui)
    imgui.end_child()
    return actions


def _picture_text(text: float, wide: float) -> float:
    """Return the text size in pixels, at most the chosen one, at which a picture fits the width."""
    fits = math.floor(wide / (LEAST_PICTURE[0] * UNIT))
    return min(text, max(fits, LEAST_TEXT))


def _draw_framed(state: AppState, ui: Ui, rect: Rect) -> list[Action]:
    """Draw the picture in its frame, or why there is none yet."""
    _draw_frame(ui, rect)
    actions = list[Action]()
    if lesson_page(state).trace is None:
        _draw_waiting(state, ui, rect)
    else:
        inset = ui.u(4)
        inner = (rect[0] + inset, rect[1] + inset, rect[2] - inset, rect[3] - inset)
        actions = _draw_picture(state, ui, inner)
    imgui.set_cursor_screen_pos(ImVec2(rect[0], rect[1]))
    imgui.dummy(ImVec2(rect[2] - rect[0], rect[3] - rect[1]))
    return actions


def _draw_frame(ui: Ui, rect: Rect) -> None:
    low, high = ImVec2(rect[0], rect[1]), ImVec2(rect[2], rect[3])
    draw = imgui.get_window_draw_list()
    draw.add_rect_filled(low, high, ui.color("sunken"), ui.theme.radius)
    draw.add_rect(low, high, ui.color("border"), ui.theme.radius, max(1.0, ui.u(0.25)))
    ui.rects["lesson.picture"] = rect


def _draw_waiting(state: AppState, ui: Ui, rect: Rect) -> None:
    problem = lesson_page(state).problem
    words = as_sentence(problem) if problem else tr("Asking the model.")
    with ui.font():
        size = imgui.calc_text_size(words)
        x, y = (rect[0] + rect[2] - size.x) / 2, (rect[1] + rect[3] - size.y) / 2
        draw = imgui.get_window_draw_list()
        draw.add_text(ImVec2(max(x, rect[0] + ui.u(3)), y), ui.color("muted"), words)


def _draw_picture(state: AppState, ui: Ui, rect: Rect) -> list[Action]:
    lesson = lesson_page(state)
    assert lesson.trace is not None
    draw = imgui.get_window_draw_list()
    over = imgui.is_window_hovered(OVER)
    t = advance(state, ui)
    numbers = _numbers(lesson, ui)
    scene = Scene(ui, state, lesson, lesson.trace, numbers, rect, t, draw, over)
    draw.push_clip_rect(ImVec2(rect[0] - 2, rect[1] - 2), ImVec2(rect[2] + 2, rect[3] + 2), True)
    PICTURES[lesson.step_name](scene)
    draw.pop_clip_rect()
    return scene.actions


def _numbers(lesson: LessonPage, ui: Ui) -> dict[Name, Number]:
    """Return the numbers of the step, which are computed once for each state of the lesson."""
    page = ui.local(_Page)
    if page.lesson is not lesson:
        page.lesson, page.numbers = lesson, numbers_of(lesson)
    return page.numbers


def _draw_explanation(state: AppState, ui: Ui) -> None:
    """Draw the title of the step and what happens in it."""
    lesson = lesson_page(state)
    trace = lesson.trace
    _draw_title(ui, tr(title_of(lesson.step_name, lesson)))
    if trace is not None:
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        draw_explained(ui, explanation(lesson, trace), "text", "body")
        imgui.dummy(ImVec2(0, ui.u(1)))


def _draw_details(state: AppState, ui: Ui) -> list[Action]:
    """Draw the formula, the reason, and a button to the view that shows the same."""
    lesson = lesson_page(state)
    trace = lesson.trace
    if trace is None:
        return []
    words = texts_of(lesson.step_name, trace.shape)
    _draw_formula(ui, formula(lesson))
    _prepare_formulas(lesson, ui)
    legend = [tr(words.legend)] if words.legend else []
    if lesson.step_name == "pooling" and trace.pooled is not None and trace.pooled.dense:
        legend.append(tr(DENSE_LEGEND))
    wrapped(ui, " ".join(legend), "faint", "small")
    imgui.dummy(ImVec2(0, ui.u(1)))
    actions: list[Action] = []
    icon = ICON_CHEVRON_UP if lesson.shows_why else ICON_CHEVRON_DOWN
    if button(ui, "lesson.why", tr("Why is that so?"), icon):
        actions.append(ShowWhy(not lesson.shows_why))
    if lesson.shows_why:
        draw_explained(ui, tr(words.why), "muted", "small")
    other = view_of_step(lesson)
    if other is not None:  # a view that shows the same
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        if button(ui, "lesson.source", tr(TITLES[other]), ICON_LINK, tr(EXPLANATIONS[other])):
            actions += open_view(other, state, ui)
    return actions


def _draw_title(ui: Ui, words: str) -> None:
    with ui.font("bold", "display"), ui.colored(text="text"):
        imgui.push_text_wrap_pos(0.0)
        imgui.text_unformatted(words)
        imgui.pop_text_wrap_pos()


def _draw_formula(ui: Ui, lines: tuple[str, ...]) -> None:
    """Draw each line with the widget of formulas, on a quiet ground."""
    if not lines:
        return
    rich, width = rich_text(ui), imgui.get_content_region_avail().x
    process = rich.formulas.process
    ready = all(process.formula(line, True) is not None for line in lines)
    rich.begin(ui)
    pad = ui.u(3)
    pages = [rich.page(ui, f"$${line}$$", width - 2 * pad) for line in lines]
    height = sum(page.height for page in pages) + ui.u(1) * (len(pages) - 1) + 2 * pad
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("code"), ui.theme.radius)
    y = at.y + pad
    for number, page in enumerate(pages):
        if ready:  # a moment later they are pictures, and not their source
            rich.draw(ui, page, at.x + pad, y, width - 2 * pad, f"lesson.formula.{number}")
        y += page.height + ui.u(1)
    imgui.set_cursor_screen_pos(at)
    imgui.dummy(ImVec2(width, height))
    ui.mark("lesson.formula")


def _prepare_formulas(lesson: LessonPage, ui: Ui) -> None:
    """Request the formulas of all steps once for a trace, before their steps are drawn."""
    if lesson.trace is None or ui.local(_Page).prepared is lesson.trace:
        return
    ui.local(_Page).prepared = lesson.trace
    process = rich_text(ui).formulas.process
    for step in range(len(lesson.steps)):
        for line in formula(lesson.at_step(step)):
            process.formula(line, True)


def _draw_navigation(state: AppState, ui: Ui) -> list[Action]:
    """Draw the buttons to the previous and the next step, and between them the animation."""
    actions: list[Action] = []
    lesson = lesson_page(state)
    last = len(lesson.steps) - 1
    top = imgui.get_cursor_screen_pos()
    if button(ui, "lesson.back", tr("Back"), ICON_CHEVRON_LEFT, enabled=lesson.step > 0):
        actions.append(GoToStep(lesson.step - 1))
    label = tr("Next") if lesson.step < last else tr("From the beginning")
    with ui.font():
        width = max(ui.u(30), imgui.calc_text_size(label).x + ui.u(12))
    imgui.same_line(0, ui.u(3))
    _draw_scrubber(ui, imgui.get_content_region_avail().x - width - ui.u(3))
    imgui.same_line(ui.right(width))
    imgui.set_cursor_screen_pos(ImVec2(imgui.get_cursor_screen_pos().x, top.y))
    if primary_button(ui, "lesson.next", f"{label}  {ICON_CHEVRON_RIGHT}", width=width):
        actions.append(GoToStep(lesson.step + 1 if lesson.step < last else 0))
    return actions


def _draw_scrubber(ui: Ui, width: float) -> None:
    """Draw a button that plays or holds the picture, and a line that moves it by hand."""
    animation = ui.local(Animation)
    icon, hint = ICON_PAUSE, tr("Hold the picture")
    if not animation.playing:
        icon = ICON_REGENERATE if animation.at >= 1.0 else ICON_PLAY
        hint = tr("Play the picture")
    side, begin = imgui.get_frame_height(), imgui.get_cursor_screen_pos()
    label, small = tr("Animation"), ui.theme.size("small")
    with ui.font(style="small"):
        taken = imgui.calc_text_size(label).x + ui.u(1.5)
        spot = ImVec2(begin.x, round(begin.y + (side - small) / 2 - ui.u(0.25)))
        imgui.get_window_draw_list().add_text(spot, ui.color("faint"), label)
    imgui.set_cursor_screen_pos(ImVec2(begin.x + taken, begin.y))
    if icon_button(ui, "lesson.play", icon, hint, side=side):
        animation.toggle(ui.now)
    imgui.same_line(0, ui.u(2))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    long = max(width - taken - side - ui.u(2), ui.u(10))
    press_area("lesson.scrub", ImVec2(long, side))
    ui.mark("lesson.scrub")
    tip(ui, tr("The picture moves: drag here to look at any moment of it."))
    if imgui.is_item_active() and imgui.is_mouse_down(0):
        animation.hold_at((imgui.get_mouse_pos().x - at.x) / long)
    middle, thick = at.y + side / 2, ui.u(0.75)
    low, high = ImVec2(at.x, middle - thick / 2), ImVec2(at.x + long, middle + thick / 2)
    draw.add_rect_filled(low, high, ui.color("pressed"), thick / 2)
    done = ImVec2(at.x + long * animation.at, middle + thick / 2)
    draw.add_rect_filled(low, done, ui.color("accent"), thick / 2)
    draw.add_circle_filled(ImVec2(done.x, middle), ui.u(1.5), ui.color("accent"))


def _keys(state: AppState, ui: Ui) -> list[Action]:
    """Return what a key does: arrows change the step, Space plays, Esc leaves; nothing while a
    field of text has the keyboard."""
    io = imgui.get_io()
    open_now = imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
    page = ui.local(_Page)
    was_open, page.popup_open = page.popup_open, open_now  # Escape closes it before this frame
    if io.want_text_input or open_now or was_open:
        return []
    if io.key_ctrl or io.key_alt or io.key_shift or imgui.is_any_item_active():
        return []
    route, step = imgui.InputFlags_.route_focused, state.lesson.step
    if imgui.shortcut(imgui.Key.right_arrow, route):
        return [GoToStep(step + 1)]
    if imgui.shortcut(imgui.Key.left_arrow, route):
        return [GoToStep(step - 1)]
    if imgui.is_key_pressed(imgui.Key.escape, False):
        return [ShowLesson(False, can_return=lesson_page(state).trace is not None)]
    if not io.nav_visible and imgui.shortcut(imgui.Key.space, route):
        ui.local(Animation).toggle(ui.now)
    return []
