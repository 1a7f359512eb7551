"""Perplexity and divergence of weight modes over a text: a table and two plots."""

from __future__ import annotations

import numpy as np
from imgui_bundle import ImVec2, imgui, implot

from llm_lite.core.messages import MODES, DivergenceReport, Mode, ModelInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.divergence import nats
from llm_lite.desktop.features.quantization.model import ForgetReports, RunTask, SetQuantization
from llm_lite.desktop.features.quantization.progress import draw_work
from llm_lite.desktop.features.quantization.state import Choices
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import signed, size
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_TRASH
from llm_lite.desktop.widgets.plots.axes import Axis, line_spec, plot, point_spec, series
from llm_lite.desktop.widgets.plots.legend import LegendEntry, Sign, draw_legend
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, primary_button, text, tip, wrapped

TICKS = 12  # below a plot, at most
TREND = 5  # chunks from which a line joins them
HEIGHT = 38.0  # of a plot, in spacing units
LEAST = 1e-8  # nats that a logarithmic axis shows
LABELS: tuple[tuple[Mode, str], ...] = tuple((mode, mode) for mode in MODES)
ABOUT = mark(
    "The text is cut into chunks of 512 tokens; those of the second half of each are scored, as "
    "llama.cpp's perplexity tool does. Divergence is KL(reference ‖ tested) in nats."
)
ROWS = (
    (
        mark("Perplexity"),
        mark("How many tokens the model wavers between, on average. ± is a standard error."),
    ),
    (
        mark("of the reference"),
        mark("The same text, in the reference mode with float32 activations."),
    ),
    (mark("KL mean"), mark("Nats, over all scored tokens.")),
    (mark("KL median"), mark("Half of the tokens diverge by less.")),
    (mark("KL 90 %"), ""),
    (mark("KL 95 %"), ""),
    (mark("KL 99 %"), mark("One token in a hundred diverges by more.")),
    (mark("KL 99.9 %"), ""),
    (mark("KL largest"), ""),
    (mark("Δp mean"), mark("Change of the probability of the token that really follows.")),
    (mark("Δp RMS"), mark("Root of the mean square of that change.")),
    (mark("Same likeliest"), mark("How often both would say the same, greedily.")),
    (mark("Bits a weight"), mark("Of all weights, as loaded.")),
    (mark("Weights"), mark("In memory.")),
    (mark("Tokens scored"), ""),
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    held = state.quantization
    actions = _draw_setting(state, ui)
    actions += draw_work(state, ui, "report")
    if not held.reports:
        wrapped(ui, tr(ABOUT))
        return actions
    _draw_table(ui, held.reports)
    if words := born(state.model):
        wrapped(ui, words)
    imgui.dummy(ImVec2(0, ui.u(1)))
    _draw_quantiles(ui, held.reports)
    _draw_chunks(ui, held.reports)
    return actions


def born(model: ModelInfo | None) -> str:
    """A warning where the file's own weights are in blocks; "" where they are floats."""
    if model is None or not model.block_formats:
        return ""
    names = ", ".join(name.upper() for name in sorted(model.block_formats))
    return tr(
        "This file was quantized before ({names}): these numbers say what is lost "
        "beyond that. A format whose blocks lie like the file's looks better here than "
        "on weights as trained."
    ).format(names=names)


def _draw_setting(state: AppState, ui: Ui) -> list[Action]:
    choices, room = state.quantization.choices, imgui.get_content_region_avail().x
    gap, free = ui.u(1.5), state.quantization.work is None
    wide = (room - ui.u(22) - ui.u(12) - 3 * gap) / 2
    changed = replace(
        choices,
        tested=picker(ui, "report.tested", LABELS, choices.tested, wide, tr("The mode tested")),
    )
    imgui.same_line(0, gap)
    imgui.align_text_to_frame_padding()
    text(ui, tr("against"), "muted", "small")
    imgui.same_line(0, gap)
    hint = tr("The reference, with float32 activations")
    changed = replace(
        changed, reference=picker(ui, "report.reference", LABELS, choices.reference, wide, hint)
    )
    imgui.same_line(0, gap)
    actions: list[Action] = []
    if primary_button(ui, "report.run", tr("Measure"), tr(ABOUT), enabled=free, width=ui.u(22)):
        actions.append(RunTask("report"))
    changed, forgotten = _draw_path(state, ui, changed)
    if changed != choices:
        actions.insert(0, SetQuantization(changed))
    return actions + forgotten


def _draw_path(state: AppState, ui: Ui, choices: Choices) -> tuple[Choices, list[Action]]:
    side = ui.u(6.5)
    imgui.set_next_item_width(imgui.get_content_region_avail().x - side - ui.u(1))
    hint = tr("Path of a text file; empty: a short sample")
    with ui.font(style="small"):
        path = imgui.input_text_with_hint("##report.path", hint, choices.path)[1]
        ui.mark("report.path")
    imgui.same_line(0, ui.u(1))
    words = tr("Forget these reports")
    actions: list[Action] = []
    if icon_button(ui, "report.forget", ICON_TRASH, words, side=side, style="small"):
        actions.append(ForgetReports())
    return replace(choices, path=path), actions


def cells(report: DivergenceReport) -> tuple[str, ...]:
    """A column of the table, by ROWS."""
    return (
        f"{report.ppl:.3f} ± {report.ppl_error:.2f}",
        f"{report.ppl_reference:.3f} ± {report.ppl_reference_error:.2f}",
        f"{nats(report.kld_mean)} ± {nats(report.kld_error)}",
        nats(report.kld_median),
        nats(report.kld_p90),
        nats(report.kld_p95),
        nats(report.kld_p99),
        nats(report.kld_p999),
        nats(report.kld_max),
        f"{signed(100 * report.delta_p_mean, '+.3f')} %",
        f"{100 * report.delta_p_rms:.3f} %",
        f"{100 * report.same_top:.2f} %",
        f"{report.bits_per_weight:.2f}",
        size(report.weight_bytes),
        f"{report.tokens_scored:,}",
    )


def _draw_table(ui: Ui, reports: tuple[DivergenceReport, ...]) -> None:
    flags = imgui.TableFlags_
    first, column = ui.u(27), ui.u(30)
    needed = first + column * len(reports)
    kind = flags.scroll_x if needed > imgui.get_content_region_avail().x else flags.none
    height = (len(ROWS) + 2) * (ui.theme.size("small") + ui.u(2)) + ui.u(3)
    if not imgui.begin_table(
        "reports",
        len(reports) + 1,
        kind | flags.row_bg | flags.sizing_fixed_fit,
        ImVec2(0, height if kind else 0),
    ):
        return
    imgui.table_setup_scroll_freeze(1, 0)
    imgui.table_setup_column("", imgui.TableColumnFlags_.width_fixed, first)
    for _ in reports:
        imgui.table_setup_column("", imgui.TableColumnFlags_.width_fixed, column)
    _draw_titles(ui, reports)
    columns = [cells(report) for report in reports]
    for number, (label, hint) in enumerate(ROWS):
        imgui.table_next_row()
        imgui.table_next_column()
        text(ui, tr(label), "muted", "small")
        tip(ui, hint and tr(hint))
        for column_cells in columns:
            imgui.table_next_column()
            text(ui, column_cells[number], style="small")
    imgui.end_table()
    ui.mark("report.table")


def _draw_titles(ui: Ui, reports: tuple[DivergenceReport, ...]) -> None:
    imgui.table_next_row()
    imgui.table_next_column()
    for number, report in enumerate(reports):
        imgui.table_next_column()
        at, side = imgui.get_cursor_screen_pos(), ui.theme.size("small")
        low = ImVec2(at.x, at.y + ui.u(0.75))
        high = ImVec2(at.x + ui.u(2), at.y + side - ui.u(0.25))
        draw = imgui.get_window_draw_list()
        draw.add_rect_filled(low, high, ui.color_of_series(number), ui.u(0.5))
        imgui.set_cursor_pos_x(imgui.get_cursor_pos_x() + ui.u(3))
        text(ui, name_of(report), style="small", bold=True)


def name_of(report: DivergenceReport) -> str:
    return f"{report.tested.mode} {report.tested.activations}"


def _draw_quantiles(ui: Ui, reports: tuple[DivergenceReport, ...]) -> None:
    """The share of tokens that diverge by no more than so much."""
    text(ui, tr("Tokens that diverge by no more than that"), style="small", bold=True)
    share = np.linspace(0.0, 100.0, 101)
    x = Axis(tr("KL divergence"), tr("nats"), logarithmic=True, lines=True)
    y = Axis(tr("Tokens"), "%", limits=(0.0, 100.0), lines=True)
    with plot(ui, "report.quantiles", x, y, HEIGHT) as shown:
        for number, report in enumerate(reports if shown else ()):
            values = np.maximum(np.array(report.kld_quantiles, np.float64), LEAST)
            implot.plot_line(f"##{number}", values, share, line_spec(ui, series(ui, number)))
    _draw_names(ui, "report.quantiles.legend", reports, "line")


def _draw_chunks(ui: Ui, reports: tuple[DivergenceReport, ...]) -> None:
    """Where in the text they diverge."""
    most = max(report.chunks for report in reports)
    if most < 2:
        return
    text(ui, tr("Mean divergence along the text"), style="small", bold=True)
    top = max(max(report.kld_by_chunk) for report in reports)
    ticks = tuple(float(chunk) for chunk in range(1, most + 1, -(-most // TICKS)))
    unit = trn("of {n:,} token", "of {n:,} tokens", reports[0].chunk_tokens)
    unit = unit.format(n=reports[0].chunk_tokens)
    x = Axis(tr("Chunk"), unit, limits=(0.5, most + 0.5), ticks=ticks)
    y = Axis(tr("Mean KL"), tr("nats"), limits=(-0.06 * top, 1.15 * top or LEAST),
             lines=True)  # fmt: skip
    joined = max(len(report.kld_by_chunk) for report in reports) >= TREND
    with plot(ui, "report.chunks", x, y, HEIGHT) as shown:
        for number, report in enumerate(reports if shown else ()):
            values = np.array(report.kld_by_chunk, np.float64)
            chunks = np.arange(1, len(values) + 1, dtype=np.float64)
            spec = point_spec(ui, series(ui, number))
            if joined:  # fewer are points, not a trend
                implot.plot_line(f"##{number}", chunks, values, spec)
            else:
                spec.flags = implot.ScatterFlags_.no_clip  # the outer ones lie on the frame
                implot.plot_scatter(f"##{number}", chunks, values, spec)
    _draw_names(ui, "report.chunks.legend", reports, "dot")


def _draw_names(ui: Ui, name: str, reports: tuple[DivergenceReport, ...], sign: Sign) -> None:
    """Draw which report each colour is."""
    named = enumerate(map(name_of, reports))
    entries = [LegendEntry(ui.color_of_series(number), words, sign) for number, words in named]
    draw_legend(ui, name, entries)
    imgui.dummy(ImVec2(0, ui.u(1)))
