"""The top of the page: a number for each step and the button that closes it, then the line of
tokens, where token, layer and head are chosen."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.commands.keys import with_keys
from llm_lite.desktop.features.lesson.model import (
    FollowPosition,
    GoToStep,
    OpenLayer,
    ShowLesson,
    TypeSentence,
    followed_position,
    is_written_by_model,
    lesson_page,
    message_begin,
    openable_layers,
    opened_layer,
    sentence_positions,
    traceable_tokens,
)
from llm_lite.desktop.features.lesson.state import LessonPage, StepName
from llm_lite.desktop.features.lesson.step_texts import title_of
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import FLAT, press_area
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import (
    ICON_CHEVRON_LEFT,
    ICON_CHEVRON_RIGHT,
    ICON_CLOSE,
    ICON_EDIT,
    ICON_LESSON,
)
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Rect, Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, text, tip

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
STEP_WIDTH = 6.5  # spacing units of a number
NO_SENTENCE = mark("Write a sentence first: then each number is a step of the way.")


class StepGroup(Struct, frozen=True):
    """Steps that stand together in one frame; `words` is their name."""

    words: str
    first: int
    count: int


def stages_of(lesson: LessonPage) -> list[StepGroup]:
    """Return the stages in the order of the model's steps. A position that is added to the
    embedding belongs to the text."""
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


def draw_header(state: AppState, ui: Ui, has_sentence: bool) -> list[Action]:
    """Draw the title and the steps, which can be pressed where `has_sentence`."""
    actions: list[Action] = []
    side, top, step = ui.u(7.5), imgui.get_cursor_pos_y(), state.lesson.step if has_sentence else 0
    room = imgui.get_content_region_avail().x
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("title")) / 2)
    stages = stages_of(lesson_page(state))
    title = _title(ui, stages, room - side - ui.u(6))
    text(ui, title, style="title", bold=True)
    taken = imgui.get_item_rect_size().x + ui.u(4)
    if sum(_numbers_widths(ui, stages)) > room - taken - side - ui.u(2):  # the current stage alone
        stages = [one for one in stages if one.first <= step < one.first + one.count]
    widths, named = _stage_widths(ui, stages, room - taken - side - ui.u(2), step)
    imgui.same_line(ui.right(sum(widths) + side + ui.u(2)))
    imgui.set_cursor_pos_y(top)
    actions += _draw_stages(state, ui, stages, widths, named, side, has_sentence)
    imgui.same_line(ui.right(side))
    imgui.set_cursor_pos_y(top)
    hint = with_keys(tr("Back to the conversation"), "close")
    if icon_button(ui, "lesson.close", ICON_CLOSE, hint, side=side):
        actions.append(ShowLesson(False))
    return actions


def _title(ui: Ui, stages: list[StepGroup], room: float) -> str:
    """Return the title, or its icon alone where words would leave no room for the numbers."""
    words = f"{ICON_LESSON}  {tr('Follow one token')}"
    with ui.font("bold", "title"):
        wide = imgui.calc_text_size(words).x
    return words if wide + sum(_numbers_widths(ui, stages)) <= room else ICON_LESSON


def _numbers_widths(ui: Ui, stages: list[StepGroup]) -> list[float]:
    return [stage.count * ui.u(STEP_WIDTH) + ui.u(3.5) for stage in stages]


def _stage_widths(
    ui: Ui, stages: list[StepGroup], room: float, step: int
) -> tuple[list[float], tuple[bool, ...]]:
    """Return the widths of the stages in pixels and which are named: all, or the current."""
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
    height: float, has_sentence: bool,
) -> list[Action]:  # fmt: skip
    """Draw each stage in a frame of its own: its name and the numbers of its steps."""
    actions: list[Action] = []
    at, draw, small = (
        imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), ui.theme.size("small"),
    )  # fmt: skip
    x = at.x
    for stage, wide, has_name in zip(stages, widths, named, strict=True):
        here = has_sentence and stage.first <= state.lesson.step < stage.first + stage.count
        low = ImVec2(x + ui.u(0.5), at.y + ui.u(0.5))
        high = ImVec2(x + wide - ui.u(0.5), at.y + height - ui.u(0.5))
        ground = ui.color("accent_soft" if here else "panel")
        draw.add_rect_filled(low, high, ground, ui.u(3))
        draw.add_rect(low, high, ui.color("accent" if here else "border"), ui.u(3), 1.0)
        left = x + ui.u(1.75)
        if has_name:
            ink = ui.color("text" if here else "muted" if has_sentence else "faint")
            y = round(at.y + (height - small) / 2 - ui.u(0.25))
            with ui.font(style="small"):
                draw.add_text(ImVec2(round(left + ui.u(1)), y), ink, stage.words)
                left += imgui.calc_text_size(stage.words).x + ui.u(3.5)
        for step in range(stage.first, stage.first + stage.count):
            actions += _draw_number(state, ui, step, (left, at.y), height, has_sentence)
            left += ui.u(STEP_WIDTH)
        x += wide
    return actions


def _draw_number(
    state: AppState, ui: Ui, step: int, at: tuple[float, float], height: float, has_sentence: bool
) -> list[Action]:
    """Draw a step as a round number, filled where it was taken."""
    lesson, actions = lesson_page(state), list[Action]()
    draw, each, radius = imgui.get_window_draw_list(), ui.u(STEP_WIDTH), ui.u(2.5)
    name = lesson.steps[step]
    imgui.set_cursor_screen_pos(ImVec2(*at))
    imgui.begin_disabled(not has_sentence)
    if press_area(f"lesson.step.{name}", ImVec2(each, height)):
        actions.append(GoToStep(step))
    imgui.end_disabled()
    ui.mark(f"lesson.step.{step}")
    hovered = has_sentence and imgui.is_item_hovered()
    tip(ui, tr(title_of(name, lesson)) if has_sentence else tr(NO_SENTENCE))
    done, here = has_sentence and step <= lesson.step, has_sentence and step == lesson.step
    fill = "accent" if done else "pressed" if hovered else "hover"
    center = ImVec2(at[0] + each / 2, at[1] + height / 2)
    draw.add_circle_filled(center, radius, ui.color(fill, 1.0 if here or not done else 0.55))
    if here:
        draw.add_circle(center, radius + ui.u(0.5), ui.color("link"), 0, ui.u(0.375))
    with ui.font("bold" if here else "regular", "small"):
        size = imgui.calc_text_size(str(step + 1))
        spot = ImVec2(round(center.x - size.x / 2), round(center.y - size.y / 2))
        ink = "on_accent" if done else "muted" if has_sentence else "faint"
        draw.add_text(spot, ui.color(ink), str(step + 1))
    return actions


STEPS_WITHOUT_LAYER: tuple[StepName, ...] = (  # steps that show no single layer
    "source", "tokens", "sampling", "choosing", "filling", "pooling", "cache", "summary",
)  # fmt: skip
LEAST_TOKENS = 60.0  # spacing units for the tiles


class _TokenScroll(Struct):
    """The mouse wheel's shift of the line of tokens."""

    position: int | None = None  # of the followed token
    moved: int = 0  # tokens


def draw_token_line(state: AppState, ui: Ui) -> list[Action]:
    position = followed_position(state)
    if position is None or state.model is None:
        return []
    actions: list[Action] = []
    chosen, own = _choice_width(ui), tr("Another sentence")
    with ui.font():
        own_width = imgui.calc_text_size(f"{ICON_EDIT}  {own}").x + ui.u(6)
    height, whole = ui.u(8), imgui.get_content_region_avail().x
    room = whole - chosen - own_width - ui.u(6)
    if narrow := room < ui.u(LEAST_TOKENS):
        own_width = ui.u(7.5)
        taken = 0.0 if lesson_page(state).step_name in STEPS_WITHOUT_LAYER else chosen
        room = whole - taken - own_width - ui.u(6)
    top = imgui.get_cursor_screen_pos()
    flags = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
    imgui.begin_child("lesson.sentence", ImVec2(room, height), FLAT, flags)
    actions += _draw_tokens(state, ui, position, height)
    imgui.end_child()
    imgui.set_cursor_screen_pos(ImVec2(top.x + room + ui.u(3), top.y + ui.u(0.25)))
    if _draw_own_sentence(ui, narrow, own):
        actions.append(TypeSentence(True))
    imgui.set_cursor_screen_pos(ImVec2(top.x + room + own_width + ui.u(6), top.y + ui.u(0.25)))
    if lesson_page(state).step_name not in STEPS_WITHOUT_LAYER:
        actions += _draw_layer_and_head(state, ui)
    imgui.set_cursor_screen_pos(ImVec2(top.x, top.y + height + ui.u(2)))
    imgui.dummy(ImVec2(0, 0))
    return actions


def _draw_own_sentence(ui: Ui, narrow: bool, words: str) -> bool:
    """Draw the button for another sentence, as an icon alone in a narrow window."""
    hint = tr("Follow a token of a sentence of your own")
    if narrow:
        return icon_button(ui, "lesson.own", ICON_EDIT, hint, side=ui.u(7.5))
    return button(ui, "lesson.own", words, ICON_EDIT, hint)


def _draw_tokens(state: AppState, ui: Ui, position: int, height: float) -> list[Action]:
    """Draw tiles that can be pressed, as many as fit around the middle token."""
    shown, gap, side = sentence_positions(state, position), ui.u(1), ui.u(5)
    with ui.font(style="small"):
        words = {p: visible(state.positions[p]) for p in shown}
        widths = {p: imgui.calc_text_size(w).x + ui.u(3) for p, w in words.items()}
        own, label = _first_written_by_model(state, shown), tr("the model:")
        if own in widths:  # what the model wrote begins here
            widths[own] += imgui.calc_text_size(label).x + ui.u(2)
    at, dots = imgui.get_cursor_screen_pos(), ui.u(4)
    room = imgui.get_content_region_avail().x - 2 * (side + gap) - 2 * dots
    first, last = _tokens_that_fit(widths, _middle_token(ui, position, shown), room, gap)
    actions = _draw_arrows(state, ui, position, room + 2 * dots + gap)
    x = at.x + side + gap + dots
    if first > shown.start or shown.start > message_begin(state, position):
        _draw_ellipsis(ui, x - dots, at.y, height)
    for place in range(first, last + 1):
        if place == own:
            spot = ImVec2(round(x + ui.u(1)), _middle_line(ui, at.y, height))
            with ui.font(style="small"):
                imgui.get_window_draw_list().add_text(spot, ui.color("faint"), label)
                taken = imgui.calc_text_size(label).x + ui.u(2)
            x, widths[place] = x + taken, widths[place] - taken
        rect = (x, at.y + ui.u(1), x + widths[place], at.y + height - ui.u(1))
        actions += _draw_token(ui, place, words[place], rect, place - position)
        x += widths[place] + gap
    if last < shown.stop - 1:
        _draw_ellipsis(ui, x, at.y, height)
    return actions


def _first_written_by_model(state: AppState, shown: range) -> int:
    """Return the first of the `shown` positions that the model wrote; -1 if it wrote none."""
    found = (place for place in shown if not state.encodes and is_written_by_model(state, place))
    return next(found, -1)


def _middle_token(ui: Ui, position: int, shown: range) -> int:
    """Return the followed token, or the one to which the wheel has moved the line."""
    scroll = ui.local(_TokenScroll)
    moved = scroll.moved if scroll.position == position else 0
    if imgui.is_window_hovered() and (wheel := imgui.get_io().mouse_wheel):
        moved -= round(math.copysign(max(1.0, 2 * abs(wheel)), wheel))
    moved = max(shown.start, min(position + moved, shown.stop - 1)) - position
    scroll.position, scroll.moved = position, moved
    return position + moved


def _middle_line(ui: Ui, top: float, height: float) -> float:
    return round(top + (height - ui.theme.size("small")) / 2 - ui.u(0.25))


def _draw_ellipsis(ui: Ui, x: float, top: float, height: float) -> None:
    """Draw dots where more tokens stand."""
    spot, small = ImVec2(round(x), _middle_line(ui, top, height)), ui.theme.size("small")
    imgui.get_window_draw_list().add_text(ui.fonts["regular"], small, spot, ui.color("muted"), "…")


def _draw_arrows(state: AppState, ui: Ui, position: int, room: float) -> list[Action]:
    """Draw, at both ends of the line, the buttons that follow the previous and the next token."""
    actions, at, side = list[Action](), imgui.get_cursor_screen_pos(), ui.u(5)
    for name, icon, to, hint in (
        ("before", ICON_CHEVRON_LEFT, position - 1, tr("Follow the previous token")),
        ("after", ICON_CHEVRON_RIGHT, position + 1, tr("Follow the next token")),
    ):
        x = at.x if name == "before" else at.x + room + side + ui.u(1)
        imgui.set_cursor_screen_pos(ImVec2(x, at.y + ui.u(1.5)))
        able = 0 <= to < traceable_tokens(state)
        imgui.begin_disabled(not able)
        if icon_button(ui, f"lesson.token.{name}", icon, hint, side=side) and able:
            actions.append(FollowPosition(to))
        imgui.end_disabled()
    return actions


def _draw_token(ui: Ui, place: int, words: str, rect: Rect, after: int) -> list[Action]:
    """Draw one tile; it stands `after` tokens behind the followed one."""
    x0, y0, x1, y1 = rect
    imgui.set_cursor_screen_pos(ImVec2(x0, y0))
    pressed = press_area(f"lesson.token.{place}", ImVec2(x1 - x0, y1 - y0))
    ui.mark(f"lesson.token.{place}")
    over, small, draw = (
        imgui.is_item_hovered(), ui.theme.size("small"), imgui.get_window_draw_list(),
    )  # fmt: skip
    hint = tr("Follow this token. It stands at position {n:,}; the first one is at 0.")
    tip(ui, hint.format(n=place))
    fill = "accent" if after == 0 else "pressed" if over else "hover"
    veil = 0.4 if after > 0 and not over else 1.0
    draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color(fill, veil), ui.u(1.25))
    ink = "on_accent" if after == 0 else "faint" if after > 0 else "text"
    spot = ImVec2(round(x0 + ui.u(1.5)), round(y0 + (y1 - y0 - small) / 2 - ui.u(0.25)))
    draw.add_text(ui.fonts["regular"], small, spot, ui.color(ink), words)
    return [FollowPosition(place)] if pressed else []


def _tokens_that_fit(
    widths: dict[int, float], position: int, room: float, gap: float
) -> tuple[int, int]:
    """Return the first and the last of the tokens around `position` that fit."""
    first = last = position
    used = widths.get(position, 0.0)
    while True:
        grown = False
        for place in (first - 1, last + 1):
            if place in widths and used + widths[place] + gap <= room:
                used += widths[place] + gap
                first, last, grown = min(first, place), max(last, place), True
        if not grown:
            return first, last


def _choice_width(ui: Ui) -> float:
    return ui.u(24 + 22 + 2)


def _draw_layer_and_head(state: AppState, ui: Ui) -> list[Action]:
    """Draw the lists in which the opened layer and its head are chosen."""
    model = state.model
    assert model is not None
    lesson = lesson_page(state)
    trace, chosen_head = lesson.trace, lesson.head
    layer, head = opened_layer(state), chosen_head if chosen_head is not None else 0
    if chosen_head is None and trace is not None:
        head = trace.head
    head = min(head, model.heads - 1)
    layers = [(str(i), tr("Layer {n}").format(n=i)) for i in openable_layers(model)]
    heads = [(str(i), tr("Head {n}").format(n=i)) for i in range(model.heads)]
    hint = tr(
        "The model has {n} layers, one on top of the other and built alike. The lesson opens one "
        "of them; choose another one here."
    )
    hint = hint.format(n=model.layers)
    chosen = int(picker(ui, "lesson.layer", layers, str(layer), ui.u(24), hint))
    imgui.same_line(0, ui.u(2))
    hint = tr(
        "Each layer has {n} heads, which look at the text in different ways. The lesson takes the "
        "one that looks most at other tokens; choose another one here."
    )
    hint = hint.format(n=model.heads)
    other = int(picker(ui, "lesson.head", heads, str(head), ui.u(22), hint))
    if (chosen, other) == (layer, head):
        return []
    return [OpenLayer(chosen, None if other == head and chosen_head is None else other)]
