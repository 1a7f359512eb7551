"""One step, operation by operation: a flame of the model's parts and a table by kind."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import GenerationStats, StepProfile
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.measurements import draw_work
from llm_lite.desktop.features.quantization.model import RunTask, SetQuantization
from llm_lite.desktop.features.tokens.colors import legible
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import rate as per_second
from llm_lite.desktop.language.units import size, tokens
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_GAUGE
from llm_lite.desktop.widgets.plots.axes import Axis
from llm_lite.desktop.widgets.step_flame import (
    LEVELS,
    OTHERS,
    WAITING,
    FlameSpan,
    LaidSpan,
    color_of,
    lay_out,
    path_of,
    shared_parts,
)
from llm_lite.desktop.widgets.step_flame import shown as shown_words
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, text, wrapped

EXPLAINED = mark(
    "The time of each operation in a step, in the order of the model. Point at a "
    "part for its figures; click it to zoom in."
)
SCROLL_FRAMES = 3
ROW_NAMES = (mark("Layer"), mark("Part"), mark("Operation"))
KIND_HEADS = (mark("Operation"), mark("Time"), mark("Of the step"), mark("Reads"))
STEPS = (("1", mark("One token")), ("128", mark("Prompt of 128")))


class StepShown(Struct):
    """The profile that is shown, its layout and the part that is zoomed to."""

    profile: StepProfile | None = None
    frames: int = 0  # in which it is still scrolled to
    laid: LaidSpan | None = None
    zoom: tuple[int, int] | None = None  # indices of the first operation and that behind the last


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
        _draw_profile(state, ui, _laid(ui, held.profile))
    return actions


def _laid(ui: Ui, profile: StepProfile) -> LaidSpan:
    """Lay a profile out once, not in every frame."""
    shown = ui.local(StepShown)
    if shown.laid is None or shown.laid.profile is not profile:
        shown.laid = lay_out(profile)
    return shown.laid


def _scroll_to(ui: Ui, profile: StepProfile | None) -> None:
    """Bring a new profile into sight, in the frames after it has come."""
    shown = ui.local(StepShown)
    is_new = profile is not shown.profile
    shown.frames = SCROLL_FRAMES if is_new else max(0, shown.frames - 1)
    shown.profile = profile
    if shown.frames:
        imgui.set_scroll_here_y(0.0)


def _draw_profile(state: AppState, ui: Ui, laid: LaidSpan) -> None:
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
    if words := beside_answer(profile, state.last_stats):
        wrapped(ui, words)
    _draw_flame(ui, laid)
    _draw_kinds(ui, laid)


def beside_answer(profile: StepProfile, stats: GenerationStats | None) -> str:
    """Say why an answer's tokens a second are not those that this step alone would have."""
    if profile.tokens != 1 or not profile.seconds or stats is None or not stats.decode_tok_s:
        return ""
    words = tr(
        "With nothing between steps that is {alone} tok/s. The last answer had {had} tok/s: it "
        "took {passes:.2f} steps a token, and {token:.1f} ms from one token to the next."
    )
    return words.format(
        alone=per_second(1 / profile.seconds),
        had=per_second(stats.decode_tok_s),
        passes=stats.pass_share,
        token=1e3 / stats.decode_tok_s,
    )


def _draw_flame(ui: Ui, laid: LaidSpan) -> None:
    """Draw rows of spans over an axis of time, whose end is that of the step."""
    rows, whole = laid.rows, (0, len(laid.profile.ops))
    shown = ui.local(StepShown).zoom or whole
    if shown[1] > whole[1]:  # of another model
        shown = whole
    inside = [s for s in rows[-1] if shown[0] <= s.first and s.last <= shown[1]]
    begin, end = inside[0].begin, inside[-1].begin + inside[-1].seconds
    if shown == whole:
        end = laid.seconds
    corner, line = imgui.get_cursor_screen_pos(), ui.u(6)
    edge = _draw_row_names(ui, corner, line)
    width = imgui.get_content_region_avail().x - edge
    at = ImVec2(corner.x + edge, corner.y)
    imgui.set_cursor_screen_pos(at)
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
    if shown == whole:
        busy = inside[-1].begin + inside[-1].seconds
        _draw_rest(ui, at, width, busy / end if end else 1.0, LEVELS * line)
    _draw_time_axis(ui, at, width, begin, end)
    if pointed is None:
        return
    share = min(max((imgui.get_mouse_pos().x - at.x) / max(width, 1.0), 0.0), 1.0)
    above = ImVec2(at.x + share * width, at.y - ui.u(1))  # below are the numbers of all kinds
    imgui.set_next_window_pos(above, 0, ImVec2(share, 1.0))
    _draw_tip(ui, laid, pointed)
    if pressed:
        same = shown == (pointed.first, pointed.last)
        ui.local(StepShown).zoom = None if same else (pointed.first, pointed.last)


def _draw_rest(ui: Ui, at: ImVec2, width: float, busy: float, height: float) -> None:
    """Draw the time of the step that no operation took, behind all of them."""
    low = ImVec2(at.x + width * busy, at.y)
    high = ImVec2(at.x + width, at.y + height - ui.u(0.5))
    if high.x - low.x < 2.0:
        return
    draw = imgui.get_window_draw_list()
    draw.add_rect(low, high, ui.color("border"), ui.u(0.5))
    with ui.font(style="small"):
        words = tr(WAITING)
        size = imgui.calc_text_size(words)
        if size.x < high.x - low.x - ui.u(2):
            x, y = (low.x + high.x - size.x) / 2, (low.y + high.y - size.y) / 2
            draw.add_text(ImVec2(round(x), round(y)), ui.color("muted"), words)


def _draw_row_names(ui: Ui, at: ImVec2, line: float) -> float:
    """Draw what each row of the flame is cut into, and return how wide that is."""
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    with ui.font(style="small"):
        for number, name in enumerate(ROW_NAMES):
            spot = ImVec2(at.x, round(at.y + number * line + (line - ui.u(0.5) - small) / 2))
            draw.add_text(spot, ui.color("muted"), tr(name))
        return float(max(imgui.calc_text_size(tr(name)).x for name in ROW_NAMES)) + ui.u(2)


def _draw_time_axis(ui: Ui, at: ImVec2, width: float, begin: float, end: float) -> None:
    """Draw the milliseconds from the beginning of the step below the flame."""
    top, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    small, color = ui.theme.size("small"), ui.color("muted")
    with ui.font(style="small"):
        name = Axis(tr("Time in the step"), "ms").title
        ends = [f"{1e3 * begin:.2f}", f"{1e3 * end:.2f}"]
        wide = imgui.calc_text_size(ends[1]).x
        draw.add_text(ImVec2(at.x, top.y), color, ends[0])
        draw.add_text(ImVec2(round(at.x + width - wide), top.y), color, ends[1])
        middle = at.x + (width - imgui.calc_text_size(name).x) / 2
        draw.add_text(ImVec2(round(middle), top.y), color, name)
    imgui.dummy(ImVec2(width, small))


def _draw_span(ui: Ui, span: FlameSpan, low: ImVec2, high: ImVec2, pointed: bool) -> None:
    draw, gap = imgui.get_window_draw_list(), min(1.0, (high.x - low.x) / 4)
    shade = "pressed" if (span.first // 2) % 2 else "hover"
    color = _kind_color(ui, span.series) if span.series >= 0 else ui.color(shade)
    inner = ImVec2(high.x - gap, high.y)
    draw.add_rect_filled(low, inner, ui.color("accent") if pointed else color, ui.u(0.5))
    if high.x - low.x < ui.u(8):
        return
    with ui.font(style="small"):
        shown = fit(shown_words(span.words), high.x - low.x - ui.u(2))
        below = (high.y - low.y - imgui.calc_text_size(shown).y) / 2
        ink = ui.color("text")
        if pointed:
            ink = ui.color("on_accent")
        elif span.series >= 0:
            ink = u32(legible(_rgb(color)))
        draw.add_text(ImVec2(low.x + ui.u(1), low.y + below), ink, shown)


def _rgb(packed: int) -> int:
    """Return a colour as 0xRRGGBB that is packed for a draw list."""
    return (packed & 0xFF) << 16 | packed & 0xFF00 | packed >> 16 & 0xFF


def _kind_color(ui: Ui, number: int) -> int:
    return ui.color("faint") if number >= OTHERS else ui.color_of_series(number)


def _draw_tip(ui: Ui, laid: LaidSpan, span: FlameSpan) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    ops = laid.profile.ops[span.first : span.last]
    words = ops[0].label if len(ops) == 1 else ".".join(path_of(ops[0])[: shared_parts(ops)])
    text(ui, words, bold=True)
    share = tr("{share} of the step").format(share=share_words(laid, span.seconds))
    text(ui, f"{milliseconds(span.seconds)}  ·  {share}", "muted", "small")
    if span.read_bytes and span.seconds:
        rate = span.read_bytes / span.seconds / 1e9
        words = tr("{size} read  ·  {rate:.1f} GB/s").format(size=size(span.read_bytes), rate=rate)
        text(ui, words, "muted", "small")
    imgui.end_tooltip()


def share_words(laid: LaidSpan, seconds: float) -> str:
    """Format a share of the step."""
    return f"{100 * laid.share(seconds):.1f} %"


def _draw_kinds(ui: Ui, laid: LaidSpan) -> None:
    """Draw for each kind its count, time, share of the step, and bytes read a second."""
    flags = imgui.TableFlags_.sizing_stretch_prop
    with ui.font(style="small"):
        if not imgui.begin_table("step.kinds", 4, flags):
            return
        imgui.table_next_row()
        for head in KIND_HEADS:
            imgui.table_next_column()
            with ui.colored(text="muted"):
                imgui.text_unformatted(tr(head))
        for number, kind in enumerate(laid.kinds):
            rate = f"{kind.read_bytes / kind.seconds / 1e9:.1f} GB/s" if kind.read_bytes else ""
            count = f"{kind.count} × " if kind.count > 1 else ""
            imgui.table_next_row()
            imgui.table_next_column()
            _draw_swatch(ui, number if kind.count else -1)
            imgui.text_unformatted(f"{count}{shown_words(kind.words)}")
            for words in (milliseconds(kind.seconds), share_words(laid, kind.seconds), rate):
                imgui.table_next_column()
                imgui.text_unformatted(words)
        imgui.end_table()
    ui.mark("step.kinds")


def _draw_swatch(ui: Ui, number: int) -> None:
    """Draw the colour of a kind in the flame; only a frame if it is not an operation."""
    at, side = imgui.get_cursor_screen_pos(), ui.u(2)
    top = at.y + (imgui.get_text_line_height() - side) / 2
    low, end = ImVec2(at.x, top), ImVec2(at.x + side, top + side)
    draw = imgui.get_window_draw_list()
    if number < 0:
        draw.add_rect(low, end, ui.color("faint"), ui.u(0.5))
    else:
        draw.add_rect_filled(low, end, _kind_color(ui, color_of(number)), ui.u(0.5))
    imgui.dummy(ImVec2(side, 0))
    imgui.same_line(0, ui.u(1.5))


def milliseconds(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.1 else f"{1e3 * seconds:.0f} ms"
