"""The divergence of two runs at each token of A's answer: strips, and the details of a token."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import Alternative
from llm_lite.desktop.features.quantization.state import RunComparison
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import signed
from llm_lite.desktop.widgets.plots.axes import Axis
from llm_lite.desktop.widgets.plots.legend import LegendEntry, draw_legend, legend_height
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, help_mark, text, tip

LOWEST, HIGHEST = 1e-4, 10.0  # nats: the ends of the scale
TICKS = ((1e-3, "0.001"), (1e-2, "0.01"), (0.1, "0.1"), (1.0, "1"))
TALLEST = 2.5
NEARLY_NONE = 1e-6  # nats that are not written out
FIRST_TINT = 0.01  # nats from which a token's background is tinted
SPANS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # of probability: the largest change on the scale
KL_TITLE = mark("Divergence of B from A")
KL_ABOUT = mark(
    "KL(A ‖ B) of the distribution each of A's tokens came from; both runs have read A's answer up "
    "to there. 0: the same. 0.01: hardly to be noticed. 1: B would rather have said something "
    "else. The mean is over all tokens of A's answer. Where two tokens are about as likely, a "
    "small divergence is enough for another text."
)
CHANGE_TITLE = mark("Change of the probability of A's token")
CHANGE_ABOUT = mark(
    "Both having read A's answer up to there. Up: B finds what A said likelier than A does. Down: "
    "less likely."
)
TICK = 0.75  # height of a mark, in spacing units


def strip_height(ui: Ui) -> float:
    spacing, small = imgui.get_style().item_spacing.y, ui.theme.size("small")
    titles = 2 * (small + spacing)
    legend = legend_height(ui, legend_of(ui), imgui.get_content_region_avail().x) + spacing
    return titles + _kl_height(ui) + _change_height(ui) + 2 * spacing + small + legend


def legend_of(ui: Ui) -> list[LegendEntry]:
    """List the colours of the strips and of the texts above them."""
    return [
        LegendEntry(ui.color("warning"), tr("KL of a token, and behind A's tokens")),
        LegendEntry(ui.color("accent"), tr("first token that differs"), "upright"),
        LegendEntry(ui.color("pressed"), tr("B's own text from there on")),
        LegendEntry(ui.color("good"), tr("likelier for B")),
        LegendEntry(ui.color("error"), tr("less likely for B")),
    ]


def _kl_height(ui: Ui) -> float:
    return ui.u(20)


def _change_height(ui: Ui) -> float:
    return ui.u(11)


def share_of(kl: float) -> float:
    """Return the place of a divergence on the strip's scale, from 0 to 1."""
    if kl <= LOWEST:
        return 0.0
    return min(1.0, math.log(kl / LOWEST) / math.log(HIGHEST / LOWEST))


def kl_color(ui: Ui, kl: float) -> int:
    """Return the tint behind a token: none below FIRST_TINT, the strongest at HIGHEST."""
    if kl < FIRST_TINT:
        return 0
    strength = math.log(kl / FIRST_TINT) / math.log(HIGHEST / FIRST_TINT)
    return ui.color("warning", 0.08 + 0.6 * min(1.0, strength))


class PointedToken(Struct):
    """The token of A's answer under the pointer, in its text or on the strip."""

    number: int | None = None


class _Field(Struct, frozen=True):
    """The area in which bars are drawn; `pitch` from one to the next, pixels."""

    left: float
    top: float
    width: float
    height: float
    pitch: float
    pointed: int | None

    @property
    def floor(self) -> float:
        return self.top + self.height

    @property
    def gap(self) -> float:
        return max(1.0, self.pitch / 12) if self.pitch >= 5 else 0.0


def taller(ui: Ui, free: float) -> float:
    """Return the factor by which bars grow if so many pixels would stay empty."""
    return min(1.0 + max(free, 0.0) / (_kl_height(ui) + _change_height(ui)), TALLEST)


def draw_strip(ui: Ui, comparison: RunComparison, tall: float = 1.0) -> int | None:
    """Draw the divergence and below it the change of probability of each token; return the token
    that is pointed at. Strips are `tall` times as tall as they must be."""
    kl = [token.kl for token in comparison.forced]
    note = tr("measured once both have answered") if comparison.answers[0].tokens else ""
    if kl:
        note = trn(
            "mean of {n:,} token {mean} nats, largest {largest}",
            "mean of {n:,} tokens {mean} nats, largest {largest}",
            len(kl),
        )
        note = note.format(n=len(kl), mean=nats(sum(kl) / len(kl)), largest=nats(max(kl)))
    title = Axis(tr(KL_TITLE), tr("KL in nats"), logarithmic=True).title
    words = "  ·  ".join(filter(None, (summary(comparison), note)))
    _draw_title(ui, title, tr(KL_ABOUT), words)
    field = _field(ui, comparison, tall * _kl_height(ui))
    hovered = _hovered(field, len(comparison.forced))
    _draw_ticks(ui, field, [(words, share_of(value)) for value, words in TICKS])
    _draw_divergence(ui, comparison, field)
    imgui.dummy(ImVec2(field.width, field.height))
    changes = [token.probabilities[1] - token.probabilities[0] for token in comparison.forced]
    rms = math.sqrt(sum(change**2 for change in changes) / len(changes)) if changes else 0.0
    words = tr("RMS {rms:.2g} points").format(rms=100 * rms) if changes else ""
    title = Axis(tr(CHANGE_TITLE), tr("percentage points")).title
    _draw_title(ui, title, tr(CHANGE_ABOUT), words)
    below = _field(ui, comparison, tall * _change_height(ui))
    hovered = _hovered(below, len(changes)) if hovered is None else hovered
    _draw_changes(ui, changes, below)
    imgui.dummy(ImVec2(below.width, below.height))
    _draw_tokens(ui, below, len(comparison.answers[0].tokens))
    ui.rects["runs.strip"] = (field.left, field.top, field.left + field.width, below.floor)
    draw_legend(ui, "runs.legend", legend_of(ui))
    return hovered


def _field(ui: Ui, comparison: RunComparison, height: float) -> _Field:
    at = imgui.get_cursor_screen_pos()
    with ui.font(style="small"):
        margin = imgui.calc_text_size(TICKS[0][1]).x + ui.u(2)
    width = imgui.get_content_region_avail().x - margin
    count = max(len(comparison.answers[0].tokens), 1)
    pitch = min(width / count, ui.u(6))
    return _Field(at.x + margin, at.y, width, height, pitch, ui.local(PointedToken).number)


def _draw_title(ui: Ui, title: str, about: str, words: str) -> None:
    """Draw the strip's name with its unit and scale at the left, what it comes to at the right."""
    room = imgui.get_content_region_avail().x
    with ui.font("bold", "small"):
        title = fit(title, room - ui.u(8))
        room -= imgui.calc_text_size(title).x + ui.u(8)
    text(ui, title, style="small", bold=True)
    help_mark(ui, about)
    with ui.font(style="small"):
        shown = fit(words, max(room, 0.0))
        right = ui.right(imgui.calc_text_size(shown).x)
    imgui.same_line(right)
    text(ui, shown, "muted", "small")
    tip(ui, words if shown != words else "")


def _draw_ticks(ui: Ui, field: _Field, ticks: list[tuple[str, float]]) -> None:
    """Draw lines across, each at its share of the height from below."""
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    for words, share in ticks:
        y = field.floor - field.height * share
        low, high = ImVec2(field.left, y), ImVec2(field.left + field.width, y)
        draw.add_line(low, high, ui.color("border"), 1.0)
        with ui.font(style="small"):
            wide = imgui.calc_text_size(words).x
        top = min(max(y - small / 2, field.top - small / 4), field.floor - small)
        spot = ImVec2(field.left - wide - ui.u(1.5), round(top))
        draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)


def _draw_tokens(ui: Ui, field: _Field, count: int) -> None:
    """Draw numbers of tokens below the bars, and what they mean."""
    draw, small, color = imgui.get_window_draw_list(), ui.theme.size("small"), ui.color("muted")
    with ui.font(style="small"):
        name = tr("token of A's answer")
        end = field.left + field.width - imgui.calc_text_size(name).x
        draw.add_text(ImVec2(round(end), field.floor), ui.color("faint"), name)
        for number in numbers(count, ui.u(10) / field.pitch):
            words = f"{number:,}"
            middle = field.left + (number - 0.5) * field.pitch
            x = middle - imgui.calc_text_size(words).x / 2
            if x + imgui.calc_text_size(words).x < end - ui.u(1.5):
                draw.add_text(ImVec2(round(x), field.floor), color, words)
    imgui.dummy(ImVec2(field.width, small))


def numbers(count: int, least: float) -> list[int]:
    """Return 1 and the round numbers up to `count`, at least `least` apart."""
    step = next(n for n in (5, 10, 20, 50, 100, 200, 500, 1000) if n >= least or n == 1000)
    return [1, *range(step, count + 1, step)] if count else []


def summary(comparison: RunComparison) -> str:
    """Return whether the answers diverge, and where, in words; "" before that is known."""
    answers = comparison.answers
    parting = comparison.partings[0]
    if any(answer.stop_reason == "error" for answer in answers):
        return ""
    if parting is not None:
        return tr("diverge at token {n}").format(n=parting + 1)
    if all(answer.stop_reason for answer in answers) and comparison.elsewhere:
        return tr("the same text")
    if all(answer.stop_reason for answer in answers):
        return tr("the same, token for token")
    return tr("the same so far") if answers[0].tokens else ""


def nats(value: float) -> str:
    if value < NEARLY_NONE:
        return "0" if value == 0 else "< 1e-6"
    return f"{value:.2g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")


def _hovered(field: _Field, count: int) -> int | None:
    mouse = imgui.get_mouse_pos()
    if not imgui.is_window_hovered() or not field.top <= mouse.y < field.floor:
        return None
    token = int((mouse.x - field.left) // field.pitch)
    return token if 0 <= token < count else None


def _draw_divergence(ui: Ui, comparison: RunComparison, field: _Field) -> None:
    """Draw a mark at each token's divergence: on a logarithmic scale a bar would have no length."""
    draw, parting = imgui.get_window_draw_list(), comparison.parting
    for number, token in enumerate(comparison.forced):
        x, thick = field.left + number * field.pitch, max(2.0, ui.u(TICK))
        top = field.floor - max(field.height * share_of(token.kl), thick)
        color = "accent" if number == parting else "warning"
        color = "text" if number == field.pointed else color
        high = ImVec2(x + field.pitch - field.gap, top + thick)
        draw.add_rect_filled(ImVec2(x, top), high, ui.color(color))
        ui.rects[f"runs.bar.{number}"] = (x, field.top, x + field.pitch, field.floor)
    if parting is not None and parting < len(comparison.answers[0].tokens):
        x = field.left + parting * field.pitch + (field.pitch - field.gap) / 2
        low, high = ImVec2(x, field.top), ImVec2(x, field.floor)
        draw.add_line(low, high, ui.color("accent"), max(1.0, ui.u(0.3)))


def _draw_changes(ui: Ui, changes: list[float], field: _Field) -> None:
    """Draw a bar for each change, up or down from the middle."""
    span = span_of(changes)
    words = f"{100 * span:.0f}"
    ends = [(f"+{words}", 1.0), (f"−{words}", 0.0)] if changes else []  # else there is no scale
    _draw_ticks(ui, field, [("0", 0.5), *ends])
    draw, middle = imgui.get_window_draw_list(), field.top + field.height / 2
    for number, change in enumerate(changes):
        x = field.left + number * field.pitch
        y = middle - field.height / 2 * change / span
        y += math.copysign(max(0.0, 1.0 - abs(y - middle)), y - middle)  # one pixel at least
        color = "text" if number == field.pointed else "good" if change > 0 else "error"
        low, high = ImVec2(x, min(y, middle)), ImVec2(x + field.pitch - field.gap, max(y, middle))
        draw.add_rect_filled(low, high, ui.color(color))


def span_of(changes: list[float]) -> float:
    """Return the least of SPANS that holds all changes."""
    largest = max((abs(change) for change in changes), default=0.0)
    return next((span for span in SPANS if largest <= span), SPANS[-1])


def draw_details(ui: Ui, comparison: RunComparison, number: int) -> None:
    """Draw the probabilities of a token in both runs, beside the pointer."""
    token, chosen = comparison.forced[number], comparison.answers[0].tokens[number]
    strip, mouse = ui.rects.get("runs.strip"), imgui.get_mouse_pos()
    if strip is not None and mouse.y >= strip[1]:  # above the bars that it explains
        top = strip[1] - ui.theme.size("small") - imgui.get_style().item_spacing.y - ui.u(1)
        share = min(max((mouse.x - strip[0]) / max(strip[2] - strip[0], 1.0), 0.0), 1.0)
        imgui.set_next_window_pos(ImVec2(mouse.x, top), 0, ImVec2(share, 1.0))
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    text(ui, f"“{visible(chosen.text)}”", bold=True)
    a, b = token.probabilities
    change = 100 * (b - a)
    words = tr("token {n}  ·  KL {kl} nats").format(n=number + 1, kl=nats(token.kl))
    text(ui, words, "muted", "small")
    words = tr("A {a:.1%}  ·  B {b:.1%}  ·  {change} points")
    text(ui, words.format(a=a, b=b, change=signed(change, "+z.1f")), "muted", "small")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if imgui.begin_table("details", 2, imgui.TableFlags_.sizing_stretch_same, ImVec2(ui.u(96), 0)):
        for run, best in enumerate(token.alternatives):
            imgui.table_next_column()
            text(ui, tr("{run} would say").format(run="AB"[run]), "muted", "small")
            for other in best:
                _draw_row(ui, other, other.token == chosen.id)
        imgui.end_table()
    imgui.end_tooltip()


def _draw_row(ui: Ui, other: Alternative, chosen: bool) -> None:
    """Draw a token on a bar as long as it is likely."""
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
