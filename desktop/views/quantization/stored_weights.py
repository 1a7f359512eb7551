"""How the weights are stored: bytes by format, as they lie in the file."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import ModelInfo
from llm_lite.desktop.language.core_words import said
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.units import size
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import heading, tip, wrapped

NOTE = mark(
    "Quantization stores several weights in a small block that shares one scale. Fewer bits "
    "mean fewer bytes to read for every token, and a little less exactness."
)


def draw_stored(ui: Ui, model: ModelInfo) -> None:
    """A bar and a table of the file's formats."""
    heading(ui, tr("Stored weights"), tr(NOTE))
    formats = sorted(model.stored_formats.items(), key=lambda item: -item[1])
    total = sum(model.stored_formats.values())
    if total:
        _draw_bar(ui, formats, total)
        _draw_table(ui, model, formats, total)
    if model.conversion:
        wrapped(ui, tr("As stored, {conversion}.").format(conversion=model.conversion))
        ui.mark("quantization.conversion")


def _draw_bar(ui: Ui, formats: list[tuple[str, int]], total: int) -> None:
    """One bar of the whole width, split by bytes."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height, gap = imgui.get_content_region_avail().x, ui.u(5), ui.u(0.5)
    x = at.x
    for number, (_, count) in enumerate(formats):
        share = max(count / total * (width - gap * (len(formats) - 1)), ui.u(0.5))
        end = ImVec2(min(x + share, at.x + width), at.y + height)
        draw.add_rect_filled(ImVec2(x, at.y), end, ui.color_of_series(number), ui.u(1))
        x += share + gap
    imgui.dummy(ImVec2(width, height))
    ui.mark("quantization.bar")


def _draw_table(ui: Ui, model: ModelInfo, formats: list[tuple[str, int]], total: int) -> None:
    if not imgui.begin_table("formats", 4, imgui.TableFlags_.sizing_stretch_prop):
        return
    small = ui.theme.size("small")
    imgui.table_setup_column("", imgui.TableColumnFlags_.width_fixed, small)
    with ui.font(style="small"):
        for number, (name, count) in enumerate(formats):
            imgui.table_next_row()
            imgui.table_next_column()
            at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
            inset = ui.u(0.5)
            low = ImVec2(at.x + inset, at.y + inset)
            high = ImVec2(at.x + small - inset, at.y + small - inset)
            draw.add_rect_filled(low, high, ui.color_of_series(number), ui.u(0.5))
            for words in (name.upper(), size(count), f"{count / total:.1%}"):
                imgui.table_next_column()
                imgui.text_unformatted(words)
                tip(ui, said(model.format_notes.get(name, "")))
    imgui.end_table()
