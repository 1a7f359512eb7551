"""Design tokens: one type scale, one spacing unit, one small palette a theme.

Everything is measured in the text size: the spacing unit is 4/15 of it, so a larger font or a
denser screen enlarges the whole interface and keeps its proportions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from imgui_bundle import ImVec2, ImVec4, imgui, implot
from msgspec import Struct

from llm_lite.desktop.system_theme import ThemeName

UNIT = 4 / 15  # spacing unit, in text sizes
LINE_HEIGHT = 1.5  # of running text, in text sizes
MEASURE = 42.0  # widest column of running text, in text sizes: about 72 characters
SIZES = {
    "caption": 11 / 15,
    "small": 13 / 15,
    "body": 1.0,
    "title": 18 / 15,
    "display": 27 / 15,
    "mono": 14 / 15,
}


class Palette(Struct, frozen=True):
    """Colours as 0xRRGGBB, named by what they are for."""

    base: int  # behind the conversation
    sunken: int  # rail, status bar, tab bars
    panel: int  # glass-box views
    raised: int  # inputs, popovers
    hover: int
    pressed: int
    bubble: int  # what the person said
    code: int
    border: int
    text: int
    muted: int  # labels, secondary text: at least 4.5:1 on every surface above
    faint: int  # captions, decoration: 4.5:1 on what views stand on, not on what is hovered
    accent: int  # a ground of `on_accent`, and marks: at least 3:1
    accent_hover: int
    on_accent: int
    accent_soft: int  # accent as a background
    selection: int  # behind text: `text`, `muted`, `link` and code have at least 4.5:1 on it
    good: int
    warning: int
    error: int
    link: int  # text in the accent's colour, and the ring of the keyboard
    syntax: dict[str, int]  # classes of code: at least 4.5:1 on `code` and `selection`
    series: tuple[int, ...]  # plots, in this order


DARK = Palette(
    base=0x16181D,
    sunken=0x101216,
    panel=0x16181D,
    raised=0x20242B,
    hover=0x2A2F38,
    pressed=0x343A45,
    bubble=0x272C35,
    code=0x0F1115,
    border=0x2B3039,
    text=0xE7E9ED,
    muted=0x9CA5B1,
    faint=0x828D9B,
    accent=0x4F6EE0,
    accent_hover=0x4766D8,
    on_accent=0xFFFFFF,
    accent_soft=0x252D45,
    selection=0x192B74,
    good=0x4CC38A,
    warning=0xF0B34A,
    error=0xF2766B,
    link=0x7D9BFF,
    syntax={
        "keyword": 0xD58BEA,
        "string": 0x7FCB9A,
        "number": 0xF0B34A,
        "comment": 0x909BAA,
        "function": 0x7D9BFF,
        "type": 0x5CC8DE,
        "deleted": 0xF2766B,
    },
    series=(0x7D9BFF, 0x4CC38A, 0xF0B34A, 0xD58BEA, 0x5CC8DE, 0xF2766B, 0xA9B665, 0x9CA5B1),
)
LIGHT = Palette(
    base=0xFFFFFF,
    sunken=0xF4F5F7,
    panel=0xFFFFFF,
    raised=0xFFFFFF,
    hover=0xECEEF2,
    pressed=0xDFE3E9,
    bubble=0xEEF1F6,
    code=0xF6F7F9,
    border=0xDDE1E7,
    text=0x1C2024,
    muted=0x5A636E,
    faint=0x69717C,
    accent=0x3E63DD,
    accent_hover=0x3457CC,
    on_accent=0xFFFFFF,
    accent_soft=0xE6ECFE,
    selection=0xCDF0FF,
    good=0x18794E,
    warning=0x9A5B00,
    error=0xC62A2F,
    link=0x3457CC,
    syntax={
        "keyword": 0x8A3FB5,
        "string": 0x18794E,
        "number": 0x9A5B00,
        "comment": 0x5F6975,
        "function": 0x3457CC,
        "type": 0x0B6E84,
        "deleted": 0xC62A2F,
    },
    series=(0x3E63DD, 0x2B9A66, 0xD27A1F, 0x9A4FC4, 0x1291AB, 0xD6403F, 0x7A8A1F, 0x5A636E),
)


class Theme(Struct, frozen=True):
    name: ThemeName
    palette: Palette
    text: float  # body text, pixels

    def u(self, units: float) -> float:
        """Return `units` of the spacing unit in whole pixels, at least one."""
        return pixels(units, self.text)

    def size(self, style: str) -> float:
        return _text_size(style, self.text)

    @property
    def line(self) -> float:
        return float(round(LINE_HEIGHT * self.text))

    @property
    def radius(self) -> float:
        return self.u(2)


@lru_cache(maxsize=1024)
def pixels(units: float, text: float) -> float:
    """Return `units` of the spacing unit beside body text of so many pixels."""
    return float(max(1, round(units * UNIT * text))) if units else 0.0


@lru_cache(maxsize=64)
def _text_size(style: str, text: float) -> float:
    return float(round(SIZES[style] * text))


def make_theme(name: ThemeName, font_size: float, scale: float) -> Theme:
    return Theme(name, DARK if name == "dark" else LIGHT, float(round(font_size * scale)))


def vec(color: int, alpha: float = 1.0) -> ImVec4:
    return ImVec4((color >> 16) / 255, (color >> 8 & 255) / 255, (color & 255) / 255, alpha)


@lru_cache(maxsize=4096)
def u32(color: int, alpha: float = 1.0) -> int:
    """Return `color` as Dear ImGui packs it: ABGR."""
    red, green, blue = color >> 16, color >> 8 & 255, color & 255
    return round(alpha * 255) << 24 | blue << 16 | green << 8 | red


def apply_theme(theme: Theme) -> None:
    """Set the style of the current ImGui and ImPlot contexts."""
    style = imgui.get_style()
    _set_sizes(style, theme)
    _set_colors(style, theme.palette)
    _set_plot(theme)


def _set_sizes(style: Any, theme: Theme) -> None:
    u = theme.u
    style.font_size_base = theme.text
    style._next_frame_font_size_base = theme.text  # the current frame keeps its size
    style.font_scale_main = style.font_scale_dpi = 1.0
    for name, value in {
        "window_padding": (u(3), u(3)),
        "frame_padding": (u(2.5), u(1.5)),
        "item_spacing": (u(2), u(2)),
        "item_inner_spacing": (u(1.5), u(1)),
        "cell_padding": (u(1.5), u(1)),
        "separator_text_padding": (0.0, u(1)),
    }.items():
        setattr(style, name, ImVec2(*value))
    for name in ("frame", "grab", "tab", "image", "selectable", "menu_item"):
        setattr(style, f"{name}_rounding", u(1.5))
    for name in ("window", "child", "popup"):
        setattr(style, f"{name}_rounding", theme.radius)
    style.indent_spacing = u(4)
    style.scrollbar_size = u(2.5)
    style.scrollbar_rounding = u(2)
    style.scrollbar_padding = u(0.5)
    style.grab_min_size = u(3)
    style.window_border_size = style.popup_border_size = u(0.25)
    style.frame_border_size = style.child_border_size = 0.0
    style.tab_border_size = style.tab_bar_border_size = 0.0
    style.tab_bar_overline_size = u(0.5)
    style.tab_min_width_shrink = u(400)  # a name is never cut: tabs without room are scrolled to
    style.docking_separator_size = u(0.25)
    style.separator_size = u(0.25)
    style.input_text_cursor_size = max(1.0, u(0.375))
    style.window_menu_button_position = imgui.Dir.none
    style.hover_delay_normal = 0.35
    style.circle_tessellation_max_error = 0.2


def _set_colors(style: Any, p: Palette) -> None:
    clear = (p.base, 0.0)
    colors: dict[str, tuple[int, float]] = {
        "text": (p.text, 1),
        "text_disabled": (p.muted, 1),
        "window_bg": (p.panel, 1),
        "child_bg": clear,
        "popup_bg": (p.raised, 1),
        "border": (p.border, 1),
        "border_shadow": clear,
        "frame_bg": (p.hover, 1),
        "frame_bg_hovered": (p.pressed, 1),
        "frame_bg_active": (p.pressed, 1),
        "title_bg": (p.sunken, 1),
        "title_bg_active": (p.sunken, 1),
        "title_bg_collapsed": (p.sunken, 1),
        "scrollbar_bg": clear,
        "scrollbar_grab": (p.faint, 0.45),
        "scrollbar_grab_hovered": (p.faint, 0.7),
        "scrollbar_grab_active": (p.faint, 0.9),
        "check_mark": (p.accent, 1),
        "slider_grab": (p.accent, 1),
        "slider_grab_active": (p.accent_hover, 1),
        "button": (p.hover, 1),
        "button_hovered": (p.pressed, 1),
        "button_active": (p.pressed, 1),
        "header": (p.accent_soft, 1),
        "header_hovered": (p.hover, 1),
        "header_active": (p.pressed, 1),
        "separator": (p.border, 1),
        "separator_hovered": (p.accent, 0.7),
        "separator_active": (p.accent, 1),
        "resize_grip": clear,
        "resize_grip_hovered": (p.accent, 0.5),
        "resize_grip_active": (p.accent, 1),
        "input_text_cursor": (p.text, 1),
        "tab": (p.sunken, 1),
        "tab_hovered": (p.hover, 1),
        "tab_selected": (p.panel, 1),
        "tab_dimmed": (p.sunken, 1),
        "tab_dimmed_selected": (p.panel, 1),
        "tab_selected_overline": (p.accent, 1),
        "tab_dimmed_selected_overline": (p.accent, 1),
        "docking_preview": (p.accent, 0.35),
        "docking_empty_bg": (p.base, 1),
        "plot_lines": (p.series[0], 1),
        "plot_histogram": (p.series[0], 1),
        "table_header_bg": (p.panel, 1),
        "table_border_strong": (p.border, 1),
        "table_border_light": (p.border, 1),
        "table_row_bg": clear,
        "table_row_bg_alt": (p.hover, 0.35),
        "text_link": (p.accent, 1),
        "text_selected_bg": (p.accent, 0.35),
        "nav_cursor": (p.link, 1),
        "modal_window_dim_bg": (0x000000, 0.4),
    }
    for name, (color, alpha) in colors.items():
        style.set_color_(getattr(imgui.Col_, name), vec(color, alpha))


def _set_plot(theme: Theme) -> None:
    style, p, u = implot.get_style(), theme.palette, theme.u
    style.plot_padding = ImVec2(u(1), u(1))
    style.label_padding = ImVec2(u(1), u(1))
    style.legend_padding = ImVec2(u(1), u(1))
    style.legend_inner_padding = ImVec2(u(2), u(1))
    style.plot_border_size = 0.0
    style.minor_alpha = 0.0
    style.plot_min_size = ImVec2(u(30), u(20))
    colors = {
        "frame_bg": (p.panel, 0.0),
        "plot_bg": (p.panel, 0.0),
        "plot_border": (p.border, 1.0),
        "legend_bg": (p.raised, 0.9),
        "legend_border": (p.border, 1.0),
        "legend_text": (p.muted, 1.0),
        "inlay_text": (p.muted, 1.0),
        "axis_text": (p.muted, 1.0),
        "axis_grid": (p.border, 1.0),
        "axis_bg": (p.panel, 0.0),
        "crosshairs": (p.muted, 0.6),
    }
    for name, (color, alpha) in colors.items():
        style.set_color_(getattr(implot.Col_, name), vec(color, alpha))
