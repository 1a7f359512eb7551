"""Steps gone through one by one: back, play, on, and a slider."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.tokenizing.tokenizer_state import TokenizerChoice
from llm_lite.desktop.widgets.controls import line_slider
from llm_lite.desktop.widgets.icons import (
    ICON_CHEVRON_LEFT,
    ICON_CHEVRON_RIGHT,
    ICON_PAUSE,
    ICON_PLAY,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button

PACE = 0.8  # seconds a step
FASTEST, WHOLE = 0.12, 20.0  # seconds: of a step at least, of all together about


def draw_player(ui: Ui, choice: TokenizerChoice, at: int, last: int) -> TokenizerChoice:
    """What is to be shown next: `at` steps of `last` are done now."""
    side, gap, wanted = ui.u(7), ui.u(0.5), at
    if icon_button(ui, "tokenizer.back", ICON_CHEVRON_LEFT, tr("Previous step"), side=side):
        wanted = max(0, at - 1)
    imgui.same_line(0, gap)
    icon = ICON_PAUSE if choice.playing else ICON_PLAY
    hint = tr("Stop") if choice.playing else tr("Play the steps")
    pressed = icon_button(ui, "tokenizer.play", icon, hint, side=side, active=choice.playing)
    imgui.same_line(0, gap)
    if icon_button(ui, "tokenizer.on", ICON_CHEVRON_RIGHT, tr("Next step"), side=side):
        wanted = min(last, at + 1)
    imgui.same_line(0, ui.u(2))
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + ui.u(1))
    width = imgui.get_content_region_avail().x
    shown = tr("step {n:,} of {all:,}").format(n=at, all=last)
    slid = line_slider(ui, "tokenizer.step", wanted, (0, last), shown, width)
    if pressed:
        starts = not choice.playing
        ui.memory["tokenizer.played"] = ui.now
        return replace(choice, playing=starts, step=0 if starts and at == last else at)
    if slid != at:
        return replace(choice, step=slid, playing=False)
    return _played(ui, choice, at, last) if choice.playing else choice


def _played(ui: Ui, choice: TokenizerChoice, at: int, last: int) -> TokenizerChoice:
    """A step on, once it is time."""
    if at >= last:
        return replace(choice, playing=False, step=last)
    pace = max(FASTEST, min(PACE, WHOLE / max(last, 1)))
    since = ui.now - ui.memory.setdefault("tokenizer.played", ui.now)
    if 0 <= since < pace:
        ui.redraw_in(pace - since)
        return choice
    ui.memory["tokenizer.played"] = ui.now
    ui.redraw_in(pace)
    return replace(choice, step=at + 1)
