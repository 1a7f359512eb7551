"""The panel of weight modes: the one in use, the size and speed of each, and measurements."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import ACTIVATIONS, MODES, EngineOptions, Mode, ModelInfo, ModeSpeed
from llm_lite.core.quant.modes import again_sentence
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.reasons import draw_reason
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.measurements import draw_report, draw_tensors, draw_work
from llm_lite.desktop.features.quantization.model import RunTask, SetQuantization, ShowRuns
from llm_lite.desktop.features.quantization.state import Page
from llm_lite.desktop.features.remote.view import NO_MODES, draw_unreported
from llm_lite.desktop.language.core_words import translated, translated_stage
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import capital, quantity, rate, sentence, size
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_GAUGE, ICON_SAVE, ICON_SCALE, ICON_TRASH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    beside,
    button,
    facts,
    heading,
    popover,
    progress,
    text,
    tip,
    wrapped,
)

NOTE = mark(
    "Quantization stores several weights in a small block that shares one scale. Fewer bits "
    "mean fewer bytes to read for every token, and a little less exactness."
)


PAGES: tuple[tuple[Page, str], ...] = (
    ("modes", mark("Modes")), ("report", mark("Report")), ("tensors", mark("Tensors")),
)  # fmt: skip
ABOUT: dict[Mode, str] = {
    "as-stored": mark("The file's own blocks, multiplied as they are: nothing is lost."),
    "fp32": mark("32-bit floating point. Exact, and four bytes to read for every weight."),
    "fp16": mark("16-bit floating point. Practically the same as 32 bits."),
    "int8": mark("Blocks of 32 weights: 8 bits each and a scale. 8.5 bits a weight."),
    "int4": mark("Blocks of 32 weights: 4 bits each, a scale and a zero point. 4.5 bits a weight."),
}
ACTIVATION_HINTS = (
    mark("The fastest here"),
    mark("float32 activations: exact"),
    mark("int8 activations in blocks: integer dot products, faster, a little less exact"),
)
LIVE_ENCODER = mark("Takes effect at once: the text is encoded again.")
LIVE = mark(
    "Takes effect at the next token, in the middle of an answer too. The conversation stays."
)
MEASURE = mark("Runs every mode that fits into memory for some seconds: prompt, then answer.")
MEASURE_LABEL = mark("Measure")
KEEP = mark(
    "Write the weights in this mode to disk. The next time they are mapped from there: at once, "
    "and in memory that other programs can share."
)
KEPT = mark("It is mapped from there whenever this mode is chosen.")
KEPT_PANEL = "quantization.kept"
DROP = mark("Without it the mode is made in memory whenever it is chosen, and can be kept again.")
BASELINE = 0.8  # of the height of a line, from its top: small text stands on that of large text
TEACHES = mark(
    "For every token that is written all weights are read, so fewer bits a weight mean more tokens "
    "a second, and a little less exactness. How much of both is measured here, for this machine."
)
COMPARE = mark("Two modes answer one prompt, side by side")


def draw(state: AppState, ui: Ui) -> list[Action]:
    model, choices = state.model, state.quantization.choices
    if state.elsewhere:
        text(ui, tr("Quantization"), bold=True)
        draw_unreported(state, ui, NO_MODES)
        imgui.dummy(ImVec2(0, ui.u(1)))
        if button(ui, "quantization.compare", tr("Compare it with the model here"), ICON_SCALE):
            return [ShowRuns(True)]
        return []
    if model is None:
        text(ui, tr("Quantization"), bold=True)
        wrapped(ui, tr("No model is loaded."))
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        wrapped(ui, tr(TEACHES), "faint")
        return []
    page = chooser(ui, "quantization.page", tr_labels(PAGES), choices.page)
    actions: list[Action] = []
    if page != choices.page:
        actions.append(SetQuantization(replace(choices, page=page)))
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    if page == "report":
        if draw_reason(state, ui, "report"):
            return actions
        return actions + draw_report(state, ui)
    if page == "tensors":
        return actions + draw_tensors(state, ui)
    return actions + _draw_modes(state, ui, model)


def _draw_modes(state: AppState, ui: Ui, model: ModelInfo) -> list[Action]:
    options = state.options
    speeds = state.quantization.speeds
    with ui.styled(item_spacing=(ui.u(2), ui.u(0.25))):
        for mode in MODES:
            if _draw_mode(state, ui, model, mode):
                options = replace(options, mode=mode)
    if words := again(model, options.mode):
        wrapped(ui, words, "warning")
    imgui.dummy(ImVec2(0, ui.u(0.25)))
    options = _draw_activations(state, ui, options)
    actions: list[Action] = [SetOptions(options)] if options != state.options else []
    _draw_switching(state, ui)
    if not state.encodes:
        actions += _draw_measuring(state, ui)
    actions += _draw_keep(state, ui, model)
    for kind in ("modes", "keep", "drop"):
        actions += draw_work(state, ui, kind)
    if speeds:
        wrapped(
            ui,
            tr("On {device}, {reason}.").format(
                device=speeds.device, reason=translated(speeds.reason)
            ),
        )
    imgui.dummy(ImVec2(0, ui.u(1)))
    draw_stored(ui, model)
    _draw_facts(ui, model)
    return actions


def _draw_measuring(state: AppState, ui: Ui) -> list[Action]:
    """Draw the buttons that compare two modes and measure the speed of all."""
    actions: list[Action] = []
    free = state.quantization.work is None
    if not state.writes_targets:
        label = tr("Compare two modes")
        if button(ui, "quantization.compare", label, ICON_SCALE, tr(COMPARE)):
            actions.append(ShowRuns(True))
        beside(ui, tr(MEASURE_LABEL))
    if button(ui, "quantization.measure", tr(MEASURE_LABEL), ICON_GAUGE, tr(MEASURE), enabled=free):
        actions.append(RunTask("modes"))
    beside(ui, _keep_label(state))
    return actions


def _keep_label(state: AppState) -> str:
    mode = state.executor.mode if state.executor else ""
    return tr("Kept on disk") if state.model and mode in state.model.kept else tr("Keep on disk")


def _draw_keep(state: AppState, ui: Ui, model: ModelInfo) -> list[Action]:
    """Draw the button that keeps the mode in use on disk, or shows where it is kept."""
    mode = state.executor.mode if state.executor else "as-stored"
    kept = model.kept.get(mode, "")
    label = _keep_label(state)
    hint = tr(KEEP) if not kept else f"{kept}\n{tr(KEPT)}"
    if mode == "as-stored":
        hint = tr("This mode is the file's own. Choose another mode to save a converted copy.")
    free = state.quantization.work is None and state.load is None
    able = free and mode == state.options.mode != "as-stored"
    if button(ui, "quantization.keep", label, ICON_SAVE, hint, enabled=able):
        if not kept:
            return [RunTask("keep")]
        ui.opened = KEPT_PANEL
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    with popover(ui, KEPT_PANEL, label, ImVec2(low.x, high.y + ui.u(1)), ui.u(96)) as shown:
        return _draw_kept(ui, model, mode, kept, able) if shown else []


def _draw_kept(ui: Ui, model: ModelInfo, mode: Mode, kept: str, able: bool) -> list[Action]:
    """Draw where a mode is kept, and the button that deletes it there."""
    taken = size(model.mode_bytes.get(mode, 0))
    words = tr("{mode} takes about {size} on disk, in {place}")
    wrapped(ui, words.format(mode=mode, size=taken, place=kept))
    wrapped(ui, tr(DROP))
    if not button(ui, "quantization.drop", tr("Remove from disk"), ICON_TRASH, enabled=able):
        return []
    imgui.close_current_popup()
    return [RunTask("drop")]


def _draw_activations(state: AppState, ui: Ui, options: EngineOptions) -> EngineOptions:
    """Draw the choice of activations, and what `auto` chose."""
    at = imgui.get_cursor_pos()
    imgui.set_cursor_pos(ImVec2(at.x + ui.u(2), at.y + (ui.u(7.5) - ui.theme.size("small")) / 2))
    text(ui, tr("Activations"), "muted", "small")
    imgui.set_cursor_pos(ImVec2(at.x + ui.u(24), at.y))
    chosen = state.executor.activations if state.executor else ""
    auto = tr("auto: {chosen}") if chosen and options.activations == "auto" else tr("auto")
    auto = auto.format(chosen=chosen)
    hints = [tr(hint) for hint in ACTIVATION_HINTS]
    kinds = [(kind, auto if kind == "auto" else kind) for kind in ACTIVATIONS]
    name = "quantization.activations"
    return replace(options, activations=chooser(ui, name, kinds, options.activations, hints))


def _draw_mode(state: AppState, ui: Ui, model: ModelInfo, mode: Mode) -> bool:
    """Draw a mode: its name, a bar as long as it is large, its size, and its speed if known."""
    draw, at = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    width, height, pad = imgui.get_content_region_avail().x, ui.u(6.5), ui.u(2)
    name = f"quantization.mode.{mode}"
    clicked = press_area(name, ImVec2(max(width, 1.0), height))
    ui.mark(name)
    speed = _speed(state, mode)
    used = state.executor is not None and state.executor.mode == mode
    wanted = state.options.mode == mode
    end = ImVec2(at.x + width, at.y + height)
    if imgui.is_item_hovered() or wanted:
        fill = "accent_soft" if wanted else "hover"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    live = tr(LIVE_ENCODER if state.encodes else LIVE)
    tip(ui, f"{about(model, mode)}\n{place(model, mode)}\n{live}")
    small = ui.theme.size("small")
    y = int(at.y + (height - ui.theme.text) / 2 + 0.5)  # rows keep their distance: no half is even
    below = y + round((ui.theme.text - small) * BASELINE)
    font = ui.fonts["bold" if used else "regular"]
    draw.add_text(font, ui.theme.text, ImVec2(at.x + pad, y), ui.color("text"), mode)
    count = model.mode_bytes.get(mode, 0)
    left, right = at.x + ui.u(24), end.x - pad - ui.u(42)
    _draw_bar(ui, (left, at.y + height / 2), right - left, count, model, used)
    with ui.font(style="small"):
        words = size(count) if count else "–"
        spot = ImVec2(end.x - pad - ui.u(22) - imgui.calc_text_size(words).x, below)
        draw.add_text(spot, ui.color("text" if used else "muted"), words)
        words = f"{rate(speed.decode_tok_s)} tok/s" if speed else tr("in use") if used else ""
        spot = ImVec2(end.x - pad - imgui.calc_text_size(words).x, below)
        best = speed is not None and speed is _recommended(state)
        draw.add_text(spot, ui.color("good" if best else "muted"), words)
    return clicked and not wanted


def _draw_bar(
    ui: Ui, at: tuple[float, float], width: float, count: int, model: ModelInfo, used: bool
) -> None:
    """Draw a bar in proportion to the size of the mode, relative to the largest one."""
    largest = max(model.mode_bytes.values(), default=0)
    if not count or not largest or width <= 0:
        return
    draw, thick = imgui.get_window_draw_list(), ui.u(1.25)
    low = ImVec2(at[0], at[1] - thick / 2)
    high = ImVec2(at[0] + max(width * count / largest, thick), at[1] + thick / 2)
    draw.add_rect_filled(low, high, ui.color("accent" if used else "pressed"), thick / 2)


def _speed(state: AppState, mode: Mode) -> ModeSpeed | None:
    speeds = state.quantization.speeds
    return next((row for row in speeds.rows if row.mode == mode), None) if speeds else None


def _recommended(state: AppState) -> ModeSpeed | None:
    speeds = state.quantization.speeds
    return speeds.rows[speeds.recommended] if speeds else None


def about(model: ModelInfo, mode: Mode) -> str:
    """Describe a mode of this model."""
    if mode == "as-stored" and model.conversion:
        return tr("The file's own blocks, but {conversion}.").format(conversion=model.conversion)
    return "\n".join(filter(None, (tr(ABOUT[mode]), again(model, mode))))


def again(model: ModelInfo, mode: Mode) -> str:
    """Return what a mode loses by rounding weights a second time; "" where it does not."""
    share = model.rounded_again.get(mode, 0.0)
    error = model.again_error.get(mode, 0.0)
    return sentence(translated(again_sentence(mode, share, error))) if share else ""


def place(model: ModelInfo, mode: Mode) -> str:
    """Return a sentence that says where the weights of a mode lie."""
    if mode == "as-stored" and model.conversion:
        return tr("On disk: mapped from the file, but what is converted is made in memory.")
    if mode == "as-stored":
        return tr("On disk: mapped from the file, without copying.")
    if mode in model.kept:
        return tr("On disk: mapped from {place}, without copying.").format(place=model.kept[mode])
    return tr("Made in memory when it is chosen, in the background.")


def _draw_switching(state: AppState, ui: Ui) -> None:
    """Draw the progress of the change, while the answer goes on; the header can cancel it."""
    if state.load is None:
        return
    mode = state.load.mode or state.options.mode
    words = f"{capital(translated_stage(state.load.stage))}  ·  {mode}"
    progress(ui, words, state.load.fraction)
    ui.mark("quantization.switching")


def _draw_facts(ui: Ui, model: ModelInfo) -> None:
    total = sum(model.stored_formats.values())
    bits = 8 * total / model.parameters if model.parameters else 0.0
    facts(
        ui,
        "weights",
        [
            (tr("Parameters"), quantity(model.parameters), tr("Number of weights.")),
            (
                tr("Bits a weight"),
                f"{bits:.2f}",
                tr("Bytes of all weights in the file by their number."),
            ),
            (tr("File"), size(model.file_bytes), tr("Weights, vocabulary and description.")),
            (tr("In memory"), size(model.weight_bytes), tr("As the executor uses them.")),
        ],
    )


def draw_stored(ui: Ui, model: ModelInfo) -> None:
    """Draw a bar and a table of the file's formats."""
    heading(ui, tr("Stored weights"), tr(NOTE))
    formats = sorted(model.stored_formats.items(), key=lambda item: -item[1])
    total = sum(model.stored_formats.values())
    if total:
        _draw_stored_bar(ui, formats, total)
        _draw_table(ui, model, formats, total)
    if model.conversion:
        wrapped(ui, tr("As stored, {conversion}.").format(conversion=model.conversion))
        ui.mark("quantization.conversion")


def _draw_stored_bar(ui: Ui, formats: list[tuple[str, int]], total: int) -> None:
    """Draw one bar of the whole width, split by bytes."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height, gap = imgui.get_content_region_avail().x, ui.u(5), ui.u(0.5)
    x = at.x
    for number, (_, count) in enumerate(formats):
        share = max(count / total * (width - gap * (len(formats) - 1)), ui.u(0.5))
        end = ImVec2(min(x + share, at.x + width), at.y + height)
        draw.add_rect_filled(ImVec2(x, at.y), end, ui.color_of_series(number), ui.u(1))
        x += share + gap
    imgui.dummy(ImVec2(width, height))
    ui.mark("quantization.bar")


def _draw_table(ui: Ui, model: ModelInfo, formats: list[tuple[str, int]], total: int) -> None:
    if not imgui.begin_table("formats", 4, imgui.TableFlags_.sizing_stretch_prop):
        return
    small = ui.theme.size("small")
    imgui.table_setup_column("", imgui.TableColumnFlags_.width_fixed, small)
    with ui.font(style="small"):
        for number, (name, count) in enumerate(formats):
            imgui.table_next_row()
            imgui.table_next_column()
            at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
            inset = ui.u(0.5)
            low = ImVec2(at.x + inset, at.y + inset)
            high = ImVec2(at.x + small - inset, at.y + small - inset)
            draw.add_rect_filled(low, high, ui.color_of_series(number), ui.u(0.5))
            for words in (name.upper(), size(count), f"{count / total:.1%}"):
                imgui.table_next_column()
                imgui.text_unformatted(words)
                tip(ui, translated(model.format_notes.get(name, "")))
    imgui.end_table()
