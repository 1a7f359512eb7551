"""Running text laid out by us: wrapped lines of styled runs, measured once and kept.

Positions are in pixels from the upper left corner of the text. A block's layout depends on the
block, the width and the text size only, so of an answer that is being written only the last block
is laid out again, and of that only the last lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_COPY
from llm_lite.desktop.widgets.markdown import Block, StyledSpan, parse
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button
from llm_lite.desktop.widgets.wrapping import Run, Wrapping, wrap

CACHE_PAGES, CACHE_BLOCKS = 512, 4096
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaidText:
    """A block at its place: `height` is without the gap below."""

    block: Block
    runs: tuple[Run, ...]
    height: float
    size: float  # text size, pixels


@dataclass(frozen=True, slots=True)
class Page:
    blocks: tuple[tuple[float, LaidText], ...]  # y, block
    height: float
    width: float  # of the widest line


class RichText:
    """Lays out and draws Markdown; one for a window."""

    def __init__(self) -> None:
        self._blocks: dict[Any, LaidText] = {}
        self._pages: dict[Any, Page] = {}
        self._live: dict[Any, Page] = {}
        self._growing = Wrapping()

    def page(
        self,
        ui: Ui,
        text: str,
        width: float,
        *,
        plain: bool = False,
        live: bool = False,
        quoted: bool = False,
    ) -> Page:
        """The layout of `text` in `width` pixels; `plain` text has no Markdown in it, nor has
        `quoted`, which is one quotation.

        Of a `live` text, which will be another one in the next frame, only whole blocks are kept.
        """
        key = (text, width, ui.theme.text, plain, quoted)
        cache = self._live if live else self._pages
        page = cache.get(key)
        if page is None:
            page = self._paginate(ui, _blocks(text, plain, quoted), width, live)
            _keep(cache, key, page, 1 if live else CACHE_PAGES)
        return page

    def _paginate(self, ui: Ui, blocks: tuple[Block, ...], width: float, live: bool) -> Page:
        placed: list[tuple[float, LaidText]] = []
        y, before = 0.0, None
        for number, block in enumerate(blocks):
            y += gap(ui, before, block)
            if live and number == len(blocks) - 1:
                laid = lay_out(ui, block, width, self._growing)
            else:
                laid = self._laid(ui, block, width)
            placed.append((y, laid))
            y += laid.height
            before = block
        widest = max((r.x + r.width for _, b in placed for r in b.runs), default=0.0)
        full = any(b.block.kind in ("code", "rule") for _, b in placed)
        return Page(tuple(placed), y, width if full else widest)

    def _laid(self, ui: Ui, block: Block, width: float) -> LaidText:
        key = (block, width, ui.theme.text)
        laid = self._blocks.get(key)
        if laid is None:
            laid = lay_out(ui, block, width)
            _keep(self._blocks, key, laid, CACHE_BLOCKS)
        return laid


def _blocks(text: str, plain: bool, quoted: bool) -> tuple[Block, ...]:
    if quoted:
        return (Block("quote", (StyledSpan(text),)),)
    return (Block("paragraph", (StyledSpan(text),)),) if plain else parse(text)


def _keep(cache: dict[Any, T], key: Any, value: T, limit: int) -> None:
    """Remember `value`; the oldest goes when there are too many."""
    cache[key] = value
    if len(cache) > limit:
        del cache[next(iter(cache))]


def gap(ui: Ui, before: Block | None, block: Block) -> float:
    if before is None:
        return 0.0
    if before.kind == block.kind == "item":
        return ui.u(1)
    return ui.u(5) if block.kind == "heading" else ui.u(3)


def lay_out(ui: Ui, block: Block, width: float, growing: Wrapping | None = None) -> LaidText:
    """One block in `width` pixels; `growing` knows it from when it was shorter."""
    size, line = ui.theme.size("body"), ui.theme.line
    left = top = 0.0
    if block.kind == "rule":
        return LaidText(block, (), ui.u(2), size)
    if block.kind == "heading":
        size = ui.theme.size("title" if block.level <= 2 else "body")
        line = float(round(size * 1.4))
        block = Block(
            "heading", tuple(StyledSpan(s.text, "bold") for s in block.spans), block.level
        )
    elif block.kind == "item":
        left = ui.u(5) * (block.level + 1)
    elif block.kind == "quote":
        left = ui.u(4)
    elif block.kind == "code":
        size, left, top = ui.theme.size("mono"), ui.u(3), ui.u(9)
        line = float(round(size * 1.45))
    room = max(width - left * (2 if block.kind == "code" else 1), size * 2)
    wrapped = (growing.wrap if growing else wrap)(ui, block.spans, room, size, line)
    offset = top + (line - size) / 2
    moved = tuple(Run(r.x + left, r.y + offset, r.text, r.style, r.width) for r in wrapped.runs)
    bottom = ui.u(2.5) if block.kind == "code" else 0.0
    return LaidText(block, moved, top + wrapped.lines * line + bottom, size)


def draw_page(ui: Ui, page: Page, x: float, y: float, width: float, name: str) -> None:
    """Draw the blocks of `page` that can be seen, with its corner at (x, y) on the screen."""
    draw = imgui.get_window_draw_list()
    low, high = draw.get_clip_rect_min().y, draw.get_clip_rect_max().y
    for number, (top, laid) in enumerate(page.blocks):
        if y + top + laid.height < low or y + top > high:
            continue
        _decorate(ui, draw, laid, x, y + top, width, f"{name}.{number}")
        for run in laid.runs:
            at = y + top + run.y
            if at + ui.theme.line < low or at > high:
                continue
            _draw_run(ui, draw, laid, run, x + run.x, at)


def _draw_run(ui: Ui, draw: Any, laid: LaidText, run: Run, x: float, y: float) -> None:
    size, color = laid.size, ui.color("text")
    if run.style == "mono" and laid.block.kind != "code":
        size = round(size * 14 / 15)
        pad = ui.u(0.75)
        low, high = ImVec2(x - pad, y - pad), ImVec2(x + run.width + pad, y + laid.size + pad)
        draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
        y += (laid.size - size) / 2
    if laid.block.kind == "quote":
        color = ui.color("muted")
    draw.add_text(ui.fonts[run.style], size, ImVec2(x, round(y)), color, run.text)


def _decorate(
    ui: Ui, draw: Any, laid: LaidText, x: float, y: float, width: float, name: str
) -> None:
    kind = laid.block.kind
    if kind == "item":
        _draw_marker(ui, draw, laid, x, y)
    elif kind == "quote":
        end = ImVec2(x + ui.u(0.75), y + laid.height)
        draw.add_rect_filled(ImVec2(x, y), end, ui.color("border"), ui.u(0.5))
    elif kind == "rule":
        middle = y + laid.height / 2
        draw.add_line(ImVec2(x, middle), ImVec2(x + width, middle), ui.color("border"), ui.u(0.25))
    elif kind == "code":
        _code_frame(ui, draw, laid, x, y, width, name)


def _draw_marker(ui: Ui, draw: Any, laid: LaidText, x: float, y: float) -> None:
    """A dot or a number, hanging left of the item's first line."""
    marker, edge = laid.block.label, x + ui.u(5) * (laid.block.level + 1) - ui.u(2)
    if marker == "•":
        spot = ImVec2(edge - ui.u(0.5), round(y + ui.theme.line / 2))
        draw.add_circle_filled(spot, ui.u(0.6), ui.color("muted"))
        return
    with ui.font():
        edge -= imgui.calc_text_size(marker).x
    spot = ImVec2(round(edge), round(y + (ui.theme.line - laid.size) / 2))
    draw.add_text(ui.fonts["regular"], laid.size, spot, ui.color("muted"), marker)


def _code_frame(
    ui: Ui, draw: Any, laid: LaidText, x: float, y: float, width: float, name: str
) -> None:
    low, high = ImVec2(x, y), ImVec2(x + width, y + laid.height)
    draw.add_rect_filled(low, high, ui.color("code"), ui.theme.radius)
    draw.add_rect(low, high, ui.color("border"), ui.theme.radius, ui.u(0.25))
    small = ui.theme.size("small")
    spot = ImVec2(x + ui.u(3), y + (ui.u(8) - small) / 2)
    label = laid.block.label or "code"
    draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), label)
    side = ui.u(6)
    imgui.set_cursor_screen_pos(ImVec2(x + width - side - ui.u(1), y + ui.u(1)))
    copy_button(ui, f"{name}.copy", laid.block.spans[0].text, "Copy the code", side)


def copy_button(ui: Ui, name: str, words: str, hint: str, side: float) -> None:
    """Copies `words`; shows a tick for a moment."""
    until = ui.memory.get(f"copied.{name}", 0.0)
    done = ui.now < until
    if done:
        ui.redraw_in(until - ui.now)
    icon, color = (ICON_CHECK, "good") if done else (ICON_COPY, "muted")
    if icon_button(ui, name, icon, hint, side=side, color=color, style="small"):
        imgui.set_clipboard_text(words)
        ui.memory[f"copied.{name}"] = ui.now + 1.5
