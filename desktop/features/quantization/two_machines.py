"""A comparison whose run B computes elsewhere: what each run is, and what is not known of them."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.quantization.divergence import summary
from llm_lite.desktop.features.quantization.state import RunAnswer, RunComparison
from llm_lite.desktop.features.remote.state import Connection
from llm_lite.desktop.features.tokens.colors import likely
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text, tip, wrapped

NAMES = ("A", "B")
TWO_MACHINES = mark(
    "The model of this machine and the one elsewhere answer the same prompt, at once. Their texts "
    "are tinted by how unlikely each found its own tokens, and the first token that differs stands "
    "out."
)
UNSCORED = mark(
    "How likely B finds what A said is not told: that takes the whole distribution of every token, "
    "and both models to cut text into the same tokens. OpenAI's protocol has neither."
)


def draw_badge(ui: Ui, run: int) -> None:
    """The run's letter on its colour."""
    at, draw, side = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), ui.u(6.5)
    low, high = at, ImVec2(at.x + side, at.y + side)
    draw.add_rect_filled(low, high, ui.color("accent" if run == 0 else "pressed"), ui.u(1.5))
    with ui.font("bold", "small"):
        wide = imgui.calc_text_size(NAMES[run])
        spot = ImVec2(round(at.x + (side - wide.x) / 2), round(at.y + (side - wide.y) / 2))
        color = ui.color("on_accent" if run == 0 else "text")
        draw.add_text(spot, color, NAMES[run])
    imgui.dummy(ImVec2(side, side))


def draw_two_machines(ui: Ui, connection: Connection, column: float) -> None:
    """Both are what they are: there is nothing to choose."""
    here = tr("The model of this machine, as it is loaded")
    top = imgui.get_cursor_pos()
    for run, words in enumerate((here, f"{connection.model.title}  ·  {connection.where}")):
        imgui.set_cursor_pos(ImVec2(top.x + run * (column + ui.u(8)), top.y))
        draw_badge(ui, run)
        imgui.same_line(0, ui.u(1.5))
        imgui.align_text_to_frame_padding()
        with ui.font(style="small"):
            imgui.text_unformatted(fit(words, column - ui.u(9)))
        tip(ui, words)


def draw_unscored(ui: Ui, comparison: RunComparison) -> None:
    text(ui, summary(comparison), style="small", bold=True)
    ui.mark("runs.unscored")
    wrapped(ui, tr(UNSCORED))


def tint(ui: Ui, answer: RunAnswer, token: int) -> int:
    """By how unlikely the run found its own token."""
    chance = answer.tokens[token].probability if 0 <= token < len(answer.tokens) else math.nan
    return likely(ui, chance)
