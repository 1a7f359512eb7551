"""What drafts brought: passes over the weights, how many guesses were right, and what T(n) is."""

from __future__ import annotations

import numpy as np
from imgui_bundle import ImVec2, imgui, implot

from llm_lite.core.messages import GenerationStats
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import duration, percent
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
from llm_lite.desktop.widgets.widgets import facts, heading, wrapped

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


def gain(stats: GenerationStats) -> str:
    """What drafts saved, or cost."""
    if stats.saved_ms < 0:
        return tr("{time} lost").format(time=duration(-stats.saved_ms))
    return tr("{time} saved").format(time=duration(stats.saved_ms))


SOURCES = {
    "lookup": mark("the text"),
    "ngrams": mark("earlier answers"),
    "model": mark("the draft model"),
    "slice": mark("a slice of the model"),
}


def by_source(stats: GenerationStats) -> str:
    """Of each source: tokens that came, of those it drafted."""
    parts = [
        tr("{n} of {whole} by {source}").format(
            n=one.accepted, whole=one.drafted, source=tr(SOURCES.get(one.source, one.source))
        )
        for one in stats.drafted_by
    ]
    return ", ".join(parts)


def draw(state: AppState, ui: Ui) -> None:
    """Of the last answer; nothing where none was written with drafts on."""
    stats = state.last_stats
    if stats is None or not stats.pass_ms:
        return
    heading(ui, tr("Drafts"), tr(CURVE))
    if len(stats.pass_ms) > 1:
        _draw_curve(ui, stats)
    if not stats.drafted:
        wrapped(ui, tr(NONE), "muted")
    else:
        _draw_facts(ui, stats)
    imgui.dummy(ImVec2(0, ui.u(2)))


def _draw_facts(ui: Ui, stats: GenerationStats) -> None:
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
    """Where drafts came from."""
    found = by_source(stats)
    return [(tr("Drafted by"), found, tr(SOURCES_HINT))] if found else []


def _draw_curve(ui: Ui, stats: GenerationStats) -> None:
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
