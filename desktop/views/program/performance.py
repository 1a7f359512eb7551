"""How fast: tokens a second over time, what a step takes, and how long frames of this window do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from imgui_bundle import ImVec2, ImVec4, imgui, implot
from numpy.typing import NDArray

from llm_lite.core.messages import GenerationStats
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.maps import HeadMaps
from llm_lite.desktop.state.state import AppState, RateSample
from llm_lite.desktop.state.units import duration, percent, rate, size, tokens
from llm_lite.desktop.views.encoding.no_writing import STEPS
from llm_lite.desktop.views.program import drafting, kernel_study
from llm_lite.desktop.views.program.drafting import pass_share
from llm_lite.desktop.views.quantization import step_profile
from llm_lite.desktop.views.remote.untold import STEP, draw_untold
from llm_lite.desktop.views.translating.measures import target_facts
from llm_lite.desktop.widgets.frame_times import quantiles
from llm_lite.desktop.widgets.theme import vec
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import facts, heading, text, wrapped

Floats = NDArray[np.float64]
READ_HINT = mark(
    "Weights and cache that the tokens of the answer read, each second. A step that is measured "
    "below also measures how fast memory can be read at all."
)
INSTRUMENTS = mark(
    "What looking inside cost of the answer's time: lens, X-ray and measures of the cache are made "
    "between two tokens, maps of heads while frames are drawn. A closed panel asks for none of it."
)
TEACHES = mark(
    "A prompt is read many tokens at a time, as fast as there is arithmetic; an answer is written "
    "token by token, as fast as weights come out of memory."
)
BEFORE = mark("Of the answer before this one:")
GAP = 0.02  # of all that is shown, between two answers
BARE = implot.AxisFlags_.no_highlight | implot.AxisFlags_.no_side_switch


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_encoding(state, ui) if state.encodes else _draw_writing(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    note = tr("Milliseconds from input to submit, for the frames that were drawn.")
    heading(ui, tr("Frame time"), note)
    _draw_frames(ui)
    return actions


def _draw_encoding(state: AppState, ui: Ui) -> list[Action]:
    """Of an encoder: it has no steps whose time could be told."""
    wrapped(ui, tr(STEPS))
    imgui.dummy(ImVec2(0, ui.u(2)))
    return kernel_study.draw(state, ui)


def _draw_writing(state: AppState, ui: Ui) -> list[Action]:
    """How fast texts are written, and where the time of a step goes."""
    note = tr("From the first token of an answer to its last; a line separates two answers.")
    heading(ui, tr("Tokens a second"), note)
    points = state.rates
    if len(points) > 1:
        _draw_rates(state, ui, points, _limit(state))
    elif state.last_stats is None or state.writes_targets:
        nothing = tr("Nothing was measured yet: ask something.")
        if state.writes_targets:
            nothing = tr("Nothing was measured yet: write a target.")
        wrapped(ui, tr("Measuring.") if state.busy else nothing)
        if not state.busy:
            wrapped(ui, tr(TEACHES), "faint")
    (_draw_target if state.writes_targets else _draw_stats)(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    if len(points) > 1 and not state.elsewhere:  # a server's steps are not told
        note = tr("Milliseconds of the model's step for a token, nothing else.")
        heading(ui, tr("Engine time"), note)
        _draw_steps(ui, points)
        imgui.dummy(ImVec2(0, ui.u(2)))
    actions: list[Action] = []
    if state.elsewhere:
        draw_untold(state, ui, STEP)
    else:
        if not state.writes_targets:
            drafting.draw(state, ui)
        actions = step_profile.draw(state, ui)
        imgui.dummy(ImVec2(0, ui.u(2)))
        actions += kernel_study.draw(state, ui)
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


def _limit(state: AppState) -> float:
    """Tokens a second if the bytes of a token were read as fast as memory was measured; or 0."""
    profile, stats = state.quantization.profile, state.last_stats
    if profile is None or stats is None or state.executor is None:
        return 0.0
    if profile.device != state.executor.device or not stats.read_bytes:
        return 0.0
    return 1e9 * profile.memory_gb_s / stats.read_bytes


def _draw_rates(state: AppState, ui: Ui, points: Sequence[RateSample], limit: float) -> None:
    rates = np.array([p.rate for p in points], np.float64)
    with ui.font(style="small"):
        if _begin(ui, "##rates", tr("seconds of decoding"), "tok/s"):
            most = max(rates.max(), limit)  # drafts may bring more than the limit
            room = 1.4 if limit else 1.15  # for the limit's words, above both
            implot.setup_axis_limits(implot.ImAxis_.y1, 0, most * room, imgui.Cond_.always)
            times = _plot_answers(ui, points, rates, 0)
            if limit:
                _draw_limit(state, ui, times, limit, most)
            implot.end_plot()
    ui.mark("performance.rates")


def _draw_limit(state: AppState, ui: Ui, times: Floats, limit: float, most: float) -> None:
    """Where reading the weights and the cache once for each token would end; its words stand above
    `most`, the highest that is drawn."""
    assert state.last_stats is not None
    spec = implot.Spec()
    spec.line_color = vec(ui.theme.palette.muted)
    spec.line_weight = max(1.0, ui.u(0.25))
    implot.plot_line("limit", times[[0, -1]], np.full(2, limit), spec)
    above = ImVec2(0, -ui.u(2.5))
    middle = float(times[0] + times[-1]) / 2
    read = size(state.last_stats.read_bytes)
    words = tr("memory allows {rate} tok/s: {read} a token").format(rate=rate(limit), read=read)
    implot.plot_text(words, middle, most, above)


def _draw_steps(ui: Ui, points: Sequence[RateSample]) -> None:
    taken = np.array([p.step_ms for p in points], np.float64)
    low, middle, high, most = quantiles(taken, (0.05, 0.5, 0.95, 0.99))
    top = max(most * 1.3, 1.0)
    with ui.font(style="small"):
        if _begin(ui, "##steps", tr("seconds of decoding"), "ms"):
            implot.setup_axis_limits(implot.ImAxis_.y1, 0, top, imgui.Cond_.always)
            _plot_answers(ui, points, taken, 2)
            implot.end_plot()
    ui.mark("performance.steps")
    shown = tr("{middle:.1f} ms  ·  {low:.1f} to {high:.1f} ms")
    shown = shown.format(middle=middle, low=low, high=high)
    facts(ui, "steps", [(tr("A step"), shown, tr("The middle one, and where nine of ten lie."))])


def places(points: Sequence[RateSample]) -> tuple[Floats, list[float]]:
    """Where points stand on the axis, in seconds of writing, and where two answers part: answers
    stand side by side, without the time between them."""
    steps = np.diff(np.array([p.time for p in points]), prepend=points[0].time)
    begins = np.diff(np.array([p.answer for p in points]), prepend=points[0].answer) != 0
    steps[begins] = 0.0
    gap = GAP * float(steps.sum())
    times: Floats = np.cumsum(steps + gap * begins)
    return times, [float(at) - gap / 2 for at in times[begins]]


def _plot_answers(ui: Ui, points: Sequence[RateSample], values: Floats, series: int) -> Floats:
    """A line for each answer; the times on the axis, in seconds."""
    times, parting = places(points)
    firsts = np.flatnonzero(np.diff(np.array([p.answer for p in points]))) + 1
    for answer in np.split(np.arange(len(points)), firsts):
        x, y = times[answer], values[answer]
        implot.plot_shaded("values", x, y, 0.0, _spec(ui, series, 0.12))
        implot.plot_line("values", x, y, _spec(ui, series))
    if parting:
        spec = implot.Spec()
        spec.line_color = vec(ui.theme.palette.border)
        spec.line_weight = max(1.0, ui.u(0.25))
        implot.plot_inf_lines("answers", np.array(parting), spec)
    return times


def _draw_stats(state: AppState, ui: Ui) -> None:
    stats = state.last_stats
    if stats is None:
        return
    read = stats.prompt_tokens - stats.reused_tokens
    if state.busy:  # its own numbers come at its end; the status bar has some of them before
        text(ui, tr(BEFORE), "muted", "small")
        ui.mark("performance.before")
    pace = tr("{tokens} at {rate} tok/s")
    facts(
        ui,
        "stats",
        [
            (
                tr("Prompt"),
                pace.format(tokens=tokens(read), rate=rate(stats.prefill_tok_s)),
                tr("{n} of {whole} tokens were still in the cache.").format(
                    n=stats.reused_tokens, whole=stats.prompt_tokens
                ),
            ),
            (
                tr("Answer"),
                pace.format(tokens=tokens(stats.new_tokens), rate=rate(stats.decode_tok_s)),
                "",
            ),
            (tr("First token"), duration(stats.ttft_ms), tr("From sending to the first token.")),
            (tr("Instruments"), _instruments(stats, ui.maps), tr(INSTRUMENTS)),
            (tr("Memory"), _read_rate(state, stats), tr(READ_HINT)),
            (
                tr("Peak memory"),
                size(stats.peak_rss_bytes) if stats.peak_rss_bytes else "–",
                tr("The most this program has held in RAM."),
            ),
        ],
    )


def _draw_target(state: AppState, ui: Ui) -> None:
    result = state.translating.result
    if result is not None and not result.problem:
        facts(ui, "stats", target_facts(result.stats))


def _instruments(stats: GenerationStats, maps: HeadMaps | None) -> str:
    """What looking inside took of the answer's time between steps, and of the device's."""
    writing = 1e3 * (stats.new_tokens - 1) / stats.decode_tok_s if stats.decode_tok_s else 0.0
    parts = [tr("none")]
    if writing > 0 and stats.inspect_ms > 0:
        words = tr("{time}, {share}")
        share = percent(min(stats.inspect_ms / writing, 1.0))
        parts = [words.format(time=duration(max(stats.inspect_ms, 1.0)), share=share)]
    if maps is not None and maps.milliseconds > 0:
        each = tr("maps: {time:.1f} ms a frame").format(time=maps.milliseconds)
        parts = [each] if stats.inspect_ms <= 0 else [*parts, each]
    return "  ·  ".join(parts)


def _read_rate(state: AppState, stats: GenerationStats) -> str:
    """Bytes a second that the answer's passes read, and what that is of a plain read."""
    if not stats.read_bytes:
        return "–"
    limit = _limit(state)
    passes = stats.decode_tok_s * pass_share(stats)  # a second
    shown = f"{stats.read_bytes * passes / 1e9:.1f} GB/s"
    if limit:
        part = tr("{percent:.0f} % of a plain read")
        shown += f", {part.format(percent=100 * passes / limit)}"
    return shown


def _draw_frames(ui: Ui) -> None:
    values = ui.frames.values()
    if values.size < 2:
        wrapped(ui, tr("No frames yet."))
        return
    numbers = np.arange(values.size, dtype=np.float64)
    p = ui.frames.percentiles()
    top = max(p["p99"] * 1.3, 20.0)
    with ui.font(style="small"):
        if _begin(ui, "##frames", tr("the last is on the right"), "ms", ticks=False):
            implot.setup_axis_limits(implot.ImAxis_.y1, 0, top, imgui.Cond_.always)
            implot.plot_shaded("frame", numbers, values, 0.0, _spec(ui, 1, 0.12))
            implot.plot_line("frame", numbers, values, _spec(ui, 1))
            implot.end_plot()
    ui.mark("performance.frames")
    shown = "  ·  ".join(f"{name} {p[name]:.1f} ms" for name in ("p50", "p95", "p99"))
    hint = tr(
        "Half, 95 % and 99 % of the frames took at most this long. 33 ms is 30 frames a second."
    )
    facts(ui, "frames", [(tr("Percentiles"), shown, hint)])
