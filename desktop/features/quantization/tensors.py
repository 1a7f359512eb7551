"""What a weight mode does to every tensor: format, bits and noise."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import MODES, Mode, TensorReport, TensorRow
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import RunTask, SetQuantization
from llm_lite.desktop.features.quantization.progress import draw_work
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, primary_button, tip, wrapped

LABELS: tuple[tuple[Mode, str], ...] = tuple((mode, mode) for mode in MODES)
ABOUT = mark(
    "Every tensor is converted and compared with what the file holds. Signal to noise is the "
    "power of the weights over that of the error: 20 dB is an error of a tenth, 40 dB of a "
    "hundredth. Vectors stay in 32 bits, and rows that fill no whole block in 16."
)
GOOD, POOR = 40.0, 15.0  # dB
HEADS = (
    (mark("Tensor"), 0.0),
    (mark("Shape"), 21.0),
    (mark("Format"), 12.0),
    (mark("Bits"), 10.0),
    (mark("SNR dB"), 13.0),
)
HINTS = (
    "",
    mark("Rows by columns"),
    mark("As loaded"),
    mark("A weight, with its share of scales"),
    ABOUT,
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    held = state.quantization
    choices, free = held.choices, held.work is None
    actions: list[Action] = []
    room = imgui.get_content_region_avail().x - ui.u(22) - ui.u(1.5)
    mode = picker(ui, "tensors.mode", LABELS, choices.tensors, room, tr("The mode to look at"))
    if mode != choices.tensors:
        actions.append(SetQuantization(replace(choices, tensors=mode)))
    imgui.same_line(0, ui.u(1.5))
    if primary_button(ui, "tensors.run", tr("Analyze"), tr(ABOUT), enabled=free, width=ui.u(22)):
        actions.append(RunTask("tensors"))
    actions += draw_work(state, ui, "tensors")
    if held.tensors is None:
        wrapped(ui, tr(ABOUT))
    else:
        wrapped(ui, summary(held.tensors))
        _draw_table(ui, held.tensors.rows)
    return actions


def summary(report: TensorReport) -> str:
    """What it comes to over all weights, and the tensor that suffers most."""
    sizes = [math.prod(row.shape) for row in report.rows]
    bits = sum(n * row.bits_per_weight for n, row in zip(sizes, report.rows, strict=True))
    bits /= max(sum(sizes), 1)
    worst = min(report.rows, key=lambda row: row.snr_db, default=None)
    if worst is None or math.isinf(worst.snr_db):
        words = tr("{mode}: {bits:.2f} bits a weight, all of them exact.")
        return words.format(mode=report.mode, bits=bits)
    words = tr("{mode}: {bits:.2f} bits a weight; the least exact is {name} with {snr:.1f} dB.")
    name = short(worst.name)
    return words.format(mode=report.mode, bits=bits, name=name, snr=worst.snr_db)


def _draw_table(ui: Ui, rows: tuple[TensorRow, ...]) -> None:
    flags = imgui.TableFlags_
    height = max(imgui.get_content_region_avail().y, ui.u(30))
    kind = flags.scroll_y | flags.row_bg | flags.sizing_fixed_fit
    with ui.font(style="small"):
        if not imgui.begin_table("tensors", len(HEADS), kind, ImVec2(0, height)):
            return
        imgui.table_setup_scroll_freeze(0, 1)
        for title, wide in HEADS:
            column = imgui.TableColumnFlags_
            stretch = column.width_fixed if wide else column.width_stretch
            imgui.table_setup_column(title, stretch, ui.u(wide) if wide else 1.0)
        _draw_heads(ui)
        clipper = imgui.ListClipper()
        clipper.begin(len(rows))
        while clipper.step():
            for number in range(clipper.display_start, clipper.display_end):
                _draw_row(ui, rows[number])
        imgui.end_table()
    ui.mark("tensors.table")


def _draw_heads(ui: Ui) -> None:
    imgui.table_next_row(imgui.TableRowFlags_.headers)
    for (title, _), hint in zip(HEADS, HINTS, strict=True):
        imgui.table_next_column()
        with ui.colored(text="muted"):
            imgui.text_unformatted(tr(title))
        tip(ui, hint and tr(hint))


def _draw_row(ui: Ui, row: TensorRow) -> None:
    imgui.table_next_row()
    imgui.table_next_column()
    imgui.text_unformatted(fit(short(row.name), imgui.get_content_region_avail().x))
    tip(ui, row.name)
    shape = " × ".join(f"{n:,}" for n in row.shape)
    for words in (shape, row.format, f"{row.bits_per_weight:.2f}"):
        imgui.table_next_column()
        with ui.colored(text="muted"):
            imgui.text_unformatted(words)
    imgui.table_next_column()
    exact = math.isinf(row.snr_db)
    color = "muted" if exact else "warning" if row.snr_db < POOR else "text"
    color = "good" if not exact and row.snr_db >= GOOD else color
    with ui.colored(text=color):
        imgui.text_unformatted(tr("exact") if exact else f"{row.snr_db:.1f}")


def short(name: str) -> str:
    """A tensor's name without what all of them end with."""
    return name.removesuffix(".weight")
