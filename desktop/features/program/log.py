"""The panel of the log."""

from __future__ import annotations

import time

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import Level
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import ClearLog
from llm_lite.desktop.features.program.state import AppState, LogLine
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_COPY, ICON_TRASH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, tip, wrapped

FILTERS: tuple[tuple[Level, str], ...] = (
    ("info", mark("All")), ("warning", mark("Warnings")), ("error", mark("Errors")),
)  # fmt: skip
RANK: dict[Level, int] = {"info": 0, "warning": 1, "error": 2}
TEACHES = mark(
    "What the engine says while it loads and runs is listed here: which device computes and why, "
    "what took how long, and what failed."
)
COLORS: dict[Level, str] = {"info": "muted", "warning": "warning", "error": "error"}


class LogFilter(Struct):
    least: Level = "info"  # the lowest level whose lines are shown


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions: list[Action] = []
    filtered = ui.local(LogFilter)
    side = ui.u(7.5)
    room = imgui.get_content_region_avail().x - side * 2 - ui.u(4)
    imgui.begin_child("filter", ImVec2(max(room, ui.u(20)), side), FLAT)
    least = filtered.least = chooser(ui, "log.level", tr_labels(FILTERS), filtered.least)
    imgui.end_child()
    lines = [line for line in state.log if RANK[line.level] >= RANK[least]]
    imgui.same_line()
    if icon_button(ui, "log.copy", ICON_COPY, tr("Copy these lines"), side=side):
        imgui.set_clipboard_text("\n".join(as_text(line) for line in lines))
    imgui.same_line()
    if icon_button(ui, "log.clear", ICON_TRASH, tr("Clear the log"), side=side):
        actions.append(ClearLog())
    if not lines:
        wrapped(ui, tr("Nothing to show."))
        wrapped(ui, tr(TEACHES), "faint")
        return actions
    _draw_lines(ui, lines)
    return actions


def as_text(line: LogLine) -> str:
    return f"{_clock(line.time)} {line.level}: {line.text}"


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _draw_lines(ui: Ui, lines: list[LogLine]) -> None:
    """Wrapped lines; those out of sight are skipped by their height, known once drawn."""
    imgui.begin_child("lines", ImVec2(0, 0))
    at_end = imgui.get_scroll_y() >= imgui.get_scroll_max_y() - 1
    with ui.font("mono", "small"), ui.styled(item_spacing=(ui.u(2), ui.u(1))):
        left = imgui.calc_text_size("00:00:00  ").x
        room = imgui.get_content_region_avail().x - left
        for line in lines:
            height = imgui.calc_text_size(line.text, wrap_width=room).y
            if not imgui.is_rect_visible(ImVec2(1, height)):
                imgui.dummy(ImVec2(1, height))
                continue
            with ui.colored(text="faint"):
                imgui.text_unformatted(_clock(line.time))
            tip(ui, line.level)
            imgui.same_line(left)
            with ui.colored(text=COLORS[line.level]):
                imgui.push_text_wrap_pos(0.0)
                imgui.text_unformatted(line.text)
                imgui.pop_text_wrap_pos()
    if at_end:
        imgui.set_scroll_here_y(1.0)
    imgui.end_child()
