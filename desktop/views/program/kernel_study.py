"""The kernel study: one matrix product in five forms as bars beside this device's limits, and the
lines by which each form differs from the one before."""

from __future__ import annotations

import math
from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import (
    KernelForm,
    KernelStudy,
    StudyBackend,
)
from llm_lite.core.messages.inspecting.profiling import REFERENCE_SPEEDUP, SOFTWARE_DRIVER
from llm_lite.core.records import dataclass
from llm_lite.core.tools.fences import fenced
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.quantizing import RunTask, SetQuantization
from llm_lite.desktop.language.core_words import said
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import capital
from llm_lite.desktop.views.quantization.progress import draw_work
from llm_lite.desktop.views.quantization.step_profile import milliseconds
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_GAUGE
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
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
AXIS_HINT = mark("The bars are logarithmic: from one line to the next it is ten times as fast.")
ROW, BAR = 8.0, 2.5  # units of the theme, of a form
ROOF, REUSE = "good", "warning"  # colours of the limits


@dataclass(frozen=True, slots=True)
class Axis:
    """Places of rates, in GFLOP/s, on a logarithmic axis of `width` pixels."""

    low: float
    high: float
    width: float

    @classmethod
    def of(cls, study: KernelStudy, width: float) -> Axis:
        """From the power of ten below all that is shown, but for the slowest runs, to its top."""
        rates = [study.gflop_s(form) for form in study.forms]
        low = 10.0 ** math.floor(math.log10(min(*rates, study.without_reuse_gflop_s) / 1.5))
        return cls(low, max(*rates, study.roof_gflop_s), width)

    def at(self, rate: float) -> float:
        """0 to `width`."""
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
    wrapped(ui, said(study.device))
    axis = Axis.of(study, imgui.get_content_region_avail().x)
    last = len(study.forms) - 1
    chosen = min(int(ui.memory.get("kernels.shown", last)), last)
    with ui.styled(item_spacing=(0.0, 0.0)):
        for number, form in enumerate(study.forms):
            if _draw_row(ui, study, number, axis, number == chosen):
                ui.memory["kernels.shown"] = chosen = number
            ui.mark(f"kernels.form.{number}")
            tip(ui, said(form.why))
    _draw_axis(ui, axis)
    _draw_limits(ui, study)
    if study.tiled_speedup and study.backend == "vulkan":
        words = tr("From naive to tiled: {here} times here; {there} times in a study on a GPU.")
        wrapped(ui, words.format(here=f"{study.tiled_speedup:.1f}", there=REFERENCE_SPEEDUP))
    if study.software:
        wrapped(ui, said(SOFTWARE_DRIVER), "warning")
    _draw_form(ui, study, study.forms[chosen])


def _draw_row(ui: Ui, study: KernelStudy, number: int, axis: Axis, chosen: bool) -> bool:
    """Name, rate, share of the roof, and a bar below them; whether it was pressed."""
    form = study.forms[number]
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    height, pad = ui.u(ROW), ui.u(1)
    pressed = press_area(f"##kernels.{number}", ImVec2(axis.width, height))
    if chosen or imgui.is_item_hovered():
        low, high = ImVec2(at.x - pad, at.y), ImVec2(at.x + axis.width + pad, at.y + height)
        draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1))
    share = percent_of(study.share(form))
    with ui.font("bold" if chosen else "regular", "small"):
        figures = f"{gflops(study.gflop_s(form))} GFLOP/s  ·  {share}"
        right, y = imgui.calc_text_size(figures).x, at.y + ui.u(0.5)
        name = fit(capital(said(form.name)), axis.width - right - ui.u(3))
        draw.add_text(ImVec2(at.x, y), ui.color("text"), name)
        ink = ui.color("text" if chosen else "muted")
        draw.add_text(ImVec2(at.x + axis.width - right, y), ink, figures)
    _draw_bar(ui, study, form, ImVec2(at.x, at.y + height - ui.u(BAR) - pad), axis, chosen)
    return pressed


def _draw_bar(
    ui: Ui, study: KernelStudy, form: KernelForm, at: ImVec2, axis: Axis, chosen: bool
) -> None:
    """The median, a line from the slowest run to the fastest, and the limits."""
    draw, high = imgui.get_window_draw_list(), ui.u(BAR)
    middle, thin = at.y + high / 2, ui.u(0.25)
    ground = ui.color("pressed", 0.9 if chosen else 0.45)
    draw.add_rect_filled(at, ImVec2(at.x + axis.width, at.y + high), ground, ui.u(0.5))
    end = at.x + max(ui.u(0.5), axis.at(study.gflop_s(form)))
    color = ui.color("accent", 1.0 if chosen else 0.7)
    draw.add_rect_filled(at, ImVec2(end, at.y + high), color, ui.u(0.5))
    runs = (study.operations / seconds / 1e9 for seconds in (form.slowest, form.fastest))
    low, top = (at.x + axis.at(rate) for rate in runs)
    if top - low >= ui.u(1):
        draw.add_line(ImVec2(low, middle), ImVec2(top, middle), ui.color("text", 0.8), thin)
    for rate, name in ((study.roof_gflop_s, ROOF), (study.without_reuse_gflop_s, REUSE)):
        x, reach = at.x + axis.at(rate) - thin, ui.u(0.5)
        ends = ImVec2(x, at.y - reach), ImVec2(x, at.y + high + reach)
        draw.add_line(*ends, ui.color(name), 2 * thin)


def _draw_axis(ui: Ui, axis: Axis) -> None:
    """Powers of ten below the bars."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    font, size, color = ui.fonts["regular"], ui.theme.size("small"), ui.color("faint")
    tens = axis.tens
    for number, rate in enumerate(tens):
        words = f"{rate:,g}"
        with ui.font(style="small"):
            before = imgui.calc_text_size(words).x / 2
            words += " GFLOP/s" if number == len(tens) - 1 else ""
            wide = imgui.calc_text_size(words).x
        x = min(max(axis.at(rate) - before, 0.0), axis.width - wide)
        tick = round(at.x + axis.at(rate))
        draw.add_line(ImVec2(tick, at.y), ImVec2(tick, at.y + ui.u(1)), color, ui.u(0.25))
        draw.add_text(font, size, ImVec2(at.x + x, at.y + ui.u(1)), color, words)
    imgui.dummy(ImVec2(axis.width, size + ui.u(2)))
    tip(ui, tr(AXIS_HINT))


def _draw_limits(ui: Ui, study: KernelStudy) -> None:
    """What the lines over the bars mean."""
    arithmetic, memory = gflops(study.arithmetic_gflop_s), gflops(study.memory_roof_gflop_s)
    roof_hint = tr(ROOF_HINT).format(arithmetic=arithmetic, memory=memory)
    reuse_hint = tr(REUSE_HINT).format(speed=f"{study.memory_gb_s:.1f}")
    roof = tr("{rate} GFLOP/s: the roof of this device")
    reuse = tr("{rate} GFLOP/s: memory, if nothing is used twice")
    draw, tall = imgui.get_window_draw_list(), ui.theme.size("small")
    for rate, color, words, hint in (
        (study.roof_gflop_s, ROOF, roof, roof_hint),
        (study.without_reuse_gflop_s, REUSE, reuse, reuse_hint),
    ):
        spot = imgui.get_cursor_screen_pos()
        x = spot.x + ui.u(0.5)
        draw.add_line(ImVec2(x, spot.y), ImVec2(x, spot.y + tall), ui.color(color), ui.u(0.5))
        imgui.dummy(ImVec2(ui.u(1), tall))
        imgui.same_line(0, ui.u(1.5))
        with ui.font(style="small"):
            shown = fit(words.format(rate=gflops(rate)), imgui.get_content_region_avail().x)
        text(ui, shown, "muted", "small")
        tip(ui, hint)


def _draw_form(ui: Ui, study: KernelStudy, form: KernelForm) -> None:
    """What it does better, and the lines that do it."""
    imgui.dummy(ImVec2(0, ui.u(1)))
    text(ui, capital(said(form.name)), bold=True)
    times = tr("{time} ({fastest} to {slowest}), {times} times as fast as naive").format(
        time=milliseconds(form.seconds),
        fastest=milliseconds(form.fastest),
        slowest=milliseconds(form.slowest),
        times=f"{study.times_naive(form):.1f}",
    )
    wrapped(ui, times)
    wrapped(ui, said(form.why), "text")
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
    """Three figures are enough: "0.52", "9.4", "195"."""
    return f"{rate:.2f}" if rate < 1 else f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}"


def percent_of(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1f} %"
