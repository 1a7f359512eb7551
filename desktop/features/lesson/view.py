"""The page of the lesson: steps above, words beside the picture, the way on below. A narrow page
has the picture between the words and the formula, and is scrolled."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.lesson import motion
from llm_lite.desktop.features.lesson.begin import draw_begin
from llm_lite.desktop.features.lesson.formulas import formula
from llm_lite.desktop.features.lesson.glossary import explained
from llm_lite.desktop.features.lesson.header import draw_header, draw_sentence
from llm_lite.desktop.features.lesson.links import THERE, TITLES, leave_for, source_of_step
from llm_lite.desktop.features.lesson.model import (
    AskTrace,
    GoToStep,
    ShowLesson,
    ShowWhy,
    wanted_key,
)
from llm_lite.desktop.features.lesson.numbers import numbers_of
from llm_lite.desktop.features.lesson.pictures import PICTURES
from llm_lite.desktop.features.lesson.scene import SHOWN, Scene
from llm_lite.desktop.features.lesson.state import LessonState
from llm_lite.desktop.features.lesson.words import said, title_of, words_of
from llm_lite.desktop.features.lesson.words_beside import DENSE
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import sentence as closed
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
LARGEST = (400.0, 210.0)  # width and height of the page, in spacing units
BESIDE = 190.0  # width of a page from which the picture stands beside the words
LEAST = (124.0, 80.0)  # width and height of a picture
LEAST_TEXT = 13.0  # pixels, to which the text of a picture shrinks before the page scrolls sideways
TALL = 96.0  # height of one on a narrow page, which is scrolled anyway
STEP = "lesson.at"  # in the memory of the window: the step that was drawn last
LIST_OPEN = "lesson.list_open"  # in the memory of the window
STILL = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
OVER = imgui.HoveredFlags_.allow_when_blocked_by_active_item


def draw(state: AppState, ui: Ui) -> list[Action]:
    """In the middle of a window that is larger than a page needs to be."""
    ui.memory[SHOWN] = {}
    room, at = imgui.get_content_region_avail(), imgui.get_cursor_pos()
    size = ImVec2(min(room.x, ui.u(LARGEST[0])), min(room.y, ui.u(LARGEST[1])))
    left, top = (room.x - size.x) / 2, (room.y - size.y) / 3
    imgui.set_cursor_pos(ImVec2(round(at.x + left), round(at.y + top)))
    imgui.begin_child("lesson.page", size, FLAT, STILL)
    actions = _draw_page(state, ui) + _keys(state, ui)
    imgui.end_child()
    return actions


def _draw_page(state: AppState, ui: Ui) -> list[Action]:
    key = wanted_key(state)
    begun = key is not None and not state.lesson.typing
    actions = draw_header(state, ui, begun)
    if key is None or not begun:
        return actions + draw_begin(state, ui)
    if not state.lesson.request and key != state.lesson.key:
        actions.append(AskTrace(key))
    actions += draw_sentence(state, ui)
    actions += _draw_step(state, ui)
    return actions + _draw_way(state, ui)


def _draw_step(state: AppState, ui: Ui) -> list[Action]:
    """Words, formula and picture; scrolled where they do not fit."""
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
    height = max(room.y - ui.u(11), ui.u(LEAST[1]) / 4)
    narrow = room.x < ui.u(BESIDE)
    scrolls = narrow or height < ui.u(LEAST[1])
    flags = imgui.WindowFlags_.horizontal_scrollbar if scrolls else STILL
    imgui.begin_child("lesson.step", ImVec2(room.x, height), FLAT, flags)
    if ui.memory.get(STEP) != state.lesson.step:
        ui.memory[STEP] = state.lesson.step
        imgui.set_scroll_y(0.0)
    actions = _draw_between(state, ui) if narrow else _draw_beside(state, ui, height, scrolls)
    imgui.end_child()
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + height + ui.u(2)))
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_beside(state: AppState, ui: Ui, height: float, scrolls: bool) -> list[Action]:
    """The words at the left; they have a scrollbar of their own where the step has none."""
    top, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail()
    wide, tall = min(ui.u(WORDS_WIDTH), room.x * 0.34), max(height, ui.u(LEAST[1]))
    grows = imgui.ChildFlags_.auto_resize_y if scrolls else FLAT
    imgui.begin_child("lesson.words", ImVec2(wide, 0 if scrolls else tall), grows)
    _draw_said(state, ui)
    actions = _draw_more(state, ui)
    imgui.end_child()
    left = top.x + wide + ui.u(5)
    return actions + _draw_shown(state, ui, (left, top.y, top.x + room.x, top.y + tall))


def _draw_between(state: AppState, ui: Ui) -> list[Action]:
    """The picture below the words, so that it is in sight, and the formula below the picture."""
    wide = imgui.get_content_region_avail().x - ui.u(1)
    grows, size = imgui.ChildFlags_.auto_resize_y, ImVec2(wide, 0)
    imgui.begin_child("lesson.words", size, grows)
    _draw_said(state, ui)
    imgui.end_child()
    at, theme = imgui.get_cursor_screen_pos(), ui.theme
    ui.theme = replace(theme, text=_picture_text(theme.text, wide))
    try:
        end = (at.x + max(wide, ui.u(LEAST[0])), at.y + ui.u(TALL))
        actions = _draw_shown(state, ui, (at.x, at.y, *end))
    finally:
        ui.theme = theme
    imgui.begin_child("lesson.more", size, grows)
    actions += _draw_more(state, ui)
    imgui.end_child()
    return actions


def _picture_text(text: float, wide: float) -> float:
    """Text in pixels with which a picture is as wide as the page, where the chosen one is large."""
    fits = math.floor(wide / (LEAST[0] * UNIT))
    return min(text, max(fits, LEAST_TEXT))


def _draw_shown(state: AppState, ui: Ui, rect: Rect) -> list[Action]:
    """The picture in its frame, or why there is none yet."""
    _draw_frame(ui, rect)
    actions = list[Action]()
    if state.lesson.trace is None:
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
    words = closed(state.lesson.problem) if state.lesson.problem else tr("Asking the model.")
    with ui.font():
        size = imgui.calc_text_size(words)
        x, y = (rect[0] + rect[2] - size.x) / 2, (rect[1] + rect[3] - size.y) / 2
        draw = imgui.get_window_draw_list()
        draw.add_text(ImVec2(max(x, rect[0] + ui.u(3)), y), ui.color("muted"), words)


def _draw_picture(state: AppState, ui: Ui, rect: Rect) -> list[Action]:
    lesson = state.lesson
    assert lesson.trace is not None
    draw = imgui.get_window_draw_list()
    over = imgui.is_window_hovered(OVER)
    t = motion.advance(state, ui)
    numbers = _numbers(lesson, ui)
    scene = Scene(ui, state, lesson, lesson.trace, numbers, rect, t, draw, over)
    draw.push_clip_rect(ImVec2(rect[0] - 2, rect[1] - 2), ImVec2(rect[2] + 2, rect[3] + 2), True)
    PICTURES[lesson.name](scene)
    draw.pop_clip_rect()
    return scene.actions


def _numbers(lesson: LessonState, ui: Ui) -> dict:  # type: ignore[type-arg]
    """Made once for a state of the lesson."""
    held = ui.memory.get("lesson.numbers")
    if held is None or held[0] is not lesson:
        held = ui.memory["lesson.numbers"] = (lesson, numbers_of(lesson))
    found: dict = held[1]  # type: ignore[type-arg]
    return found


def _draw_said(state: AppState, ui: Ui) -> None:
    """What happens in the step."""
    lesson, trace = state.lesson, state.lesson.trace
    _draw_title(ui, tr(title_of(lesson.name, lesson)))
    if trace is not None:
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        explained(ui, said(lesson, trace), "text", "body")
        imgui.dummy(ImVec2(0, ui.u(1)))


def _draw_more(state: AppState, ui: Ui) -> list[Action]:
    """The formula, the reason, and the view that shows the same."""
    lesson, trace = state.lesson, state.lesson.trace
    if trace is None:
        return []
    words = words_of(lesson.name, trace.shape)
    _draw_formula(ui, formula(lesson))
    _prepare_formulas(lesson, ui)
    legend = [tr(words.legend)] if words.legend else []
    if lesson.name == "pooling" and trace.pooled is not None and trace.pooled.dense:
        legend.append(tr(DENSE))
    wrapped(ui, " ".join(legend), "faint", "small")
    imgui.dummy(ImVec2(0, ui.u(1)))
    actions: list[Action] = []
    icon = ICON_CHEVRON_UP if lesson.why else ICON_CHEVRON_DOWN
    if button(ui, "lesson.why", tr("Why is that so?"), icon):
        actions.append(ShowWhy(not lesson.why))
    if lesson.why:
        explained(ui, tr(words.why), "muted", "small")
    source = source_of_step(lesson)
    if source is not None:  # a view that shows the same
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        if button(ui, "lesson.source", tr(TITLES[source]), ICON_LINK, tr(THERE[source])):
            actions += leave_for(source, state, ui)
    return actions


def _draw_title(ui: Ui, words: str) -> None:
    with ui.font("bold", "display"), ui.colored(text="text"):
        imgui.push_text_wrap_pos(0.0)
        imgui.text_unformatted(words)
        imgui.pop_text_wrap_pos()


def _draw_formula(ui: Ui, lines: tuple[str, ...]) -> None:
    """Each line set by the widget of formulas, on a quiet ground."""
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


def _prepare_formulas(lesson: LessonState, ui: Ui) -> None:
    """Ask for those of all steps once for a trace, so that they are there before their steps."""
    if lesson.trace is None or ui.memory.get("lesson.prepared") is lesson.trace:
        return
    ui.memory["lesson.prepared"] = lesson.trace
    process = rich_text(ui).formulas.process
    for step in range(len(lesson.steps)):
        for line in formula(lesson.at_step(step)):
            process.formula(line, True)


def _draw_way(state: AppState, ui: Ui) -> list[Action]:
    """Back, how far the picture has moved, and on."""
    actions: list[Action] = []
    lesson, last = state.lesson, len(state.lesson.steps) - 1
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
    """Play or hold, and a line to move the picture by hand."""
    moves = motion.motion(ui)
    icon, hint = ICON_PAUSE, tr("Hold the picture")
    if not moves.playing:
        icon = ICON_REGENERATE if moves.at >= 1.0 else ICON_PLAY
        hint = tr("Play the picture")
    side, begin = imgui.get_frame_height(), imgui.get_cursor_screen_pos()
    label, small = tr("Animation"), ui.theme.size("small")
    with ui.font(style="small"):
        taken = imgui.calc_text_size(label).x + ui.u(1.5)
        spot = ImVec2(begin.x, round(begin.y + (side - small) / 2 - ui.u(0.25)))
        imgui.get_window_draw_list().add_text(spot, ui.color("faint"), label)
    imgui.set_cursor_screen_pos(ImVec2(begin.x + taken, begin.y))
    if icon_button(ui, "lesson.play", icon, hint, side=side):
        motion.toggle(ui)
    imgui.same_line(0, ui.u(2))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    long = max(width - taken - side - ui.u(2), ui.u(10))
    press_area("lesson.scrub", ImVec2(long, side))
    ui.mark("lesson.scrub")
    tip(ui, tr("The picture moves: drag here to look at any moment of it."))
    if imgui.is_item_active() and imgui.is_mouse_down(0):
        motion.hold_at(ui, (imgui.get_mouse_pos().x - at.x) / long)
    middle, thick = at.y + side / 2, ui.u(0.75)
    low, high = ImVec2(at.x, middle - thick / 2), ImVec2(at.x + long, middle + thick / 2)
    draw.add_rect_filled(low, high, ui.color("pressed"), thick / 2)
    done = ImVec2(at.x + long * moves.at, middle + thick / 2)
    draw.add_rect_filled(low, done, ui.color("accent"), thick / 2)
    draw.add_circle_filled(ImVec2(done.x, middle), ui.u(1.5), ui.color("accent"))


def _keys(state: AppState, ui: Ui) -> list[Action]:
    """Arrows step, Space plays, Esc leaves; not while a field of text has the keyboard."""
    io = imgui.get_io()
    open_now = imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
    was_open = ui.memory.get(LIST_OPEN, False)  # Escape has closed it before this frame was drawn
    ui.memory[LIST_OPEN] = open_now
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
        return [ShowLesson(False, away=state.lesson.trace is not None)]
    if not io.nav_visible and imgui.shortcut(imgui.Key.space, route):
        motion.toggle(ui)
    return []
