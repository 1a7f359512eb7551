"""Measurements of weight modes: perplexity and divergence over a text, and errors of tensors."""

from __future__ import annotations

import math

import numpy as np
from imgui_bundle import ImVec2, imgui, implot

from llm_lite.core.messages import MODES, DivergenceReport, Mode, ModelInfo, TensorReport, TensorRow
from llm_lite.core.records import replace
from llm_lite.desktop.features.file_chooser.path_field import path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.divergence import nats
from llm_lite.desktop.features.quantization.model import (
    ForgetReports,
    RunTask,
    SetQuantization,
    StopTask,
)
from llm_lite.desktop.features.quantization.state import Choices, TaskKind
from llm_lite.desktop.language.core_words import translated_stage
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import capital, sentence, signed, size
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.icons import ICON_TRASH
from llm_lite.desktop.widgets.plots.axes import Axis, line_spec, plot, point_spec, series
from llm_lite.desktop.widgets.plots.legend import LegendEntry, Sign, draw_legend
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    icon_button,
    primary_button,
    progress,
    text,
    tip,
    wrapped,
)

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
TICKS = 12  # below a plot, at most
TREND = 5  # chunks from which a line joins them
HEIGHT = 38.0  # of a plot, in spacing units
LEAST = 1e-8  # nats that a logarithmic axis shows
TENSORS_ABOUT = mark(
    "Every tensor is converted and compared with what the file holds. Signal to noise is the "
    "power of the weights over that of the error: 20 dB is an error of a tenth, 40 dB of a "
    "hundredth. Vectors stay in 32 bits, and rows that fill no whole block in 16."
)
TENSOR_HEADS = (
    (mark("Tensor"), 0.0),
    (mark("Shape"), 21.0),
    (mark("Format"), 12.0),
    (mark("Bits"), 10.0),
    (mark("SNR dB"), 13.0),
)
TENSOR_HINTS = (
    "",
    mark("Rows by columns"),
    mark("As loaded"),
    mark("A weight, with its share of scales"),
    TENSORS_ABOUT,
)
GOOD_SNR = 40.0  # dB
POOR_SNR = 15.0


def draw_work(state: AppState, ui: Ui, kind: TaskKind) -> list[Action]:
    """Draw the progress of a task of this kind with a button that stops it, or its problem."""
    work = state.quantization.work
    if work is None or work.kind != kind:
        if problem := state.quantization.problem(kind):
            wrapped(ui, sentence(problem), "error")
        return []
    progress(ui, capital(translated_stage(work.stage)), work.fraction)
    if button(ui, f"quantization.stop.{kind}", tr("Stop"), enabled=not work.stopping):
        return [StopTask()]
    return []


def draw_report(state: AppState, ui: Ui) -> list[Action]:
    held = state.quantization
    actions = _draw_setting(state, ui)
    actions += draw_work(state, ui, "report")
    if not held.reports:
        wrapped(ui, tr(ABOUT))
        return actions
    _draw_table(ui, held.reports)
    if words := requantized_warning(state.model):
        wrapped(ui, words)
    imgui.dummy(ImVec2(0, ui.u(1)))
    _draw_quantiles(ui, held.reports)
    _draw_chunks(ui, held.reports)
    return actions


def requantized_warning(model: ModelInfo | None) -> str:
    """Return a warning if the file's own weights are quantized in blocks; "" if they are floats."""
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
    hint = tr("Path of a text file; empty: a short sample")
    room = imgui.get_content_region_avail().x - side - ui.u(1)
    with ui.font(style="small"):
        typed = path_field(ui, PathTarget("report.path"), choices.path, ("file",), hint, room)
    path, actions = typed.path, typed.actions
    imgui.same_line(0, ui.u(1))
    words = tr("Forget these reports")
    if icon_button(ui, "report.forget", ICON_TRASH, words, side=side, style="small"):
        actions.append(ForgetReports())
    return replace(choices, path=path), actions


def cells(report: DivergenceReport) -> tuple[str, ...]:
    """Return the cells of a report's column, in the order of ROWS."""
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
    """Draw the share of tokens that diverge by no more than a value."""
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
    """Draw the mean divergence of each chunk of the text."""
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
    """Draw the legend of the reports' colours."""
    named = enumerate(map(name_of, reports))
    entries = [LegendEntry(ui.color_of_series(number), words, sign) for number, words in named]
    draw_legend(ui, name, entries)
    imgui.dummy(ImVec2(0, ui.u(1)))


def draw_tensors(state: AppState, ui: Ui) -> list[Action]:
    held = state.quantization
    choices, free = held.choices, held.work is None
    actions: list[Action] = []
    room = imgui.get_content_region_avail().x - ui.u(22) - ui.u(1.5)
    mode = picker(ui, "tensors.mode", LABELS, choices.tensors, room, tr("The mode to look at"))
    if mode != choices.tensors:
        actions.append(SetQuantization(replace(choices, tensors=mode)))
    imgui.same_line(0, ui.u(1.5))
    if primary_button(
        ui, "tensors.run", tr("Analyze"), tr(TENSORS_ABOUT), enabled=free, width=ui.u(22)
    ):
        actions.append(RunTask("tensors"))
    actions += draw_work(state, ui, "tensors")
    if held.tensors is None:
        wrapped(ui, tr(TENSORS_ABOUT))
    else:
        wrapped(ui, tensors_summary(held.tensors))
        _draw_tensors_table(ui, held.tensors.rows)
    return actions


def tensors_summary(report: TensorReport) -> str:
    """Name the mean bits a weight, and the tensor with the largest error."""
    sizes = [math.prod(row.shape) for row in report.rows]
    bits = sum(n * row.bits_per_weight for n, row in zip(sizes, report.rows, strict=True))
    bits /= max(sum(sizes), 1)
    worst = min(report.rows, key=lambda row: row.snr_db, default=None)
    if worst is None or math.isinf(worst.snr_db):
        words = tr("{mode}: {bits:.2f} bits a weight, all of them exact.")
        return words.format(mode=report.mode, bits=bits)
    words = tr("{mode}: {bits:.2f} bits a weight; the least exact is {name} with {snr:.1f} dB.")
    name = short_name(worst.name)
    return words.format(mode=report.mode, bits=bits, name=name, snr=worst.snr_db)


def _draw_tensors_table(ui: Ui, rows: tuple[TensorRow, ...]) -> None:
    flags = imgui.TableFlags_
    height = max(imgui.get_content_region_avail().y, ui.u(30))
    kind = flags.scroll_y | flags.row_bg | flags.sizing_fixed_fit
    with ui.font(style="small"):
        if not imgui.begin_table("tensors", len(TENSOR_HEADS), kind, ImVec2(0, height)):
            return
        imgui.table_setup_scroll_freeze(0, 1)
        for title, wide in TENSOR_HEADS:
            column = imgui.TableColumnFlags_
            stretch = column.width_fixed if wide else column.width_stretch
            imgui.table_setup_column(title, stretch, ui.u(wide) if wide else 1.0)
        _draw_tensor_heads(ui)
        clipper = imgui.ListClipper()
        clipper.begin(len(rows))
        while clipper.step():
            for number in range(clipper.display_start, clipper.display_end):
                _draw_tensor(ui, rows[number])
        imgui.end_table()
    ui.mark("tensors.table")


def _draw_tensor_heads(ui: Ui) -> None:
    imgui.table_next_row(imgui.TableRowFlags_.headers)
    for (title, _), hint in zip(TENSOR_HEADS, TENSOR_HINTS, strict=True):
        imgui.table_next_column()
        with ui.colored(text="muted"):
            imgui.text_unformatted(tr(title))
        tip(ui, hint and tr(hint))


def _draw_tensor(ui: Ui, row: TensorRow) -> None:
    imgui.table_next_row()
    imgui.table_next_column()
    imgui.text_unformatted(fit(short_name(row.name), imgui.get_content_region_avail().x))
    tip(ui, row.name)
    shape = " × ".join(f"{n:,}" for n in row.shape)
    for words in (shape, row.format, f"{row.bits_per_weight:.2f}"):
        imgui.table_next_column()
        with ui.colored(text="muted"):
            imgui.text_unformatted(words)
    imgui.table_next_column()
    exact = math.isinf(row.snr_db)
    color = "muted" if exact else "warning" if row.snr_db < POOR_SNR else "text"
    color = "good" if not exact and row.snr_db >= GOOD_SNR else color
    with ui.colored(text=color):
        imgui.text_unformatted(tr("exact") if exact else f"{row.snr_db:.1f}")


def short_name(name: str) -> str:
    """Return a tensor's name without the ending that all of them share."""
    return name.removesuffix(".weight")
