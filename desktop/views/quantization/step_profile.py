"""One step, operation by operation: a flame of the model's parts and a table by kind."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import StepProfile
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.quantizing import RunTask, SetQuantization
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import size, tokens
from llm_lite.desktop.views.quantization.progress import draw_work
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_GAUGE
from llm_lite.desktop.widgets.step_flame import (
    COLOURS,
    LEVELS,
    FlameSpan,
    KindTime,
    LaidSpan,
    lay_out,
    path_of,
    shared_parts,
)
from llm_lite.desktop.widgets.step_flame import shown as shown_words
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, text, wrapped

EXPLAINED = mark(
    "The time of each operation in a step, in the order of the model. Point at a "
    "part for its figures; click it to zoom in."
)
SCROLL_FRAMES = 3
STEPS = (("1", mark("One token")), ("128", mark("Prompt of 128")))


def draw(state: AppState, ui: Ui) -> list[Action]:
    held = state.quantization
    heading(ui, tr("One step"), tr(EXPLAINED))
    asked = int(chooser(ui, "step", tr_labels(STEPS), str(held.choices.step)))
    choices = replace(held.choices, step=asked)
    actions: list[Action] = [SetQuantization(choices)] if choices != held.choices else []
    free = held.work is None and state.model is not None and not state.busy
    if button(ui, "step.measure", tr("Measure"), ICON_GAUGE, enabled=free):
        actions.append(RunTask("step"))
    actions += draw_work(state, ui, "step")
    _scroll_to(ui, held.profile)
    if held.profile is not None:
        _draw_profile(ui, _laid(ui, held.profile))
    return actions


def _laid(ui: Ui, profile: StepProfile) -> LaidSpan:
    """Laid out once, not every frame."""
    laid: LaidSpan | None = ui.memory.get("step.laid")
    if laid is None or laid.profile is not profile:
        laid = ui.memory["step.laid"] = lay_out(profile)
    return laid


def _scroll_to(ui: Ui, profile: StepProfile | None) -> None:
    """A new profile comes into sight: in the frame after it was first laid out."""
    shown, frames = ui.memory.get("step.shown", (None, 0))
    frames = SCROLL_FRAMES if profile is not shown else max(0, frames - 1)
    ui.memory["step.shown"] = (profile, frames)
    if frames:
        imgui.set_scroll_here_y(0.0)


def _draw_profile(ui: Ui, laid: LaidSpan) -> None:
    profile = laid.profile
    rate = profile.read_bytes / profile.seconds / 1e9 if profile.seconds else 0.0
    words = tr("{time} for {tokens}")
    words = words.format(time=milliseconds(profile.seconds), tokens=tokens(profile.tokens))
    text(ui, words, bold=True)
    where = tr("At depth {depth:,} on {device}.")
    read = tr("{size} are read: {rate:.1f} GB/s.")
    if profile.memory_gb_s:
        read = tr("{size} are read: {rate:.1f} GB/s, {percent:.0f} % of a plain read.")
    read = read.format(size=size(profile.read_bytes), rate=rate, percent=100 * profile.memory_share)
    wrapped(ui, f"{where.format(depth=profile.depth, device=profile.device)} {read}")
    _draw_flame(ui, laid)
    _draw_kinds(ui, laid)


def _draw_flame(ui: Ui, laid: LaidSpan) -> None:
    rows, whole = laid.rows, (0, len(laid.profile.ops))
    shown = ui.memory.get("step.zoom") or whole
    if shown[1] > whole[1]:  # of another model
        shown = whole
    inside = [s for s in rows[-1] if shown[0] <= s.first and s.last <= shown[1]]
    begin, end = inside[0].begin, inside[-1].begin + inside[-1].seconds
    at, width, line = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x, ui.u(6)
    pressed = imgui.invisible_button("##flame", ImVec2(width, LEVELS * line))
    ui.mark("step.flame")
    if not imgui.is_item_visible():
        return
    hovered, pointed = imgui.is_item_hovered(), None
    for level, row in enumerate(rows):
        top = at.y + level * line
        for span in row:
            if span.last <= shown[0] or span.first >= shown[1]:
                continue
            left = at.x + width * max(0.0, (span.begin - begin) / (end - begin))
            right = at.x + width * min(1.0, (span.begin + span.seconds - begin) / (end - begin))
            low, high = ImVec2(left, top), ImVec2(right, top + line - ui.u(0.5))
            if hovered and imgui.is_mouse_hovering_rect(low, high):
                pointed = span
            _draw_span(ui, span, low, high, span is pointed)
            if level == 0:
                ui.rects[f"step.{span.words}"] = (low.x, low.y, high.x, high.y)
    if pointed is None:
        return
    share = min(max((imgui.get_mouse_pos().x - at.x) / max(width, 1.0), 0.0), 1.0)
    above = ImVec2(at.x + share * width, at.y - ui.u(1))  # below are the numbers of all kinds
    imgui.set_next_window_pos(above, 0, ImVec2(share, 1.0))
    _draw_tip(ui, laid, pointed)
    if pressed:
        same = shown == (pointed.first, pointed.last)
        ui.memory["step.zoom"] = None if same else (pointed.first, pointed.last)


def _draw_span(ui: Ui, span: FlameSpan, low: ImVec2, high: ImVec2, pointed: bool) -> None:
    draw, gap = imgui.get_window_draw_list(), min(1.0, (high.x - low.x) / 4)
    shade = "pressed" if (span.first // 2) % 2 else "hover"
    color = ui.color_of_series(span.series) if span.series >= 0 else ui.color(shade)
    inner = ImVec2(high.x - gap, high.y)
    draw.add_rect_filled(low, inner, ui.color("accent") if pointed else color, ui.u(0.5))
    if high.x - low.x < ui.u(8):
        return
    with ui.font(style="small"):
        shown = fit(shown_words(span.words), high.x - low.x - ui.u(2))
        below = (high.y - low.y - imgui.calc_text_size(shown).y) / 2
        ink = "on_accent" if span.series >= 0 or pointed else "text"
        draw.add_text(ImVec2(low.x + ui.u(1), low.y + below), ui.color(ink), shown)


def _draw_tip(ui: Ui, laid: LaidSpan, span: FlameSpan) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    ops = laid.profile.ops[span.first : span.last]
    words = ops[0].label if len(ops) == 1 else ".".join(path_of(ops[0])[: shared_parts(ops)])
    text(ui, words, bold=True)
    share = f"{100 * span.seconds / laid.busy:.1f} %" if laid.busy else ""
    share = tr("{share} of all operations").format(share=share)
    text(ui, f"{milliseconds(span.seconds)}  ·  {share}", "muted", "small")
    if span.read_bytes and span.seconds:
        rate = span.read_bytes / span.seconds / 1e9
        words = tr("{size} read  ·  {rate:.1f} GB/s").format(size=size(span.read_bytes), rate=rate)
        text(ui, words, "muted", "small")
    imgui.end_tooltip()


def _draw_kinds(ui: Ui, laid: LaidSpan) -> None:
    """Of each kind: how often, time, share of the whole step, what it reads a second."""
    flags = imgui.TableFlags_.sizing_stretch_prop
    whole, busy = laid.profile.seconds, laid.busy
    rows = [*laid.kinds, KindTime(mark("waiting"), 0, whole - busy, 0)]
    with ui.font(style="small"):
        if not imgui.begin_table("step.kinds", 4, flags):
            return
        for number, kind in enumerate(rows):
            if kind.seconds <= 0:
                continue
            rate = f"{kind.read_bytes / kind.seconds / 1e9:.1f} GB/s" if kind.read_bytes else ""
            share = f"{100 * kind.seconds / max(whole, busy):.1f} %"
            count = f"{kind.count} × " if kind.count > 1 else ""
            imgui.table_next_row()
            imgui.table_next_column()
            _draw_swatch(ui, number if kind.count else -1)
            imgui.text_unformatted(f"{count}{shown_words(kind.words)}")
            for words in (milliseconds(kind.seconds), share, rate):
                imgui.table_next_column()
                imgui.text_unformatted(words)
        imgui.end_table()
    ui.mark("step.kinds")


def _draw_swatch(ui: Ui, series: int) -> None:
    at, side = imgui.get_cursor_screen_pos(), ui.u(2)
    top = at.y + (imgui.get_text_line_height() - side) / 2
    color = ui.color_of_series(series % COLOURS) if series >= 0 else ui.color("pressed")
    end = ImVec2(at.x + side, top + side)
    imgui.get_window_draw_list().add_rect_filled(ImVec2(at.x, top), end, color, ui.u(0.5))
    imgui.dummy(ImVec2(side, 0))
    imgui.same_line(0, ui.u(1.5))


def milliseconds(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.1 else f"{1e3 * seconds:.0f} ms"
