"""Chips: parts of a text in lines, with small notes below. Only those in sight are drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

MOST_WIDTHS = 40_000  # words whose width is remembered
MARKED = 400  # chips whose places the tour and the tests can find


class Chip(Struct, frozen=True):
    words: str
    below: str = ""  # small, under it
    breaks: bool = False  # the next one begins a line


class ChipBox(Struct, frozen=True):
    """Pixels from the upper left corner of all chips."""

    x: float
    line: int
    width: float


class ChipPage(Struct, frozen=True):
    boxes: tuple[ChipBox, ...]
    firsts: tuple[int, ...]  # index of each line's first box
    pitch: float  # from line to line
    chip: float  # height of one
    width: float

    @property
    def height(self) -> float:
        return len(self.firsts) * self.pitch

    def between(self, low: float, high: float) -> range:
        """Boxes of the lines that touch low..high."""
        if not self.boxes:
            return range(0)
        first = max(0, int(low // self.pitch))
        last = int(high // self.pitch) + 1
        ends = [*self.firsts, len(self.boxes)]
        if first >= len(self.firsts) or last <= 0:
            return range(0)
        return range(ends[first], ends[min(last, len(self.firsts))])

    def at(self, x: float, y: float) -> int | None:
        line = int(y // self.pitch) if y >= 0 else -1
        if not 0 <= line < len(self.firsts) or y - line * self.pitch > self.chip:
            return None
        ends = [*self.firsts, len(self.boxes)]
        row = self.boxes[ends[line] : ends[line + 1]]
        found = bisect_right(row, x, key=lambda box: box.x) - 1
        inside = found >= 0 and x < row[found].x + row[found].width
        return ends[line] + found if inside else None


class Look(Struct, frozen=True):
    """Packed colours; 0: nothing is drawn."""

    fill: int
    text: int
    below: int
    edge: int = 0  # a line around


Paint = Callable[[int], Look]


def lay_out_chips(ui: Ui, chips: Sequence[Chip], width: float, gap: float) -> ChipPage:
    """In lines of `width` pixels, with `gap` between neighbours."""
    pad, least = ui.u(1.25), ui.u(4)
    has_below = any(chip.below for chip in chips)
    height = ui.theme.text + ui.u(1.5) + (ui.theme.size("small") + ui.u(0.5) if has_below else 0)
    wide = _widths(ui, [chip.words for chip in chips], "body")
    if has_below:
        below = _widths(ui, [chip.below for chip in chips], "small")
        wide = list(map(max, wide, below))
    boxes, firsts, x, line, fresh = list[ChipBox](), list[int](), 0.0, -1, True
    for chip, one in zip(chips, wide, strict=True):
        taken = min(max(one + 2 * pad, least), width)
        if fresh or x + taken > width:
            x, line = 0.0, line + 1
            firsts.append(len(boxes))
        boxes.append(ChipBox(x, line, taken))
        x += taken + gap
        fresh = chip.breaks
    return ChipPage(tuple(boxes), tuple(firsts), height + ui.u(1.25), height, width)


def _widths(ui: Ui, words: Sequence[str], style: str) -> list[float]:
    """In pixels; what was measured before is remembered."""
    known: dict[str, float] = ui.memory.setdefault(f"chips.{style}.{ui.theme.size(style)}", {})
    if len(known) > MOST_WIDTHS:
        known.clear()
    with ui.font(style=style):
        for word in set(words).difference(known):
            known[word] = float(imgui.calc_text_size(word).x)
    return [known[word] for word in words]


def draw_chips(
    ui: Ui, name: str, chips: Sequence[Chip], page: ChipPage, paint: Paint
) -> int | None:
    """With their corner at the cursor; the one under the pointer."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    low, high = draw.get_clip_rect_min().y - at.y, draw.get_clip_rect_max().y - at.y
    for number in page.between(low, high):
        box = page.boxes[number]
        spot = (at.x + box.x, at.y + box.line * page.pitch)
        draw_chip(ui, chips[number], spot, (box.width, page.chip), paint(number))
        if number < MARKED:
            end = (spot[0] + box.width, spot[1] + page.chip)
            ui.rects[f"{name}.{number}"] = (*spot, *end)
    imgui.dummy(ImVec2(page.width, max(page.height - ui.u(1.25), 1.0)))
    ui.mark(name)
    if not imgui.is_item_hovered():
        return None
    mouse = imgui.get_mouse_pos()
    return page.at(mouse.x - at.x, mouse.y - at.y)


def draw_chip(
    ui: Ui, chip: Chip, at: tuple[float, float], size: tuple[float, float], look: Look,
    draw: imgui.ImDrawList | None = None,
) -> None:  # fmt: skip
    draw, text = draw or imgui.get_window_draw_list(), ui.theme.text
    low, high = ImVec2(*at), ImVec2(at[0] + size[0], at[1] + size[1])
    if look.fill:
        draw.add_rect_filled(low, high, look.fill, ui.u(1))
    if look.edge:
        draw.add_rect(low, high, look.edge, ui.u(1), max(1.0, ui.u(0.4)))
    top = at[1] + ui.u(0.75)
    room = size[0] - ui.u(1)
    with ui.font():
        words = fit(chip.words, room)
        x = at[0] + (size[0] - imgui.calc_text_size(words).x) / 2
        draw.add_text(ImVec2(round(x), round(top)), look.text, words)
    if chip.below:
        with ui.font(style="small"):
            words = fit(chip.below, room)
            x = at[0] + (size[0] - imgui.calc_text_size(words).x) / 2
            draw.add_text(ImVec2(round(x), round(top + text + ui.u(0.25))), look.below, words)


def kept_page(
    ui: Ui, name: str, made_of: object, chips: Sequence[Chip], width: float, gap: float
) -> ChipPage:
    """Laid out once for what they are made of, a width and a size of text."""
    key = (width, gap, ui.theme.text)
    held = ui.memory.get(name)
    if held is None or held[0] is not made_of or held[1] != key:
        held = ui.memory[name] = (made_of, key, lay_out_chips(ui, chips, width, gap))
    found: ChipPage = held[2]
    return found
