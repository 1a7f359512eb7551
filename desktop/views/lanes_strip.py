"""How far two lanes are apart at every token of what A said: a strip, and the details of one."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from core.messages import Alternative
from desktop.quant_state import Comparison
from desktop.ui import Ui
from desktop.views.attention_map import visible
from desktop.widgets import fit, help_mark, text

LOWEST, HIGHEST = 1e-6, 10.0  # nats: the ends of the scale
TICKS = ((1e-4, "0.0001"), (1e-2, "0.01"), (1.0, "1"))
FIRST_TINT = 0.01  # nats from which a token's background is tinted
ABOUT = (
    "KL(A ‖ B) in nats, on a scale of powers of ten, of the distribution each of A's tokens came "
    "from; both lanes have read A's answer up to there. 0: the same. 0.01: hardly to be noticed. "
    "1: B would rather have said something else."
)


def strip_height(ui: Ui) -> float:
    return ui.theme.size("small") + ui.u(3) + ui.u(16)


def share_of(kl: float) -> float:
    """0..1 on the strip's scale."""
    if kl <= LOWEST:
        return 0.0
    return min(1.0, math.log(kl / LOWEST) / math.log(HIGHEST / LOWEST))


def kl_color(ui: Ui, kl: float) -> int:
    """A tint behind a token: nothing below FIRST_TINT, the strongest at HIGHEST."""
    if kl < FIRST_TINT:
        return 0
    strength = math.log(kl / FIRST_TINT) / math.log(HIGHEST / FIRST_TINT)
    return ui.color("warning", 0.12 + 0.5 * min(1.0, strength))


def draw_strip(ui: Ui, comparison: Comparison) -> int | None:
    """A bar a token, with the title above; the token under the pointer."""
    _draw_title(ui, comparison)
    small = ui.theme.size("small")
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    with ui.font(style="small"):
        margin = imgui.calc_text_size(TICKS[0][1]).x + ui.u(2)
    width, height = imgui.get_content_region_avail().x - margin, ui.u(16)
    left, floor = at.x + margin, at.y + height
    for value, words in TICKS:
        y = floor - height * share_of(value)
        draw.add_line(ImVec2(left, y), ImVec2(left + width, y), ui.color("border"), 1.0)
        with ui.font(style="small"):
            wide = imgui.calc_text_size(words).x
        spot = ImVec2(left - wide - ui.u(1.5), round(y - small / 2))
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)
    imgui.dummy(ImVec2(width + margin, height))
    ui.rects["lanes.strip"] = (left, at.y, left + width, floor)
    count = max(len(comparison.answers[0].tokens), 1)
    pitch = min(width / count, ui.u(6))
    hovered = _hovered(left, at.y, pitch, height, len(comparison.forced))
    pointed = hovered if hovered is not None else ui.memory.get("lanes.pointed")
    _draw_bars(ui, comparison, (left, floor), (pitch, height), pointed)
    return hovered


def _draw_title(ui: Ui, comparison: Comparison) -> None:
    text(ui, "Divergence of B from A", style="small", bold=True)
    help_mark(ui, ABOUT)
    words = summary(comparison)
    with ui.font(style="small"):
        right = ui.right(imgui.calc_text_size(words).x)
    imgui.same_line(right)
    text(ui, words, "muted", "small")


def summary(comparison: Comparison) -> str:
    parting, forced = comparison.parting, comparison.forced
    answers = comparison.answers
    if parting is not None:
        words = f"they part at token {parting + 1}"
    elif all(answer.stop_reason for answer in answers):
        words = "the same, token for token"
    else:
        words = "the same so far" if answers[0].tokens else ""
    if not forced:
        return words
    mean = sum(token.kl for token in forced) / len(forced)
    return f"{words}  ·  mean {nats(mean)}  ·  largest {nats(max(t.kl for t in forced))}"


def nats(value: float) -> str:
    if value < LOWEST:
        return "0" if value == 0 else "< 1e-6"
    return f"{value:.2g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")


def _hovered(x: float, y: float, pitch: float, height: float, count: int) -> int | None:
    mouse = imgui.get_mouse_pos()
    if not imgui.is_window_hovered() or not y <= mouse.y < y + height:
        return None
    token = int((mouse.x - x) // pitch)
    return token if 0 <= token < count else None


def _draw_bars(
    ui: Ui,
    comparison: Comparison,
    corner: tuple[float, float],
    size: tuple[float, float],
    pointed: int | None,
) -> None:
    draw, (left, floor), (pitch, height) = imgui.get_window_draw_list(), corner, size
    gap = ui.u(0.25) if pitch >= ui.u(1.5) else 0.0
    for number, token in enumerate(comparison.forced):
        x = left + number * pitch
        top = floor - max(height * share_of(token.kl), 1.0)
        color = "text" if number == pointed else "warning"
        if number == comparison.parting:
            color = "accent" if number != pointed else "text"
        draw.add_rect_filled(ImVec2(x, top), ImVec2(x + pitch - gap, floor), ui.color(color))
    if comparison.parting is not None and comparison.parting < len(comparison.answers[0].tokens):
        x = left + comparison.parting * pitch + (pitch - gap) / 2
        low, high = ImVec2(x, floor - height), ImVec2(x, floor)
        draw.add_line(low, high, ui.color("accent"), max(1.0, ui.u(0.3)))


def draw_details(ui: Ui, comparison: Comparison, number: int) -> None:
    """What both thought of a token, beside the pointer."""
    token, said = comparison.forced[number], comparison.answers[0].tokens[number]
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    text(ui, f"“{visible(said.text)}”", bold=True)
    a, b = token.probabilities
    change = 100 * (b - a)
    text(ui, f"token {number + 1}  ·  KL {nats(token.kl)} nats", "muted", "small")
    text(ui, f"A {a:.1%}  ·  B {b:.1%}  ·  {change:+.1f} points", "muted", "small")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if imgui.begin_table("details", 2, 0, ImVec2(ui.u(96), 0)):
        for lane, best in enumerate(token.alternatives):
            imgui.table_next_column()
            text(ui, f"{'AB'[lane]} would say", "muted", "small")
            for other in best:
                _draw_row(ui, other, other.token == said.id)
        imgui.end_table()
    imgui.end_tooltip()


def _draw_row(ui: Ui, other: Alternative, chosen: bool) -> None:
    """A token on a bar as long as it is likely."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, ui.u(5.5)
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1))
    bar = ImVec2(at.x + max(width * other.probability, ui.u(1)), end.y)
    draw.add_rect_filled(at, bar, ui.color("accent_soft"), ui.u(1))
    shown = f"{other.probability:.1%}"
    with ui.font("bold" if chosen else "regular", "small"):
        y = round(at.y + (height - ui.theme.size("small")) / 2)
        wide = imgui.calc_text_size(shown).x
        words = fit(visible(other.text), width - wide - ui.u(5))
        draw.add_text(ImVec2(at.x + ui.u(1.5), y), ui.color("text"), words)
        draw.add_text(ImVec2(end.x - wide - ui.u(1.5), y), ui.color("muted"), shown)
    imgui.dummy(ImVec2(width, height))
