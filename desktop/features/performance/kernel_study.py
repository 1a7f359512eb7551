"""The kernel study: one matrix product in five forms as dots beside this device's limits, and the
lines by which each form differs from the one before."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import (
    KernelForm,
    KernelStudy,
    StudyBackend,
)
from llm_lite.core.messages.inspecting.profiling import REFERENCE_SPEEDUP, SOFTWARE_DRIVER
from llm_lite.core.records import replace
from llm_lite.core.tools.fences import fenced
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.measurements import draw_work
from llm_lite.desktop.features.quantization.model import RunTask, SetQuantization
from llm_lite.desktop.features.quantization.step_profile import milliseconds
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import capital
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_GAUGE
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from llm_lite.desktop.widgets.plots.axes import Axis
from llm_lite.desktop.widgets.plots.legend import LegendEntry, draw_legend
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, text, tip, wrapped

BACKENDS: tuple[tuple[StudyBackend, str], ...] = (("vulkan", "Vulkan"), ("cpu", "C++"))
EXPLAINED = mark(
    "C = A · B^T in float32, first as the formula says it, then in four steps to the kernel that "
    "multiplies your prompts. Each is measured on this device, beside what the device can do at "
    "most; a click shows the lines that made the difference."
)
ROOF_HINT = mark(
    "The lower of two limits, both measured here: multiply-adds on values in registers, "
    "{arithmetic} GFLOP/s, and memory, which would allow {memory} GFLOP/s if it had to bring each "
    "value only once. A multiply-add counts as two operations."
)
REUSE_HINT = mark(
    "Memory is read at {speed} GB/s. A form that fetched both factors of each multiply-add from "
    "there, 8 bytes, could be no faster. Caches, tiles and registers are how the others pass it."
)
AXIS_HINT = mark("From one line to the next it is ten times as fast.")
RUNS = mark("Median of the runs; the line goes from the slowest to the fastest")
ROW, TRACK = 8.0, 2.5  # units of the theme, of a form
ROOF, REUSE = "good", "warning"  # colours of the limits


class KernelStudyControls(Struct):
    """The form whose code is shown, by its number; the last one before a person chose."""

    shown: int | None = None


class RateAxis(Struct, frozen=True):
    """Places of rates, in GFLOP/s, on a logarithmic axis of `width` pixels."""

    low: float
    high: float
    width: float

    @classmethod
    def of(cls, study: KernelStudy, width: float) -> RateAxis:
        """Begin at the power of ten below all medians and limits, and end at the highest."""
        rates = [study.gflop_s(form) for form in study.forms]
        low = 10.0 ** math.floor(math.log10(min(*rates, study.without_reuse_gflop_s) / 1.5))
        return cls(low, max(*rates, study.roof_gflop_s), width)

    def at(self, rate: float) -> float:
        """Return the place of a rate, from 0 to `width` pixels."""
        share = math.log(max(rate, self.low) / self.low) / math.log(self.high / self.low)
        return self.width * min(share, 1.0)

    @property
    def tens(self) -> list[float]:
        count = math.floor(math.log10(self.high / self.low) + 1e-9)
        return [self.low * 10.0**power for power in range(count + 1)]


def draw(state: AppState, ui: Ui) -> list[Action]:
    held = state.quantization
    heading(ui, tr("Five kernels, one product"), tr(EXPLAINED))
    backend = chooser(ui, "kernels", BACKENDS, held.choices.kernels)
    choices = replace(held.choices, kernels=backend)
    actions: list[Action] = [SetQuantization(choices)] if choices != held.choices else []
    free = held.work is None and state.model is not None and not state.busy
    if button(ui, "kernels.measure", tr("Measure"), ICON_GAUGE, enabled=free):
        actions.append(RunTask("kernels"))
    actions += draw_work(state, ui, "kernels")
    study = held.study(backend)
    if study is not None and study.forms:
        _draw_study(ui, study)
    return actions


def _draw_study(ui: Ui, study: KernelStudy) -> None:
    words = tr("M × N × K = {m} × {n} × {k}, float32").format(m=study.m, n=study.n, k=study.k)
    text(ui, words, bold=True)
    wrapped(ui, translated(study.device))
    axis = RateAxis.of(study, imgui.get_content_region_avail().x)
    last = len(study.forms) - 1
    controls = ui.local(KernelStudyControls)
    chosen = last if controls.shown is None else min(controls.shown, last)
    with ui.styled(item_spacing=(0.0, 0.0)):
        for number, form in enumerate(study.forms):
            if _draw_row(ui, study, number, axis, number == chosen):
                controls.shown = chosen = number
            ui.mark(f"kernels.form.{number}")
            tip(ui, translated(form.why))
    _draw_axis(ui, axis)
    _draw_limits(ui, study)
    if study.tiled_speedup and study.backend == "vulkan":
        words = tr("From naive to tiled: {here} times here; {there} times in a study on a GPU.")
        wrapped(ui, words.format(here=f"{study.tiled_speedup:.1f}", there=REFERENCE_SPEEDUP))
    if study.software:
        wrapped(ui, translated(SOFTWARE_DRIVER), "warning")
    _draw_form(ui, study, study.forms[chosen])


def _draw_row(ui: Ui, study: KernelStudy, number: int, axis: RateAxis, chosen: bool) -> bool:
    """Draw the name, rate and share of the roof of a form; return whether it was pressed."""
    form = study.forms[number]
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    height, pad = ui.u(ROW), ui.u(1)
    pressed = press_area(f"##kernels.{number}", ImVec2(axis.width, height))
    if chosen or imgui.is_item_hovered():
        low, high = ImVec2(at.x - pad, at.y), ImVec2(at.x + axis.width + pad, at.y + height)
        draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
    share = percent_of(study.share(form))
    with ui.font("bold" if chosen else "regular", "small"):
        label = f"{gflops(study.gflop_s(form))} GFLOP/s  ·  {share}"
        right, y = imgui.calc_text_size(label).x, at.y + ui.u(0.5)
        name = fit(capital(translated(form.name)), axis.width - right - ui.u(3))
        draw.add_text(ImVec2(at.x, y), ui.color("text"), name)
        ink = ui.color("text" if chosen else "muted")
        draw.add_text(ImVec2(at.x + axis.width - right, y), ink, label)
    _draw_track(ui, study, form, ImVec2(at.x, at.y + height - ui.u(TRACK) - pad), axis, chosen)
    return pressed


def _draw_track(
    ui: Ui, study: KernelStudy, form: KernelForm, at: ImVec2, axis: RateAxis, chosen: bool
) -> None:
    """Draw a dot at the median, a line from the slowest run to the fastest, and the limits: on a
    logarithmic axis a bar would have no length."""
    draw, high = imgui.get_window_draw_list(), ui.u(TRACK)
    middle, thin = at.y + high / 2, ui.u(0.25)
    reach = ui.u(0.5)
    for rate in axis.tens:
        tick = round(at.x + axis.at(rate))
        ends = ImVec2(tick, at.y - reach), ImVec2(tick, at.y + high + reach)
        draw.add_line(*ends, ui.color("border"), 1.0)
    for rate, name in ((study.roof_gflop_s, ROOF), (study.without_reuse_gflop_s, REUSE)):
        x = at.x + axis.at(rate) - thin
        ends = ImVec2(x, at.y - reach), ImVec2(x, at.y + high + reach)
        draw.add_line(*ends, ui.color(name), 2 * thin)
    color = ui.color("link" if chosen else "accent")
    runs = (study.operations / seconds / 1e9 for seconds in (form.slowest, form.fastest))
    low, top = (at.x + axis.at(rate) for rate in runs)
    draw.add_line(ImVec2(low, middle), ImVec2(top, middle), color, 2 * thin)
    dot = ImVec2(at.x + axis.at(study.gflop_s(form)), middle)
    draw.add_circle_filled(dot, ui.u(1.25 if chosen else 1.0), color)
    ui.rects[f"kernels.dot.{form.name}"] = (dot.x, at.y, dot.x, at.y + high)


def _draw_axis(ui: Ui, axis: RateAxis) -> None:
    """Draw the powers of ten below the dots, and below them the axis' name."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    size, color = ui.theme.size("small"), ui.color("muted")
    with ui.font(style="small"):
        for rate in axis.tens:
            words = f"{rate:,g}"
            wide = imgui.calc_text_size(words).x
            x = min(max(axis.at(rate) - wide / 2, 0.0), axis.width - wide)
            draw.add_text(ImVec2(round(at.x + x), at.y + ui.u(0.5)), color, words)
        name = Axis(tr("Speed"), "GFLOP/s", logarithmic=True).title
        x = at.x + (axis.width - imgui.calc_text_size(name).x) / 2
        draw.add_text(ImVec2(round(x), at.y + size + ui.u(1)), color, name)
    imgui.dummy(ImVec2(axis.width, 2 * size + ui.u(2.5)))
    tip(ui, tr(AXIS_HINT))


def _draw_limits(ui: Ui, study: KernelStudy) -> None:
    """Draw the legend of dots and limits."""
    arithmetic, memory = gflops(study.arithmetic_gflop_s), gflops(study.memory_roof_gflop_s)
    roof_hint = tr(ROOF_HINT).format(arithmetic=arithmetic, memory=memory)
    reuse_hint = tr(REUSE_HINT).format(speed=f"{study.memory_gb_s:.1f}")
    roof = tr("{rate} GFLOP/s: the roof of this device")
    reuse = tr("{rate} GFLOP/s: memory, if nothing is used twice")
    entries = [LegendEntry(ui.color("accent"), tr(RUNS), "dot")]
    for rate, color, words, hint in (
        (study.roof_gflop_s, ROOF, roof, roof_hint),
        (study.without_reuse_gflop_s, REUSE, reuse, reuse_hint),
    ):
        entries.append(
            LegendEntry(ui.color(color), words.format(rate=gflops(rate)), "upright", hint)
        )
    draw_legend(ui, "kernels.legend", entries)


def _draw_form(ui: Ui, study: KernelStudy, form: KernelForm) -> None:
    """Draw why a form is faster than the one before, and its lines of code."""
    imgui.dummy(ImVec2(0, ui.u(1)))
    text(ui, capital(translated(form.name)), bold=True)
    times = tr("{time} ({fastest} to {slowest}), {times} times as fast as naive").format(
        time=milliseconds(form.seconds),
        fastest=milliseconds(form.fastest),
        slowest=milliseconds(form.slowest),
        times=f"{study.times_naive(form):.1f}",
    )
    wrapped(ui, times)
    wrapped(ui, translated(form.why), "text")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    rich, at = rich_text(ui, "kernels"), imgui.get_cursor_screen_pos()
    rich.begin(ui)
    width = float(round(imgui.get_content_region_avail().x))
    page = rich.page(ui, fenced(form.code, form.language), width)
    rich.draw(ui, page, at.x, at.y, width, "kernels.code")
    imgui.set_cursor_screen_pos(at)
    imgui.dummy(ImVec2(width, page.height))
    ui.mark("kernels.code")
    wrapped(ui, form.path, "faint")


def gflops(rate: float) -> str:
    """Format a rate by its size, as "0.52", "9.4" or "195"."""
    return f"{rate:.2f}" if rate < 1 else f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}"


def percent_of(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"
