"""Draws a page of blocks; only what is in sight."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from operator import itemgetter
from typing import Any

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.widgets.icons import ICON_CHECK
from llm_lite.desktop.widgets.markdown.blocks import BULLET, DONE_TASK, OPEN_TASK, QUOTE
from llm_lite.desktop.widgets.markdown.characters import Span, block_spans
from llm_lite.desktop.widgets.markdown.code_frame import draw_code_run, draw_frame, draw_numbers
from llm_lite.desktop.widgets.markdown.geometry import block_rects
from llm_lite.desktop.widgets.markdown.layout import LaidText, indent
from llm_lite.desktop.widgets.markdown.table import draw_scroll, offset
from llm_lite.desktop.widgets.markdown.wrapping import CJK, CODE_SCALE, Run, ascent
from llm_lite.desktop.widgets.markup.code_colors import CodeColors
from llm_lite.desktop.widgets.ui import Ui

UPRIGHT = re.compile(f"[{CJK}\uac00-\ud7a3]")
SLANT = 0.19  # to the right, of the height above the baseline: as Inter's italics
WORDS = 5  # of four bytes in a vertex, x and y first
CORNERS = 4  # of a letter


class PageDrawing:
    """One page at a place on the screen."""

    def __init__(
        self, ui: Ui, colors: CodeColors, name: str, live: bool, selected: Span | None = None
    ) -> None:
        self.ui, self.colors, self.name, self.live = ui, colors, name, live
        self._selected = selected  # characters of the page
        self._within: Span | None = None  # of the block that is being drawn
        self.draw: Any = imgui.get_window_draw_list()
        self.low, self.high = self.draw.get_clip_rect_min().y, self.draw.get_clip_rect_max().y
        self._hovers = imgui.is_window_hovered()
        self._links = 0

    def blocks(
        self, blocks: tuple[tuple[float, LaidText], ...], x: float, y: float, width: float
    ) -> None:
        last = len(blocks) - 1
        spans = block_spans(laid.block for _, laid in blocks) if self._selected else None
        first = max(0, bisect_right(blocks, self.low - y, key=itemgetter(0)) - 1)
        for number in range(first, bisect_right(blocks, self.high - y, key=itemgetter(0))):
            top, laid = blocks[number]
            if y + top + laid.height < self.low:
                continue
            self._within = self._chosen(spans[number]) if spans else None
            above = 0.0
            if number and laid.block.joined:
                before, placed = blocks[number - 1]
                above = top - before - placed.height
            self._bars(laid, x, y + top, above)
            self._markers(laid, x, y + top)
            place = f"{self.name}.{number}"
            self._block(laid, x, y + top, width, place, self.live and number == last)

    def _chosen(self, span: Span) -> Span | None:
        """Return what is selected of a block that lies at `span`."""
        assert self._selected is not None
        low, high = (at - span[0] for at in self._selected)
        return (max(low, 0), high) if low <= span[1] - span[0] and high > 0 else None

    def _selection(self, laid: LaidText, x: float, y: float) -> None:
        """Draw the selection behind the text, but before what marks code in a line."""
        if self._within is None:
            return
        for run in laid.runs if laid.block.kind != "code" else ():
            if run.kind != "text" and run.picture is None:
                at = x - offset(self.ui, laid.grid)
                self._behind_code(run, at + run.x, y + run.y, laid.size)
        color = self.ui.color("selection")
        for left, top, right, bottom in block_rects(self.ui, laid, *self._within):
            if y + bottom >= self.low and y + top <= self.high:
                low = ImVec2(round(x + left), round(y + top))
                self.draw.add_rect_filled(low, ImVec2(round(x + right), round(y + bottom)), color)

    def _block(
        self, laid: LaidText, x: float, y: float, width: float, name: str, live: bool
    ) -> None:
        ui, kind, left = self.ui, laid.block.kind, x + laid.left
        if kind == "code":
            draw_frame(ui, self.draw, laid, left, y, width - laid.left, name)
            draw_numbers(ui, self.draw, laid, left, y, self.low, self.high)
            self._selection(laid, x, y)
            self._code(laid, x, y, live)
            return
        if kind == "rule":
            middle, color = round(y + laid.height / 2), ui.color("border")
            end = ImVec2(x + width, middle)
            self.draw.add_line(ImVec2(left, middle), end, color, ui.u(0.375))
        elif kind == "table":
            self._table(laid, x, y, name)
            return
        self._selection(laid, x, y)
        for run in laid.runs:
            if run.picture is None and not self._in_sight(y + run.y):
                continue
            self._run(laid, run, x + run.x, y + run.y)

    def _table(self, laid: LaidText, x: float, y: float, name: str) -> None:
        """Draw as much of a table as its column shows."""
        grid = laid.grid
        assert grid is not None
        left, at = x + laid.left, x - offset(self.ui, grid)
        if grid.over:
            low = ImVec2(left, y - 1)
            high = ImVec2(left + grid.width - grid.over, y + grid.height + 1)
            self.draw.push_clip_rect(low, high, True)
        self._grid(laid, at + laid.left, y)
        self._selection(laid, x, y)
        for run in laid.runs:
            if run.picture is not None or self._in_sight(y + run.y):
                self._run(laid, run, at + run.x, y + run.y)
        if grid.over:
            self.draw.pop_clip_rect()
            draw_scroll(self.ui, self.draw, grid, left, y, name)

    def _in_sight(self, at: float) -> bool:
        return at + self.ui.theme.line >= self.low and at <= self.high

    def _code(self, laid: LaidText, x: float, y: float, live: bool) -> None:
        block, ui = laid.block, self.ui
        colored = self.colors.of(block.label, block.text, ui.now, live)
        for run, at in zip(laid.runs, laid.offsets, strict=True):
            if self._in_sight(y + run.y):
                draw_code_run(ui, self.draw, laid, run, at, colored, x + run.x, y + run.y)

    def _bars(self, laid: LaidText, x: float, y: float, above: float) -> None:
        """Draw a line at the left of each quote, which goes on from the block above."""
        ui = self.ui
        for number, container in enumerate(laid.block.path):
            if container == QUOTE:
                top = y - (above if number < laid.block.joined else 0.0)
                end = ImVec2(x + ui.u(0.75), y + laid.height)
                self.draw.add_rect_filled(ImVec2(x, top), end, ui.color("border"))
            x += indent(ui, container)

    def _markers(self, laid: LaidText, x: float, y: float) -> None:
        """Draw dots, numbers and boxes, hanging left of the first line of their items."""
        for container, marker in zip(laid.block.path, laid.block.markers, strict=True):
            x += indent(self.ui, container)
            if marker:
                self._marker(laid, marker, x - self.ui.u(2), y)

    def _marker(self, laid: LaidText, marker: str, edge: float, y: float) -> None:
        ui = self.ui
        top = y + (laid.runs[0].y if laid.runs else (ui.theme.line - ui.theme.text) / 2)
        middle = round(top + laid.size / 2)
        if laid.block.kind == "code":
            top = y + ui.u(2)
            middle = round(top + ui.theme.text / 2)
        if marker == BULLET:
            spot = ImVec2(edge - ui.u(0.5), middle)
            self.draw.add_circle_filled(spot, ui.u(0.6), ui.color("muted"))
        elif marker in (OPEN_TASK, DONE_TASK):
            self._box(marker == DONE_TASK, edge, middle)
        else:
            with ui.font():
                spot = ImVec2(round(edge - imgui.calc_text_size(marker).x), round(top))
                self.draw.add_text(spot, ui.color("muted"), marker)

    def _box(self, done: bool, edge: float, middle: float) -> None:
        ui, half = self.ui, round(self.ui.theme.text * 0.4)
        center = edge - half + ui.u(0.5)
        low, high = ImVec2(center - half, middle - half), ImVec2(center + half, middle + half)
        if not done:
            self.draw.add_rect(low, high, ui.color("faint"), ui.u(0.75), max(1.0, ui.u(0.375)))
            return
        self.draw.add_rect_filled(low, high, ui.color("accent"), ui.u(0.75))
        size = half * 1.75
        spot = ImVec2(round(center - size / 2), round(middle - size / 2))
        self.draw.add_text(ui.fonts["bold"], size, spot, ui.color("on_accent"), ICON_CHECK)

    def _grid(self, laid: LaidText, x: float, y: float) -> None:
        """Draw the head's surface, a line between two rows, and one around all."""
        ui, grid = self.ui, laid.grid
        assert grid is not None
        thin, color = ui.u(0.25), ui.color("border")
        low, high = ImVec2(x, y), ImVec2(x + grid.width, y + grid.height)
        self.draw.push_clip_rect(low, ImVec2(high.x, y + grid.rows[1]), True)
        self.draw.add_rect_filled(low, high, ui.color("code"), ui.theme.radius)
        self.draw.pop_clip_rect()
        for edge in grid.rows[1:-1]:
            at = round(y + edge)
            if self._in_sight(at):
                self.draw.add_line(ImVec2(x, at), ImVec2(high.x, at), color, thin)
        self.draw.add_rect(low, high, color, ui.theme.radius, thin)

    def _run(self, laid: LaidText, run: Run, x: float, y: float) -> None:
        ui, size = self.ui, laid.size
        color = ui.color("muted" if QUOTE in laid.block.path else "text")
        if run.link:
            color = ui.color("link")
        if run.picture is not None:
            run.picture.draw(self.draw, x, y + ascent(ui, size), color)
            return
        if run.kind != "text":
            size = round(size * CODE_SCALE)
            if self._within is None:
                self._behind_code(run, x, y, laid.size)
            y += (laid.size - size) / 2
        font, top = ui.fonts[run.style], round(y)
        if run.style in ("italic", "bold_italic"):
            baseline = top + ascent(ui, size)
            draw_italic(self.draw, font, size, (x, top), color, run.text, baseline)
        else:
            self.draw.add_text(font, size, ImVec2(x, top), color, run.text)
        if run.strike:
            middle, thick = round(y + size * 0.54), max(1.0, ui.u(0.3))
            end = ImVec2(x + run.width, middle)
            self.draw.add_line(ImVec2(x, middle), end, color, thick)
        if run.link:
            self._link(run, x, y, color)

    def _behind_code(self, run: Run, x: float, y: float, size: float) -> None:
        ui, pad = self.ui, self.ui.u(0.75)
        low = ImVec2(x - pad, round(y - pad))
        high = ImVec2(x + run.width + pad, round(y + size + pad))
        self.draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))

    def _link(self, run: Run, x: float, y: float, color: int) -> None:
        """Underlined; under the pointer its address is told, clicked a person is asked."""
        ui, size = self.ui, self.ui.theme.text
        self._links += 1
        rect = (x, y, x + run.width, y + size)
        ui.rects[f"{self.name}.link.{self._links}"] = rect
        under = round(y + size * 0.93)
        over = self._hovers and ui.at_pointer((x, y - ui.u(0.5), x + run.width, y + size))
        thick = max(1.0, ui.u(0.5 if over else 0.25))
        self.draw.add_line(ImVec2(x, under), ImVec2(x + run.width, under), color, thick)
        if not over:
            return
        imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
        with ui.styled(window_padding=(ui.u(3), ui.u(2))), ui.font(style="small"):
            imgui.set_tooltip(run.link.replace("%", "%%"))
        if imgui.is_mouse_clicked(0):
            ui.local(ClickedLink).address = run.link


class ClickedLink(Struct):
    address: str | None = None  # that a person has just clicked on


def draw_italic(
    draw: Any, font: Any, size: float, at: tuple[float, float], color: int, words: str,
    baseline: float,
) -> None:  # fmt: skip
    """Draw as add_text does, but with letters that stand upright in no word."""
    before = draw.vtx_buffer.size()
    draw.add_text(font, size, ImVec2(*at), color, words)
    if not UPRIGHT.search(words):
        return
    shown = [letter for letter in words if not letter.isspace()]
    count = draw.vtx_buffer.size() - before
    if count != CORNERS * len(shown):  # some letters were left out
        return
    address = draw.vtx_buffer.data_address() + before * WORDS * 4
    floats = (ctypes.c_float * (count * WORDS)).from_address(address)
    vertices = np.frombuffer(floats, np.float32).reshape(len(shown), CORNERS, WORDS)
    upright = np.array([UPRIGHT.match(letter) is not None for letter in shown])
    vertices[upright, :, 0] += (baseline - vertices[upright, :, 1]) * SLANT
