"""The surroundings of views beside the state: theme, fonts, and the names of what they drew."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.desktop.widgets.frame_times import FrameTimes
from llm_lite.desktop.widgets.theme import Theme, pixels, u32, vec

if TYPE_CHECKING:
    from llm_lite.desktop.widgets.head_maps import HeadMaps

Face = Literal["regular", "bold", "italic", "bold_italic", "mono"]
_COLORS = {name: getattr(imgui.Col_, name) for name in imgui.Col_.__members__}
_STYLES = {name: getattr(imgui.StyleVar_, name) for name in imgui.StyleVar_.__members__}
NAMED_RAIL_HEIGHT = 150.0  # spacing units: all icons of the rail with their names
NAMED_RAIL_WINDOW = 220.0  # spacing units: a window that is narrower needs its width for the panels
MOST_SIZES = 200  # of all faces together, that are kept
Rect = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels
T = TypeVar("T")


class Ui(Struct):
    """The surroundings in which a frame is drawn."""

    theme: Theme
    fonts: dict[Face, Any]  # ImFont
    now: float = 0.0
    pointer: tuple[float, float] = (-math.inf, -math.inf)  # pixels
    rects: dict[str, Rect] = field(default_factory=dict)
    before: dict[str, Rect] = field(default_factory=dict)  # `rects` of the frame before this one
    locals: dict[type, Any] = field(default_factory=dict)  # by `local`
    frames: FrameTimes = field(default_factory=FrameTimes)
    maps: HeadMaps | None = None  # of the running model, where there is a device to draw
    opened: str = ""  # the popover a view or a shortcut wants open
    redraw_at: float = math.inf  # when what is shown changes by itself
    requests: list[str] = field(default_factory=list)  # of the window by commands, in order
    shows_list: bool = False  # of conversations
    shows_inspector: bool = False  # the views of the model, at the right
    sizes: set[tuple[Face, float]] = field(default_factory=set)  # that were drawn with, in pixels
    reaching: str = ""  # the control that is to have the keyboard, by name
    notices_height: float = 0.0  # pixels, of the last frame's notices with the gaps between

    def local(self, kind: type[T]) -> T:
        """Return the record of this kind that a view keeps from frame to frame: what is typed,
        pointed at, scrolled to, or costly to make again. It is made, `kind()`, when first asked
        for, changes in place, and belongs to the module that declares it."""
        kept: T
        try:
            kept = self.locals[kind]
        except KeyError:
            kept = self.locals[kind] = kind()
        return kept

    @property
    def names_rail(self) -> bool:
        """Return whether the window has room for a name below each icon of the rail."""
        size = imgui.get_main_viewport().size
        tall = size.y - self.status_height
        return bool(tall >= self.u(NAMED_RAIL_HEIGHT) and size.x >= self.u(NAMED_RAIL_WINDOW))

    @property
    def rail_width(self) -> float:
        """Return the width of the rail at the left edge, in pixels."""
        return self.u(14)

    @property
    def status_height(self) -> float:
        """Return the height of the bar at the lower edge, in pixels."""
        return self.u(8)

    def show_popover(self, popover: str, control: str = "") -> None:
        """Show a popover, from the next frame on, and give the keyboard to a control in it."""
        self.opened, self.reaching = popover, control

    def request(self, what: str) -> None:
        """Ask something of the window for its next frame: what `Interface` knows, as "input", which
        is to have the keyboard, "view:head", which is to come to the front and have it, or
        "tab:head", which is only to come to the front: in the frame of a click, what was clicked
        would come there again."""
        self.requests.append(what)

    def redraw_in(self, seconds: float) -> None:
        self.redraw_at = min(self.redraw_at, self.now + seconds)

    def u(self, units: float) -> float:
        """Return `units` of the theme's spacing unit in whole pixels."""
        return pixels(units, self.theme.text)

    def color(self, name: str, alpha: float = 1.0) -> int:
        """Return a colour of the palette, packed for a draw list."""
        return u32(getattr(self.theme.palette, name), alpha)

    def color_of_code(self, kind: str) -> int:
        """Return the colour of a class of code, packed for a draw list; that of text, where it has
        none."""
        palette = self.theme.palette
        return u32(palette.syntax.get(kind, palette.text))

    def color_of_series(self, number: int) -> int:
        """Return a plot's colour, packed for a draw list."""
        series = self.theme.palette.series
        return u32(series[number % len(series)])

    def at_pointer(self, rect: Rect) -> bool:
        """Return whether the pointer is in a rectangle. Where there are hundreds of places to
        click, that costs less than their items."""
        return rect[0] <= self.pointer[0] < rect[2] and rect[1] <= self.pointer[1] < rect[3]

    def right(self, width: float) -> float:
        """Return the window position, in x, of something `width` wide at the right edge."""
        start, room = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x
        return start + room - width

    def mark(self, name: str) -> None:
        """Remember where the last item lies: the tour and the tests find it by `name`."""
        low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        self.rects[name] = (low.x, low.y, high.x, high.y)
        if name == self.reaching:
            self.reaching = ""
            imgui.set_keyboard_focus_here(-1)
            imgui.set_nav_cursor_visible(True)
            imgui.set_scroll_here_y(0.5)

    def font(self, face: Face = "regular", style: str = "body") -> _PopFont:
        self.push_font(face, self.theme.size(style))
        return _POP_FONT

    def push_font(self, face: Face, size: float) -> None:
        self.sizes.add((face, size))
        imgui.push_font(self.fonts[face], size)

    def keep_sizes(self) -> None:
        """In every frame: no size of a face that was drawn with goes. When its atlas grows, Dear
        ImGui 1.92 discards sizes that no frame used of late; FreeType then draws letters of the
        next new size as large as those of the one that went (`BakedLastActivated` is a pointer,
        and the memory behind it is used again)."""
        if len(self.sizes) > MOST_SIZES:
            self.sizes.clear()
        for face, size in self.sizes:
            self.fonts[face].get_font_baked(size)

    def colored(self, **colors: str) -> _Pushed:
        """Push ImGui colours by name of the palette, `-` for transparent."""
        for slot, name in colors.items():
            clear = name == "-"
            value = self.theme.palette.base if clear else getattr(self.theme.palette, name)
            imgui.push_style_color(_COLORS[slot], vec(value, 0.0 if clear else 1.0))
        return _Pushed(len(colors), imgui.pop_style_color)

    def styled(self, **values: float | tuple[float, float]) -> _Pushed:
        for slot, value in values.items():
            pushed = ImVec2(*value) if isinstance(value, tuple) else value
            imgui.push_style_var(_STYLES[slot], pushed)
        return _Pushed(len(values), imgui.pop_style_var)


class _Pushed:
    """What was pushed is popped at the end of a `with`. There are hundreds a frame, so it is no
    generator."""

    __slots__ = ("_count", "_pop")

    def __init__(self, count: int, pop: Callable[[int], None]) -> None:
        self._count, self._pop = count, pop

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if self._count:
            self._pop(self._count)


class _PopFont:
    """The same for a font; nothing has to be remembered."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        imgui.pop_font()


_POP_FONT = _PopFont()
