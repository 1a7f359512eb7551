"""The plots of an answer's pace: tokens a second, and what the time of a token is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from imgui_bundle import implot
from numpy.typing import NDArray

from llm_lite.core.records import dataclass
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.quant_state import RateSample
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import percent, rate, size
from llm_lite.desktop.widgets.plots.axes import Axis, from_zero, line_spec, plot, series
from llm_lite.desktop.widgets.plots.legend import LegendEntry, draw_legend
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import facts

Floats = NDArray[np.float64]
GAP = 0.02  # of all that is shown, between two answers
RATE, STEP = 0, 2  # colours of the theme's series
PARTING = 0.4  # opacity of the line between two answers: there may be many
PACE_HINT = mark(
    "Of the last answer: the mean time from one token to the next, and how much of it the model's "
    "steps took. With drafts a step may bring several tokens."
)


def limit(state: AppState) -> float:
    """Return the tokens a second that reading the bytes of a token as fast as memory was measured
    would allow; 0 where that is not known."""
    profile, stats = state.quantization.profile, state.last_stats
    if profile is None or stats is None or state.executor is None:
        return 0.0
    if profile.device != state.executor.device or not stats.read_bytes:
        return 0.0
    return 1e9 * profile.memory_gb_s / stats.read_bytes


@dataclass(frozen=True, slots=True)
class Strips:
    """Spans of writing on an axis in seconds, without the time between two answers."""

    begins: Floats
    ends: Floats
    parting: tuple[float, ...]  # between two answers

    @classmethod
    def of(cls, points: Sequence[RateSample]) -> Strips:
        spans = np.array([p.time - p.begin for p in points], np.float64)
        answers = np.array([p.answer for p in points])
        first = np.diff(answers, prepend=answers[0]) != 0
        gap = GAP * float(spans.sum())
        ends = np.cumsum(spans + gap * first)
        begins = ends - spans
        return cls(begins, ends, tuple(float(at) - gap / 2 for at in begins[first]))


def draw_rates(state: AppState, ui: Ui, points: Sequence[RateSample]) -> None:
    rates = np.array([p.rate for p in points], np.float64)
    most, allowed = float(rates.max()), limit(state)
    x = _seconds()
    y = from_zero(tr("Speed"), "tok/s", max(most, allowed))  # drafts may pass the limit
    strips = Strips.of(points)
    with plot(ui, "performance.rates", x, y) as shown:
        if shown:
            _plot_steps(ui, points, strips, rates, series(ui, RATE), 0.12)
            _plot_parting(ui, strips)
            if allowed:
                spec = line_spec(ui, ui.theme.palette.muted, weight=0.25)
                ends = np.array([strips.begins[0], strips.ends[-1]])
                implot.plot_line("limit", ends, np.full(2, allowed), spec)
    entries = [LegendEntry(ui.color_of_series(RATE), tr("measured"), "line")]
    if allowed:
        assert state.last_stats is not None
        words = tr("memory allows {rate} tok/s: {read} a token").format(
            rate=rate(allowed), read=size(state.last_stats.read_bytes)
        )
        entries.append(LegendEntry(ui.color("muted"), words, "line"))
    draw_legend(ui, "performance.rates.legend", [*entries, *_next_answer(ui, strips)])


def draw_token_times(state: AppState, ui: Ui, points: Sequence[RateSample]) -> None:
    """Draw the time from token to token as a line, and as an area the model's part of it."""
    whole = np.array([p.token_ms for p in points], np.float64)
    steps = np.minimum(np.array([p.token_step_ms for p in points], np.float64), whole)
    strips = Strips.of(points)
    y = from_zero(tr("Time of a token"), "ms", float(whole.max()))
    with plot(ui, "performance.steps", _seconds(), y) as shown:
        if shown:
            _plot_steps(ui, points, strips, steps, series(ui, STEP), 0.5, weight=0.0)
            _plot_steps(ui, points, strips, whole, series(ui, RATE), 0.0)
            _plot_parting(ui, strips)
    entries = [
        LegendEntry(ui.color_of_series(RATE), tr("from token to token"), "line"),
        LegendEntry(ui.color_of_series(STEP), tr("of it the model's steps")),
    ]
    draw_legend(ui, "performance.steps.legend", [*entries, *_next_answer(ui, strips)])
    pace = pace_of(state)
    rows = [(tr("A token"), one_ms(pace.token_ms), tr(PACE_HINT))]
    if pace.step_ms:
        share = percent(pace.step_ms / pace.token_ms)
        words = tr("{time}, {share}").format(time=one_ms(pace.step_ms), share=share)
        rows.append((tr("Of it the model"), words, tr(PACE_HINT)))
        rows.append((tr("Between steps"), one_ms(pace.rest_ms), tr(PACE_HINT)))
    facts(ui, "steps", rows)


def one_ms(taken: float) -> str:
    """Milliseconds to a tenth: "10.9 ms"."""
    return f"{taken:.1f} ms"


@dataclass(frozen=True, slots=True)
class TokenPace:
    """Milliseconds of a token in the mean, and of the model's steps for it."""

    token_ms: float
    step_ms: float

    @property
    def rest_ms(self) -> float:
        return max(self.token_ms - self.step_ms, 0.0)


def pace_of(state: AppState) -> TokenPace:
    """Return the pace of the last answer. Once that has ended, its time of a token is that of its
    tokens a second."""
    points, stats = state.rates, state.last_stats
    own = [p for p in points if p.answer == points[-1].answer]
    count = sum(p.tokens for p in own)
    token_ms = 1e3 * sum(p.time - p.begin for p in own) / count
    if stats is not None and stats.decode_tok_s and not state.busy and not state.writes_targets:
        token_ms = 1e3 / stats.decode_tok_s
    return TokenPace(token_ms, min(sum(p.step_ms for p in own) / count, token_ms))


def _seconds() -> Axis:
    return Axis(tr("Time of decoding"), "s")


def _plot_steps(
    ui: Ui, points: Sequence[RateSample], strips: Strips, values: Floats, color: int, fill: float,
    weight: float = 0.4,
) -> None:  # fmt: skip
    """Draw a level line over each span of time and join the spans of an answer."""
    firsts = np.flatnonzero(np.diff(np.array([p.answer for p in points]))) + 1
    for answer in np.split(np.arange(len(points)), firsts):
        x = np.stack([strips.begins[answer], strips.ends[answer]], 1).ravel()
        y = np.repeat(values[answer], 2)
        if fill:
            implot.plot_shaded("values", x, y, 0.0, line_spec(ui, color, fill=fill))
        if weight:
            implot.plot_line("values", x, y, line_spec(ui, color, weight=weight))


def _plot_parting(ui: Ui, strips: Strips) -> None:
    if strips.parting:
        spec = line_spec(ui, ui.theme.palette.faint, weight=0.25, alpha=PARTING)
        implot.plot_inf_lines("answers", np.array(strips.parting), spec)


def _next_answer(ui: Ui, strips: Strips) -> list[LegendEntry]:
    if not strips.parting:
        return []
    color = ui.color("faint", PARTING)
    return [LegendEntry(color, tr("the next answer begins"), "upright")]
