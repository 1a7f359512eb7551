"""The panel of speed: tokens a second over time, drafts, the times of a step and of a frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from imgui_bundle import ImVec2, imgui, implot
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.messages import GenerationStats
from llm_lite.desktop.features.encoder.reasons import NO_STEPS
from llm_lite.desktop.features.performance import kernel_study
from llm_lite.desktop.features.performance.model import by_source, gain
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization import step_account, step_profile
from llm_lite.desktop.features.quantization.state import RateSample
from llm_lite.desktop.features.remote.view import NO_STEP_TIMES, draw_unreported
from llm_lite.desktop.features.translator.model import target_facts
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import duration, percent, rate, size, tokens
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.plots.axes import (
    Axis,
    from_zero,
    line_spec,
    plot,
    point_spec,
    series,
)
from llm_lite.desktop.widgets.plots.legend import LegendEntry, draw_legend
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import facts, heading, text, wrapped

ACCEPTED_HINT = mark(
    "Drafted tokens that the model accepted. The answer is the same as without drafts."
)
SOURCES_HINT = mark(
    "Repeats are looked up in the text first, then in what was learned from "
    "earlier answers; a draft model, if one is chosen, drafts the rest while that"
    " is faster."
)
PASSES_HINT = mark("Over all weights, for the tokens behind the first one.")
SAVED_HINT = mark("Against a pass for each token, as long as such a pass took.")
CURVE = mark(
    "What a pass over the weights takes by how many tokens it computes, measured while answers "
    "were written."
)
NONE = mark("Nothing was drafted: the text has not repeated itself, or drafts would not have paid.")
TICKS = (1, 2, 4, 8, 16, 32)  # tokens; no pass has more
Floats = NDArray[np.float64]
GAP = 0.02  # of all that is shown, between two answers
RATE, PLOT_STEP = 0, 2  # colours of the theme's series
PARTING = 0.4  # opacity of the line between two answers: there may be many
PACE_HINT = mark(
    "Of the last answer: the mean time from one token to the next, and how much of it the model's "
    "steps took. With drafts a step may bring several tokens."
)
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


class Strips(Struct, frozen=True):
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


class TokenPace(Struct, frozen=True):
    """Milliseconds of a token in the mean, and of the model's steps for it."""

    token_ms: float
    step_ms: float

    @property
    def rest_ms(self) -> float:
        return max(self.token_ms - self.step_ms, 0.0)


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_encoding(state, ui) if state.encodes else _draw_writing(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    note = tr("Milliseconds from input to submit, for the frames that were drawn.")
    heading(ui, tr("Frame time"), note)
    _draw_frames(ui)
    return actions


def _draw_encoding(state: AppState, ui: Ui) -> list[Action]:
    wrapped(ui, tr(NO_STEPS))
    imgui.dummy(ImVec2(0, ui.u(2)))
    return kernel_study.draw(state, ui)


def _draw_writing(state: AppState, ui: Ui) -> list[Action]:
    """Draw how fast texts are written, and where the time of a step goes."""
    note = tr("From the first token of an answer to its last.")
    heading(ui, tr("Tokens a second"), note)
    points = state.rates
    if points:
        draw_rates(state, ui, points)
    elif state.last_stats is None or state.writes_targets:
        nothing = tr("Nothing was measured yet: ask something.")
        if state.writes_targets:
            nothing = tr("Nothing was measured yet: write a target.")
        wrapped(ui, tr("Measuring.") if state.busy else nothing)
        if not state.busy:
            wrapped(ui, tr(TEACHES), "faint")
    (_draw_target if state.writes_targets else _draw_stats)(state, ui)
    imgui.dummy(ImVec2(0, ui.u(2)))
    if points and not state.elsewhere:  # a server does not report its steps
        heading(ui, tr("Time of a token"), tr(TOKEN_TIME))
        draw_token_times(state, ui, points)
        imgui.dummy(ImVec2(0, ui.u(2)))
    actions: list[Action] = []
    if state.elsewhere:
        draw_unreported(state, ui, NO_STEP_TIMES)
    else:
        if not state.writes_targets:
            _draw_drafts(state, ui)
        actions = step_profile.draw(state, ui)
        actions += step_account.draw(state, ui)
        imgui.dummy(ImVec2(0, ui.u(2)))
        actions += kernel_study.draw(state, ui)
    return actions


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


def limit(state: AppState) -> float:
    """Return the tokens a second that reading the bytes of a token as fast as memory was measured
    would allow; 0 where that is not known."""
    profile, stats = state.quantization.profile, state.last_stats
    if profile is None or stats is None or state.executor is None:
        return 0.0
    if profile.device != state.executor.device or not stats.read_bytes:
        return 0.0
    return 1e9 * profile.memory_gb_s / stats.read_bytes


def draw_token_times(state: AppState, ui: Ui, points: Sequence[RateSample]) -> None:
    """Draw the time from token to token as a line, and as an area the model's part of it."""
    whole = np.array([p.token_ms for p in points], np.float64)
    steps = np.minimum(np.array([p.token_step_ms for p in points], np.float64), whole)
    strips = Strips.of(points)
    y = from_zero(tr("Time of a token"), "ms", float(whole.max()))
    with plot(ui, "performance.steps", _seconds(), y) as shown:
        if shown:
            _plot_steps(ui, points, strips, steps, series(ui, PLOT_STEP), 0.5, weight=0.0)
            _plot_steps(ui, points, strips, whole, series(ui, RATE), 0.0)
            _plot_parting(ui, strips)
    entries = [
        LegendEntry(ui.color_of_series(RATE), tr("from token to token"), "line"),
        LegendEntry(ui.color_of_series(PLOT_STEP), tr("of it the model's steps")),
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


def one_ms(taken: float) -> str:
    """Format milliseconds to a tenth, as "10.9 ms"."""
    return f"{taken:.1f} ms"


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
    if result is not None:
        facts(ui, "stats", target_facts(result.stats))


def _instruments(stats: GenerationStats, maps: HeadMaps | None) -> str:
    """Return how much of the answer's time inspection took, and of a frame the attention maps."""
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
    """Return the bytes a second that the answer's passes read, and their share of a plain read."""
    if not stats.read_bytes:
        return "–"
    most = limit(state)
    passes = stats.decode_tok_s * stats.pass_share  # a second
    shown = f"{stats.read_bytes * passes / 1e9:.1f} GB/s"
    if most:
        part = tr("{percent:.0f} % of a plain read")
        shown += f", {part.format(percent=100 * passes / most)}"
    return shown


def _draw_drafts(state: AppState, ui: Ui) -> None:
    """Draw what drafts did for the last answer, if it was written with drafts on."""
    stats = state.last_stats
    if stats is None or not stats.pass_ms:
        return
    heading(ui, tr("Drafts"), tr(CURVE))
    if len(stats.pass_ms) > 1:
        _draw_pass_times(ui, stats)
    if not stats.drafted:
        wrapped(ui, tr(NONE), "muted")
    else:
        _draw_draft_facts(ui, stats)
    imgui.dummy(ImVec2(0, ui.u(2)))


def _draw_pass_times(ui: Ui, stats: GenerationStats) -> None:
    sizes = np.array([n for n, _ in stats.pass_ms], np.float64)
    taken = np.array([ms for _, ms in stats.pass_ms], np.float64)
    last, top = float(sizes[-1]), float(taken.max())
    ticks = tuple(float(n) for n in TICKS if n <= last)
    x = Axis(tr("Tokens of a pass"), limits=(0.5, last + 0.5), ticks=ticks)
    chosen = 1 + stats.drafted / stats.drafted_passes if stats.drafted_passes else 0.0
    palette, passes = ui.theme.palette, series(ui, 0)
    with plot(ui, "performance.passes", x, from_zero(tr("Time"), "ms", top)) as shown:
        if shown:
            ends, single = np.array([1.0, last]), float(taken[0])
            spec = line_spec(ui, palette.muted, weight=0.2)
            implot.plot_line("single", ends, single * ends, spec)
            implot.plot_line("passes", sizes, taken, point_spec(ui, passes))
            if chosen:
                spec = line_spec(ui, palette.good, weight=0.3)
                implot.plot_inf_lines("chosen", np.array([chosen]), spec)
    entries = [
        LegendEntry(u32(passes), tr("a pass"), "dot"),
        LegendEntry(u32(palette.muted), tr("a pass for each token"), "line"),
    ]
    if chosen:
        words = tr("chosen: {n:.1f} tokens").format(n=chosen)
        entries.append(LegendEntry(u32(palette.good), words, "upright"))
    draw_legend(ui, "performance.passes.legend", entries)


def _draw_draft_facts(ui: Ui, stats: GenerationStats) -> None:
    accepted = tr("{n} of {whole}, {share}").format(
        n=stats.accepted, whole=stats.drafted, share=percent(stats.accepted / stats.drafted)
    )
    passes = tr("{n} for {whole} tokens").format(
        n=stats.passes, whole=stats.passes + stats.accepted
    )
    facts(
        ui,
        "drafts",
        [
            (tr("Accepted"), accepted, tr(ACCEPTED_HINT)),
            *_source_facts(stats),
            (tr("Passes"), passes, tr(PASSES_HINT)),
            (tr("Time"), gain(stats), tr(SAVED_HINT)),
        ],
    )


def _source_facts(stats: GenerationStats) -> list[tuple[str, str, str]]:
    found = by_source(stats)
    return [(tr("Drafted by"), found, tr(SOURCES_HINT))] if found else []


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
    summary = "  ·  ".join(f"{name} {p[name]:.1f} ms" for name in ("p50", "p95", "p99"))
    hint = tr(
        "Half, 95 % and 99 % of the frames took at most this long. 33 ms is 30 frames a second."
    )
    facts(ui, "frames", [(tr("Percentiles"), summary, hint)])
