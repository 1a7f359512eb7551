"""The colours of maps: a small panel to choose them, and the bar that explains them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.attention.colors import NAMES, stops
from llm_lite.desktop.features.attention.state import SINK, AttentionChoice
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.controls import chooser, slider, toggle
from llm_lite.desktop.widgets.head_maps import ColorScale, HeadMaps
from llm_lite.desktop.widgets.icons import ICON_COLORS, ICON_MAXIMIZE, ICON_MINIMIZE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, popover, text, tip

STEPS = 64  # pieces of a colour bar
WIDEST = "≤ 0.01%"  # number on a bar
GROUPS = mark(
    "Colours of attention probabilities, then of the lines under maps: heads of a group share "
    "their keys and values."
)
LOWEST = 1e-4  # value of the first colour of a logarithmic scale


def color_scale_of(choice: AttentionChoice, ui: Ui) -> ColorScale:
    return ColorScale(
        choice.colors, choice.logarithmic, LOWEST, choice.high, choice.exclude_first, is_light(ui)
    )


def is_light(ui: Ui) -> bool:
    """Return whether maps are drawn on light paper."""
    return ui.theme.palette.sunken & 0xFF > 0x7F


def redraw(state: AppState, ui: Ui, maps: HeadMaps) -> None:
    """Ask for frames while maps are incomplete: every frame at rest, seldom while the model
    writes."""
    if maps.pending:
        ui.redraw_in(0.1 if state.busy else 0.0)


def draw_scale(choice: AttentionChoice, ui: Ui, name: str) -> AttentionChoice:
    """Draw two buttons at the right end of the line: colours and scale, and the large view."""
    side = ui.u(7)
    imgui.same_line(ui.right(side * 2 + ui.u(1)))
    panel = f"{name}.look"
    if icon_button(ui, f"{panel}.open", ICON_COLORS, tr("Colours and scale"), side=side):
        ui.opened = panel
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    at = ImVec2(max(low.x - ui.u(60), ui.u(2)), high.y + ui.u(1))
    with popover(ui, panel, tr("Colours and scale"), at, ui.u(72)) as shown:
        if shown:
            choice = _draw_choices(choice, ui)
    imgui.same_line(0, ui.u(1))
    icon = ICON_MINIMIZE if choice.large else ICON_MAXIMIZE
    hint = tr("Back to the panels") if choice.large else tr("Fill the window")
    if icon_button(ui, f"{name}.large", icon, hint, side=side):
        choice = replace(choice, large=not choice.large)
    return choice


def _draw_choices(choice: AttentionChoice, ui: Ui) -> AttentionChoice:
    text(ui, tr("Colours"), style="small")
    names = [(name, name.capitalize()) for name in NAMES]
    colors = chooser(ui, "look.colors", names, choice.colors)
    draw_bar(replace(choice, colors=colors), ui, imgui.get_content_region_avail().x)
    text(ui, tr("Scale"), style="small")
    scales = [("linear", tr("Linear")), ("log", tr("Logarithmic"))]
    scale = chooser(ui, "look.scale", scales, "log" if choice.logarithmic else "linear")
    hint = tr("Probabilities from here on have the last colour.")
    top = slider(
        ui, "look.high", tr("Last colour from"), choice.high, (0.02, 1.0), hint=hint, log=True,
        shown=f"{choice.high:.0%}",
    )  # fmt: skip
    exclude = toggle(
        ui, "look.exclude", tr("Leave out the first token"), choice.exclude_first, tr(SINK)
    )
    return replace(
        choice, colors=colors, logarithmic=scale == "log", high=top, exclude_first=exclude
    )


def draw_bar(choice: AttentionChoice, ui: Ui, width: float) -> None:
    """Draw the colour bar with its numbers."""
    at = imgui.get_cursor_screen_pos()
    tall = draw_level_bar(choice, ui, at, width, imgui.get_window_draw_list())
    imgui.dummy(ImVec2(width, tall))
    ui.mark("attention.bar")


def draw_level_bar(
    choice: AttentionChoice, ui: Ui, at: ImVec2, width: float, draw: imgui.ImDrawList
) -> float:
    """Draw the bar from left to right, with the numbers and their meaning below, outside the flow;
    return its height."""
    height, small = ui.u(2), ui.theme.size("small")
    colors = stops(choice.colors, STEPS, is_light(ui))
    x, y, each = at.x, at.y, width / STEPS
    draw.add_rect_filled(at, ImVec2(x + width, y + height), ui.color("sunken"))
    for step, (left, right) in enumerate(pairwise(colors)):
        low, high = ImVec2(x + each * step, y), ImVec2(x + each * (step + 1), y + height)
        draw.add_rect_filled_multi_color(low, high, left, right, right, left)
    with ui.font(style="small"):
        for share, words in ticks(choice):
            size = imgui.calc_text_size(words).x
            x = at.x + min(max(share * width - size / 2, 0), width - size)
            spot = ImVec2(round(x), at.y + height + ui.u(0.5))
            draw.add_text(spot, ui.color("muted"), words)
        below = ImVec2(at.x, round(at.y + height + ui.u(1) + small))
        draw.add_text(below, ui.color("muted"), scale_words(choice))
    return height + 2 * small + ui.u(2)


def scale_words(choice: AttentionChoice) -> str:
    """Return what colours of maps stand for, and on which scale."""
    if choice.logarithmic:
        return tr("Attention weight, logarithmic")
    return tr("Attention weight, linear")


def bar_width(ui: Ui) -> float:
    """Return the room that the upright bar takes, its numbers included."""
    with ui.font(style="small"):
        return ui.u(3) + imgui.calc_text_size(WIDEST).x + ui.u(1)


def draw_upright_bar(
    choice: AttentionChoice, ui: Ui, at: ImVec2, height: float, draw: imgui.ImDrawList
) -> None:
    """Draw the colour bar beside maps, its largest value at the top, outside the flow. Its meaning
    stands below the maps, or above them."""
    width, small = ui.u(2), ui.theme.size("small")
    colors = reversed(stops(choice.colors, STEPS, is_light(ui)))
    x, y, each = at.x, at.y, height / STEPS
    draw.add_rect_filled(at, ImVec2(x + width, y + height), ui.color("sunken"))
    for step, (upper, lower) in enumerate(pairwise(colors)):
        low, high = ImVec2(x, y + each * step), ImVec2(x + width, y + each * (step + 1))
        draw.add_rect_filled_multi_color(low, high, upper, upper, lower, lower)
    with ui.font(style="small"):
        for share, words in spaced(ticks(choice), small / max(height, 1.0)):
            y = at.y + min(max((1 - share) * height - small / 2, 0), height - small)
            draw.add_text(ImVec2(at.x + width + ui.u(1), round(y)), ui.color("muted"), words)


def spaced(found: list[tuple[float, str]], least: float) -> list[tuple[float, str]]:
    """Keep both ends of an axis and, of the ticks between, those at least `least` apart."""
    first, last = found[0], found[-1]
    kept = [first]
    for tick in found[1:-1]:
        if tick[0] - kept[-1][0] >= least and last[0] - tick[0] >= least:
            kept.append(tick)
    return [*kept, last]


def ticks(choice: AttentionChoice) -> list[tuple[float, str]]:
    """Return places of numbers on the bar, from 0 to 1, and these numbers as text."""
    if not choice.logarithmic:
        found = [(i / 4, _percent(choice.high * i / 4)) for i in range(5)]
        return [*found[:-1], (1.0, top_words(choice))]
    decades = math.log10(choice.high / LOWEST)
    powers = range(round(math.log10(LOWEST)), math.floor(math.log10(choice.high) + 1e-9) + 1)
    found = [((p - math.log10(LOWEST)) / decades, _percent(10.0**p)) for p in powers]
    found[0] = (0.0, low_words(choice))
    if found[-1][0] < 0.85:
        found.append((1.0, top_words(choice)))
    elif found[-1][0] > 1 - 1e-6:
        found[-1] = (1.0, top_words(choice))
    return found


def top_words(choice: AttentionChoice) -> str:
    """Return the value of the last colour: larger values have it too."""
    return _percent(choice.high) if choice.high >= 1 else f"≥ {_percent(choice.high)}"


def low_words(choice: AttentionChoice) -> str:
    """Return the value of the first colour."""
    return f"≤ {_percent(LOWEST)}" if choice.logarithmic else "0%"


def draw_key(
    choice: AttentionChoice, ui: Ui, groups: Sequence[int], width: float, hatched: bool = False
) -> None:
    """Draw in small text what the colours of maps stand for, between their ends; then what hatched
    rows are, and the colours of the groups of heads, on a second line where one has no room."""
    small, bar, gap = ui.theme.size("small"), ui.u(20), ui.u(1.5)
    low, high, name = low_words(choice), top_words(choice), scale_words(choice)
    with ui.font(style="small"):
        measure = imgui.calc_text_size
        widths = [measure(words).x for words in (name, low, high)]
        scale = sum(widths) + bar + 3 * gap
        signs = _signs_width(ui, groups, hatched)
        at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
        x, y, color = at.x, at.y, ui.color("muted")
        draw.add_text(ImVec2(x, y), color, fit(name, width))
        x += widths[0] + gap
        if scale > width:
            x, y, scale = at.x, y + small + ui.u(1), scale - widths[0] - gap
        draw.add_text(ImVec2(x, y), color, low)
        x += widths[1] + gap
        draw_ramp(choice, ui, (x, y + ui.u(0.75)), bar, small - ui.u(0.75))
        x += bar + gap
        draw.add_text(ImVec2(x, y), color, high)
        x += widths[2] + ui.u(5)
        if signs and scale + ui.u(5) + signs > width:
            x, y = at.x, y + small + ui.u(1)
        if hatched:
            x = _draw_hatched(ui, x, y)
        _draw_groups(ui, groups, (x, y), at.x + width)
    imgui.dummy(ImVec2(width, y - at.y + small))
    ui.mark("attention.key")
    tip(ui, tr(GROUPS) if groups else tr("The colour of an attention probability."))


def draw_ramp(
    choice: AttentionChoice, ui: Ui, at: tuple[float, float], width: float, height: float
) -> None:
    """Draw the colours of a scale from left to right."""
    colors, each = stops(choice.colors, STEPS, is_light(ui)), width / STEPS
    draw, (x, y) = imgui.get_window_draw_list(), at
    draw.add_rect_filled(ImVec2(x, y), ImVec2(x + width, y + height), ui.color("sunken"))
    for step, (left, right) in enumerate(pairwise(colors)):
        low, high = ImVec2(x + each * step, y), ImVec2(x + each * (step + 1), y + height)
        draw.add_rect_filled_multi_color(low, high, left, right, right, left)


def _signs_width(ui: Ui, groups: Sequence[int], hatched: bool) -> float:
    """Return the width of what `_draw_hatched` and `_draw_groups` draw, in the current font."""
    measure, gap = imgui.calc_text_size, ui.u(1)
    width = ui.u(3 + 1 + 5) + measure(tr("not computed")).x if hatched else 0.0
    if groups:
        width += measure(tr("Group")).x + 2 * gap
        width += sum(ui.u(3) + 3 * gap + measure(str(group)).x for group in groups)
    return width


def _draw_hatched(ui: Ui, x: float, y: float) -> float:
    """Draw an example of rows without a value; return where the next thing goes."""
    draw, small, side, words = (
        imgui.get_window_draw_list(),
        ui.theme.size("small"),
        ui.u(3),
        tr("not computed"),
    )
    low = ImVec2(x, y + (small - side) / 2 + ui.u(0.25))
    high = ImVec2(x + side, low.y + side)
    draw.add_rect_filled(low, high, ui.color("sunken"))
    color = ui.color("faint")
    for at in (0.5, 1.0):
        draw.add_line(ImVec2(x, low.y + side * at), ImVec2(x + side * at, low.y), color, 1.0)
    draw.add_line(ImVec2(x + side / 2, high.y), ImVec2(high.x, low.y + side / 2), color, 1.0)
    draw.add_text(ImVec2(high.x + ui.u(1), y), ui.color("muted"), words)
    return high.x + ui.u(1) + imgui.calc_text_size(words).x + ui.u(5)


def _draw_groups(ui: Ui, groups: Sequence[int], at: tuple[float, float], right: float) -> None:
    """Draw a line in the colour of each group, as under its heads, with its number."""
    draw, small, color = imgui.get_window_draw_list(), ui.theme.size("small"), ui.color("muted")
    x, y, side, gap = at[0], at[1], ui.u(3), ui.u(1)
    words = tr("Group") if groups else ""
    if x + imgui.calc_text_size(words).x > right:
        return
    draw.add_text(ImVec2(x, y), color, words)
    x += imgui.calc_text_size(words).x + 2 * gap
    for group in groups:
        wide = side + gap + imgui.calc_text_size(str(group)).x
        if x + wide > right:
            return
        low = ImVec2(x, y + small / 2)
        high = ImVec2(x + side, low.y + max(2.0, ui.u(0.5)))
        draw.add_rect_filled(low, high, ui.color_of_series(group))
        draw.add_text(ImVec2(x + side + gap, y), color, str(group))
        x += wide + 2 * gap


def _percent(value: float) -> str:
    percent = value * 100
    return f"{percent:.3g}%" if percent >= 10 or percent == 0 else f"{percent:.2g}%"
