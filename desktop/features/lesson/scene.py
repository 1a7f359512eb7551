"""The drawing functions of the lesson's pictures: text, numbers, strips of cells, tiles, arrows.
All steps look alike: a vector is a strip of cells, cold where negative and warm where positive; a
head is a tile; a token is a rounded label. Numbers are written by their names only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.inspecting.lesson import TokenTrace, VectorPart
from llm_lite.desktop.features.lesson.glossary import (
    as_equation,
    meaning_of,
    operands_of,
    show_tip,
    token_at,
)
from llm_lite.desktop.features.lesson.model import message_begin
from llm_lite.desktop.features.lesson.numbers import Name, Number
from llm_lite.desktop.features.lesson.other_views import open_view_of_number, press_hint
from llm_lite.desktop.features.lesson.state import LessonPage
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import mix
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.by_keyboard import cell
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Face, Rect, Ui
from llm_lite.desktop.widgets.widgets import fit, wrap_lines

COLD, WARM = 0, 2  # of the palette's series: negative and positive
STRONG = 2.2  # root mean squares from which a cell has its full colour
Align = Literal["left", "middle", "right"]
LEFT: Align = "left"
MIDDLE: Align = "middle"
RIGHT: Align = "right"


class ShownNumbers(Struct):
    """The numbers that the last frame of the lesson showed, as text."""

    texts: dict[Name, str] = field(default_factory=dict)


class Scene(Struct):
    """A picture being drawn in `rect`, `t` of the way through its motion, 0..1."""

    ui: Ui
    state: AppState
    lesson: LessonPage
    trace: TokenTrace
    numbers: dict[Name, Number]
    rect: Rect
    t: float
    draw: Any
    hovered: bool  # the pointer is over the page and nothing covers it
    actions: list[Action] = field(default_factory=list)
    pointed: Name = ()  # the number under the pointer

    @property
    def width(self) -> float:
        return self.rect[2] - self.rect[0]

    @property
    def height(self) -> float:
        return self.rect[3] - self.rect[1]

    @property
    def _cell_colors(self) -> tuple[int, int, int]:
        """Return the colours of zero, of negative and of positive values."""
        palette = self.ui.theme.palette
        return palette.hover, palette.series[COLD], palette.series[WARM]

    def u(self, units: float) -> float:
        return self.ui.u(units)

    def text(
        self, words: str, x: float, y: float, color: str = "muted", style: str = "small",
        align: Align = "left", face: Face = "regular", alpha: float = 1.0, room: float = 0.0,
    ) -> float:  # fmt: skip
        """Draw a line of text, cut to `room` where it is given; return its width in pixels."""
        if alpha <= 0:
            return 0.0
        with self.ui.font(face, style):
            if room:
                words = fit(words, room)
            wide = float(imgui.calc_text_size(words).x)
            x -= {"left": 0.0, "middle": wide / 2, "right": wide}[align]
            packed = self.ui.color(color, alpha)
            self.draw.add_text(ImVec2(round(x), round(y)), packed, words)
        return wide

    def paragraph(
        self, words: str, x: float, y: float, width: float, color: str = "muted",
        style: str = "small",
    ) -> float:  # fmt: skip
        """Draw wrapped text; return its height in pixels."""
        size = self.ui.theme.size(style)
        line = float(round(size * 1.45))
        with self.ui.font(style=style):
            lines = wrap_lines(words, max(width, size), size)
            for number, part in enumerate(lines):
                at = ImVec2(round(x), round(y + number * line))
                self.draw.add_text(at, self.ui.color(color), part)
        return len(lines) * line

    def number(
        self, name: Name, x: float, y: float, color: str = "text", align: Align = "right",
        style: str = "small", alpha: float = 1.0,
    ) -> float:  # fmt: skip
        """Draw a number of the trace by its name, explained under the pointer; where another view
        shows it, a click opens that view. Return its width in pixels, 0 where the step has no such
        number."""
        found = self.numbers.get(name)
        if found is None or alpha <= 0.02:
            return 0.0
        ui, shown = self.ui, found.text
        with ui.font("mono", style):
            size = imgui.calc_text_size(shown)
            x = round(x - {"left": 0.0, "middle": size.x / 2, "right": size.x}[align])
            y = round(y)
            rect = (x - ui.u(0.5), y - ui.u(0.25), x + size.x + ui.u(0.5), y + size.y + ui.u(0.25))
            over = self._press(found, rect)
            leads = over and bool(press_hint(name, self.lesson))
            packed = ui.color("link" if leads else color, alpha)
            self.draw.add_text(ImVec2(x, y), packed, shown)
            if leads:
                low = ImVec2(x, y + size.y)
                self.draw.add_line(low, ImVec2(x + size.x, y + size.y), packed, 1.0)
        ui.local(ShownNumbers).texts[name] = shown
        ui.rects["lesson.number." + ".".join(map(str, name))] = rect
        return float(size.x)

    def _press(self, number: Number, rect: Rect) -> bool:
        """Return whether the pointer or the keyboard is at the number; a press opens its view."""
        name = number.name
        focused, pressed = cell("number." + ".".join(map(str, name)), rect)
        over, leads = self.hovered and self.ui.at_pointer(rect), press_hint(name, self.lesson)
        if over:
            self.pointed = name
            show_tip(self.ui, meaning_of(name, self.lesson), self._equation(name), leads)
        if over and leads:
            imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
        if leads and (pressed or (over and imgui.is_mouse_clicked(0))):
            self.actions += open_view_of_number(name, self.state, self.ui)
        return over or focused

    def strip(
        self, vector: VectorPart | Sequence[float], rect: Rect, shown: float = 1.0,
        alpha: float = 1.0, cells: int = 64, name: Name = (), rms: float = 0.0,
    ) -> None:  # fmt: skip
        """Draw the first values of a vector as cells from left to right, `shown` of them, 0..1. The
        one under the pointer is explained where there is a `name`. Colours are strong by `rms`, or
        the vector's own where it is 0."""
        values = vector.values if isinstance(vector, VectorPart) else tuple(vector)
        own = vector.rms if isinstance(vector, VectorPart) else root_mean_square(values)
        count = min(len(values), cells)
        if not count or alpha <= 0 or shown <= 0:
            return
        colors = _cells(values[:count], rms or own, self._cell_colors)
        x0, y0, x1, y1 = rect
        wide, gap = (x1 - x0) / count, 1.0 if (x1 - x0) / count >= 4 else 0.0
        veil = round(alpha * 255) << 24
        add, last = self.draw.add_rect_filled, round(count * shown)
        for index in range(last):
            left = x0 + index * wide
            low, high = ImVec2(left, y0), ImVec2(left + wide - gap, y1)
            add(low, high, colors[index] & 0xFFFFFF | veil)
        if name:
            self._cell_tip(values[:count], rect, last, name)
            self.ui.rects["lesson.strip." + ".".join(map(str, name))] = rect

    def _cell_tip(self, values: tuple[float, ...], rect: Rect, last: int, name: Name) -> None:
        """Draw an outline around the cell under the pointer, and show its number."""
        if not self.hovered or not self.ui.at_pointer(rect):
            return
        index = int((self.ui.pointer[0] - rect[0]) / ((rect[2] - rect[0]) / len(values)))
        if index < last:
            self.outline(rect, index, len(values))
            self.number_tip(Number((*name, index), values[index]))

    def number_tip(self, number: Number) -> None:
        """Show, under the pointer, a number that is not written, and how it is computed."""
        self.ui.local(ShownNumbers).texts[number.name] = number.text
        meaning = meaning_of(number.name, self.lesson)
        show_tip(self.ui, number.text, meaning, self._equation(number.name))

    def _equation(self, name: Name) -> str:
        parts, shown = operands_of(name, self.lesson), self.ui.local(ShownNumbers).texts
        shown.update({part.name: part.text for part in parts if isinstance(part, Number)})
        return as_equation(parts)

    def outline(self, rect: Rect, index: int, count: int) -> None:
        """Draw an outline around one of the cells of a strip."""
        wide = (rect[2] - rect[0]) / count
        low = ImVec2(rect[0] + index * wide - 1, rect[1] - 1)
        high = ImVec2(rect[0] + (index + 1) * wide, rect[3] + 1)
        self.draw.add_rect(low, high, self.ui.color("text"), 0.0, 1.0)

    def vector(
        self, name: str, label: str, vector: VectorPart, rect: Rect, shown: float = 1.0,
        written: int = 6, cells: int = 64, rms: float = 0.0,
    ) -> float:  # fmt: skip
        """Draw a strip with its label above and its first numbers below; return the lower edge in
        pixels."""
        ui, (x0, y0, x1, y1) = self.ui, rect
        small = ui.theme.size("small")
        wide = self.text(label, x0, y0 - small - ui.u(1), "text", alpha=min(1.0, shown * 4))
        room = x1 - x0 - wide - ui.u(3)
        self.value_count(vector, cells, x1, y0 - small - ui.u(1), shown, room)
        self.strip(vector, rect, shown, cells=cells, name=(name,), rms=rms)
        count = min(len(vector.values), cells)
        return self.number_row(name, x0, y1 + ui.u(1), x1, shown, written, (rect, count))

    def value_count(
        self, vector: VectorPart, cells: int, x: float, y: float, alpha: float = 1.0,
        room: float = 0.0,
    ) -> None:  # fmt: skip
        """Write how many of a vector's values are drawn, with the right edge at `x`."""
        count = min(len(vector.values), cells)
        words = tr("first {n} of {size:,} values") if vector.size > count else tr("all {n} values")
        shown = words.format(n=count, size=vector.size)
        self.text(shown, x, y, "faint", align="right", alpha=alpha, room=room)

    def number_row(
        self, name: str, x: float, y: float, right: float, alpha: float = 1.0, count: int = 6,
        cells: tuple[Rect, int] | None = None,
    ) -> float:  # fmt: skip
        """Draw the first numbers of a vector and its root mean square at the right; return the
        lower edge. A strip of `cells` above is tied to its numbers."""
        ui = self.ui
        with ui.font("mono", "small"):
            wide = imgui.calc_text_size("+00.000").x + ui.u(2)
            rest = imgui.calc_text_size("000.000").x
        label = tr("RMS")
        with ui.font(style="small"):
            rest += imgui.calc_text_size(label).x + ui.u(3)
        fits = min(count, max(1, int((right - x - rest) // wide)))
        if cells is not None:
            y = self._draw_wedge(cells, fits, (x, y, x + fits * wide), alpha)
        for index in range(fits):
            self.number((name, index), x + (index + 1) * wide - ui.u(2), y, alpha=alpha)
            if cells is not None and self.pointed == (name, index):
                self.outline(cells[0], index, cells[1])
        if (name, 0) in self.numbers:
            self.text("…", x + fits * wide, y, "faint", alpha=alpha)
        if (name, "rms") in self.numbers:
            taken = self.number((name, "rms"), right, y, "text", alpha=alpha)
            self.text(label, right - taken - ui.u(1), y, "faint", align="right", alpha=alpha)
        return y + ui.theme.size("small")

    def _draw_wedge(
        self, cells: tuple[Rect, int], count: int, row: tuple[float, float, float], alpha: float
    ) -> float:
        """Draw a faint wedge from the first cells to their numbers; return where these begin."""
        (x0, _, x1, bottom), drawn = cells
        left, _, right = row
        top, low = bottom + 1, bottom + self.u(2.5)
        edge = x0 + (x1 - x0) * min(count, drawn) / drawn
        corners = (x0, top), (edge, top), (right, low), (left, low)
        points = [ImVec2(x, y) for x, y in corners]
        self.draw.add_convex_poly_filled(points, self.ui.color("faint", 0.22 * alpha))
        return low + self.u(0.5)

    def legend(self, x: float, y: float) -> float:
        """Draw what the colours of cells mean, right-aligned at x; return its left edge."""
        ui, small = self.ui, self.ui.theme.size("small")
        for series, words in ((WARM, tr("above 0")), (COLD, tr("below 0"))):
            x -= self.text(words, x, y, "faint", align="right") + ui.u(1)
            low = ImVec2(x - ui.u(2.5), y + (small - ui.u(2.5)) / 2 + 1)
            high = ImVec2(x, low.y + ui.u(2.5))
            self.draw.add_rect_filled(low, high, ui.color_of_series(series), ui.u(0.5))
            x -= ui.u(5)
        return x

    def tile(
        self, words: str, rect: Rect, chosen: bool = False, fill: str = "raised",
        color: str = "text", alpha: float = 1.0,
    ) -> None:  # fmt: skip
        """Draw a token or a head as a rounded label."""
        ui, (x0, y0, x1, y1) = self.ui, rect
        low, high, round_ = ImVec2(x0, y0), ImVec2(x1, y1), ui.u(1)
        ground = "accent" if chosen else fill
        self.draw.add_rect_filled(low, high, ui.color(ground, alpha), round_)
        if not chosen:
            self.draw.add_rect(low, high, ui.color("border", alpha), round_, max(1.0, ui.u(0.25)))
        small = ui.theme.size("small")
        ink = "on_accent" if chosen else color
        self.text(
            words, (x0 + x1) / 2, (y0 + y1 - small) / 2 - ui.u(0.25), ink, align="middle",
            alpha=alpha, room=x1 - x0 - ui.u(1),
        )  # fmt: skip

    def pressed(self, name: str, rect: Rect) -> bool:
        """Return whether a part of the picture was pressed, with the mouse or the keyboard."""
        _, by_key = cell(name, rect)
        self.ui.rects[f"lesson.{name}"] = rect
        over = self.hovered and self.ui.at_pointer(rect)
        if over:
            imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
        return by_key or (over and imgui.is_mouse_clicked(0))

    def arrow(
        self, begin: tuple[float, float], end: tuple[float, float], shown: float = 1.0,
        color: str = "muted",
    ) -> None:  # fmt: skip
        """Draw a straight arrow, `shown` of it, 0..1."""
        if shown <= 0:
            return
        ui = self.ui
        x = begin[0] + (end[0] - begin[0]) * shown
        y = begin[1] + (end[1] - begin[1]) * shown
        packed, thick = ui.color(color), max(1.0, ui.u(0.375))
        self.draw.add_line(ImVec2(*begin), ImVec2(x, y), packed, thick)
        long = ((end[0] - begin[0]) ** 2 + (end[1] - begin[1]) ** 2) ** 0.5 or 1.0
        dx, dy = (end[0] - begin[0]) / long, (end[1] - begin[1]) / long
        back, side = ui.u(1.75), ui.u(1)
        self.draw.add_triangle_filled(
            ImVec2(x, y),
            ImVec2(x - dx * back - dy * side, y - dy * back + dx * side),
            ImVec2(x - dx * back + dy * side, y - dy * back - dx * side),
            packed,
        )

    def bar(self, rect: Rect, share: float, color: str = "accent", alpha: float = 1.0) -> None:
        """Draw a bar from the left on a faint ground, `share` of it filled, 0..1."""
        ui, (x0, y0, x1, y1) = self.ui, rect
        radius = min(ui.u(0.75), (y1 - y0) / 2)
        self.draw.add_rect_filled(ImVec2(x0, y0), ImVec2(x1, y1), ui.color("hover"), radius)
        if share > 0:
            right = x0 + max((x1 - x0) * min(share, 1.0), min(2.0, x1 - x0))
            self.draw.add_rect_filled(
                ImVec2(x0, y0), ImVec2(right, y1), ui.color(color, alpha), radius
            )

    def token(self, position: int) -> str:
        """Return the text of a token of the sentence on one line."""
        return token_at(self.lesson, position)

    @property
    def undrawn(self) -> int:
        """Return how many tokens of the text stand before those of the trace."""
        return self.trace.tokens[0][0] - message_begin(self.state, self.trace.position)


def root_mean_square(values: tuple[float, ...]) -> float:
    return (sum(value * value for value in values) / len(values)) ** 0.5 if values else 0.0


@lru_cache(maxsize=512)
def _cells(values: tuple[float, ...], rms: float, key: tuple[int, int, int]) -> tuple[int, ...]:
    """Return packed colours of the values; `key` holds the colours of zero, of negative and of
    positive values."""
    ground, cold, warm = key
    full = STRONG * rms or 1.0
    found = []
    for value in values:
        share = min(1.0, abs(value) / full)
        found.append(u32(mix(ground, warm if value > 0 else cold, round(share, 2))))
    return tuple(found)
