"""How fast: tokens a second over time, what a step takes, and how long frames of this window do."""

from __future__ import annotations

import numpy as np
from imgui_bundle import ImVec2, imgui, implot

from llm_lite.core.messages import GenerationStats
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.maps import HeadMaps
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import duration, percent, rate, size, tokens
from llm_lite.desktop.views.encoding.no_writing import STEPS
from llm_lite.desktop.views.program import drafting, kernel_study, rate_plot
from llm_lite.desktop.views.quantization import step_profile
from llm_lite.desktop.views.remote.untold import STEP, draw_untold
from llm_lite.desktop.views.translating.measures import target_facts
from llm_lite.desktop.widgets.plots.axes import Axis, from_zero, line_spec, plot, series
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import facts, heading, text, wrapped

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
TOKEN_TIME = mark(
    "From one token to the next: the model's steps, and between them sampling, what looks inside, "
    "and the window, which may draw on the same device."
)


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
    note = tr("From the first token of an answer to its last.")
    heading(ui, tr("Tokens a second"), note)
    points = state.rates
    if points:
        rate_plot.draw_rates(state, ui, points)
    elif state.last_stats is None or state.writes_targets:
        nothing = tr("Nothing was measured yet: ask something.")
        if state.writes_targets:
            nothing = tr("Nothing was measured yet: write a target.")
        wrapped(ui, tr("Measuring.") if state.busy else nothing)
        if not state.busy:
            wrapped(ui, tr(TEACHES), "faint")
    (_draw_target if state.writes_targets else _draw_stats)(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    if points and not state.elsewhere:  # a server's steps are not told
        heading(ui, tr("Time of a token"), tr(TOKEN_TIME))
        rate_plot.draw_token_times(state, ui, points)
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
    limit = rate_plot.limit(state)
    passes = stats.decode_tok_s * stats.pass_share  # a second
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
    numbers = np.arange(-values.size + 1, 1, dtype=np.float64)
    color = series(ui, 1)
    x = Axis(tr("Frame"), tr("0 is the newest"), limits=(float(numbers[0]), 0.0))
    y = from_zero(tr("Time"), "ms", float(values.max()))
    with plot(ui, "performance.frames", x, y) as shown:
        if shown:
            implot.plot_shaded("frame", numbers, values, 0.0, line_spec(ui, color, fill=0.12))
            implot.plot_line("frame", numbers, values, line_spec(ui, color))
    p = ui.frames.percentiles()
    told = "  ·  ".join(f"{name} {p[name]:.1f} ms" for name in ("p50", "p95", "p99"))
    hint = tr(
        "Half, 95 % and 99 % of the frames took at most this long. 33 ms is 30 frames a second."
    )
    facts(ui, "frames", [(tr("Percentiles"), told, hint)])
