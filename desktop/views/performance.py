"""How fast: tokens a second over time, what a step takes, and how long frames of this window do."""

from __future__ import annotations

import numpy as np
from imgui_bundle import ImVec2, ImVec4, imgui, implot

from desktop.actions import Action
from desktop.state import AppState, RateSample
from desktop.theme import vec
from desktop.ui import Ui
from desktop.units import duration, rate, size, tokens
from desktop.views import step_profile
from desktop.widgets import facts, heading, wrapped

PAUSE = 0.4  # seconds without a token that end a line of the plot
BARE = implot.AxisFlags_.no_highlight | implot.AxisFlags_.no_side_switch


def draw(state: AppState, ui: Ui) -> list[Action]:
    heading(ui, "Tokens a second", "Live, from the arrival of each token at the window.")
    points = [sample for sample in state.rates if sample.phase == "decode"]
    if len(points) > 1:
        _draw_rates(ui, points)
    elif state.last_stats is None:
        wrapped(ui, "Measuring." if state.busy else "Nothing was measured yet: ask something.")
    _draw_stats(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    actions = step_profile.draw(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    heading(ui, "Frame time", "Milliseconds from input to submit, for the frames that were drawn.")
    _draw_frames(ui)
    return actions


def _spec(ui: Ui, series: int, fill: float = 0.0) -> implot.Spec:
    spec = implot.Spec()
    color: ImVec4 = vec(ui.theme.palette.series[series])
    spec.line_color = color
    spec.line_weight = max(1.0, ui.u(0.4))
    spec.fill_color = color
    spec.fill_alpha = fill
    return spec


def _begin(ui: Ui, name: str, x: str, y: str, *, ticks: bool = True) -> bool:
    flags = implot.Flags_.no_legend | implot.Flags_.no_mouse_text | implot.Flags_.no_menus
    height = ui.u(30)
    if not implot.begin_plot(name, ImVec2(-1, height), flags | implot.Flags_.no_inputs):
        return False
    fit = implot.AxisFlags_.auto_fit
    bare = BARE if ticks else BARE | implot.AxisFlags_.no_tick_labels
    implot.setup_axes(x, y, bare | fit | implot.AxisFlags_.no_grid_lines, BARE)
    return True


def _draw_rates(ui: Ui, points: list[RateSample]) -> None:
    """Answers stand side by side, a line each; most of the time between them is left out."""
    rates = np.array([p.rate for p in points], np.float64)
    steps = np.diff(np.array([p.time for p in points]), prepend=points[0].time)
    times = np.cumsum(np.minimum(steps, PAUSE))
    starts = np.flatnonzero(steps >= PAUSE)
    with ui.font(style="small"):
        if _begin(ui, "##rates", "seconds", "tok/s"):
            implot.setup_axis_limits(implot.ImAxis_.y1, 0, rates.max() * 1.15, imgui.Cond_.always)
            for answer in np.split(np.arange(len(points)), starts):
                x, y = times[answer], rates[answer]
                implot.plot_shaded("rate", x, y, 0.0, _spec(ui, 0, 0.12))
                implot.plot_line("rate", x, y, _spec(ui, 0))
            implot.end_plot()
    ui.mark("performance.rates")


def _draw_stats(state: AppState, ui: Ui) -> None:
    stats = state.last_stats
    if stats is None:
        return
    read = stats.prompt_tokens - stats.reused_tokens
    facts(
        ui,
        "stats",
        [
            (
                "Prompt",
                f"{tokens(read)} at {rate(stats.prefill_tok_s)} tok/s",
                f"{stats.reused_tokens} of {stats.prompt_tokens} tokens were still in the cache.",
            ),
            ("Answer", f"{tokens(stats.new_tokens)} at {rate(stats.decode_tok_s)} tok/s", ""),
            ("First token", duration(stats.ttft_ms), "From sending to the first token."),
            ("Peak memory", size(stats.peak_rss_bytes), "The most this program has held in RAM."),
        ],
    )


def _draw_frames(ui: Ui) -> None:
    values = ui.frames.values().astype(np.float64)
    if values.size < 2:
        wrapped(ui, "No frames yet.")
        return
    numbers = np.arange(values.size, dtype=np.float64)
    top = max(float(np.percentile(values, 99)) * 1.3, 20.0)
    with ui.font(style="small"):
        if _begin(ui, "##frames", "the last is on the right", "ms", ticks=False):
            implot.setup_axis_limits(implot.ImAxis_.y1, 0, top, imgui.Cond_.always)
            implot.plot_shaded("frame", numbers, values, 0.0, _spec(ui, 1, 0.12))
            implot.plot_line("frame", numbers, values, _spec(ui, 1))
            implot.end_plot()
    ui.mark("performance.frames")
    p = ui.frames.percentiles()
    shown = "  ·  ".join(f"{name} {p[name]:.1f} ms" for name in ("p50", "p95", "p99"))
    hint = "Half, 95 % and 99 % of the frames took at most this long. 33 ms is 30 frames a second."
    facts(ui, "frames", [("Percentiles", shown, hint)])
