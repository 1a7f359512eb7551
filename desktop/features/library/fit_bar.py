"""The memory that a model takes, part by part, beside what is free, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imgui_bundle import ImVec2, imgui

from llm_lite.core.hub.fit.recommend import HEADROOM
from llm_lite.core.messages import MODES, Mode
from llm_lite.core.messages.library import Fit, LocalModel, MemoryPart
from llm_lite.core.quant.modes import again_sentence
from llm_lite.desktop.features.library.model import SetFitOptions
from llm_lite.desktop.features.library.state import FitAnswer, LibraryState, fitting, modes_of
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import rate, sentence, size
from llm_lite.desktop.widgets.controls import chooser, picker
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_CLOSE, ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import meter, text, tip, wrapped

PARTS: dict[str, tuple[str, str]] = {
    "weights": (mark("Weights"), mark("The weights in the chosen mode.")),
    "cache": (mark("Cache"), mark("Keys and values of all tokens of the context.")),
    "scratch": (mark("Scratch"), mark("Temporary buffers of a step.")),
    "maps": (mark("Maps"), mark("Queries that attention maps are drawn from.")),
    "program": (mark("Program"), mark("This program without a model: window, Python, libraries.")),
}
CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
MODE_HINTS = (
    mark("The file's own blocks"),
    mark("4 bytes a weight"),
    mark("2 bytes a weight"),
    mark("8.5 bits a weight"),
    mark("4.5 bits a weight"),
)
SPEED = mark(
    "For each token all weights and the cache are read once. This is what the measured speed of "
    "the memory allows; the program itself may be slower."
)
ROUGH = mark(
    "Estimated by the size of the file, before anything is fetched: the cache may be a third or "
    "three times as large."
)
INSTEAD = ((" would fit", mark("{what} would fit")), (" fits", mark("{what} fits")))
UNKNOWN_FITS: Mapping[Mode, Fit] = {}
HEIGHT = 4.0  # of a bar, in spacing units


def draw_local_options(state: AppState, ui: Ui, model: LocalModel) -> list[Action]:
    """Draw the options of a local model, with a sign at each mode, and the recommended mode."""
    fits, best = modes_of(state.library, state.options, model.name)
    actions = draw_options(state.library, ui, model.context, fits)
    if best is not None:
        wrapped(ui, tr("Recommended here: {mode}.").format(mode=best), "link")
    return actions


def draw_options(
    library: LibraryState, ui: Ui, trained: int, fits: Mapping[Mode, Fit] = UNKNOWN_FITS
) -> list[Action]:
    """Draw the choice of the mode and the context that the fit is estimated for."""
    text(ui, tr("Will it fit?"), bold=True)
    hints = [tr(hint) for hint in MODE_HINTS]
    modes = [(mode, f"{mode}{_sign(fits.get(mode))}") for mode in MODES]
    mode = chooser(ui, "library.fit.mode", modes, library.mode, hints)
    most, context = trained or CONTEXTS[-1], fitting(library.context, trained)
    sizes = sorted({*(c for c in CONTEXTS if c <= most), context, *((trained,) * bool(trained))})
    options = [(str(count), tokens_of(count)) for count in sizes]
    width = min(imgui.get_content_region_avail().x, ui.u(60))
    hint = tr("How many tokens the model can use at once")
    chosen = picker(ui, "library.fit.context", options, str(context), width, hint)
    if mode != library.mode or int(chosen) != context:
        return [SetFitOptions(mode, library.context if int(chosen) == context else int(chosen))]
    return []


def _sign(fit: Fit | None) -> str:
    return "" if fit is None else f" {ICON_CHECK if fit.fits else ICON_CLOSE}"


def tokens_of(count: int) -> str:
    return tr("Context of {n:,} tokens").format(n=count)


def draw_answer(ui: Ui, answer: FitAnswer | None) -> None:
    """Draw an estimate, or that it is being made."""
    if answer is None:
        wrapped(ui, tr("Estimating."))
        return
    if answer.fit is None:
        wrapped(ui, sentence(answer.problem), "muted")
        return
    draw_fit(ui, answer.fit)
    if answer.rough:
        wrapped(ui, tr(ROUGH))


def draw_fit(ui: Ui, fit: Fit) -> None:
    for label, parts, free in _bars(fit):
        taken = sum(count for _, count in parts)
        if label:
            text(ui, label, "muted", "small")
        _draw_parts(ui, parts, taken, free)
        _draw_share(ui, taken, free)
        _draw_verdict(ui, taken, free)
    if fit.rounded_again:
        lost = again_sentence(fit.mode, fit.rounded_again)
        wrapped(ui, sentence(translated(lost)), "warning")
    if fit.instead:
        wrapped(ui, sentence(translated_instead(fit.instead)), "text")
    _draw_speed(ui, fit)
    _draw_legend(ui, fit.parts)
    ui.mark("library.fit")


def translated_instead(words: str) -> str:
    """Translate core's sentence on the one or two settings that would fit."""
    for end, whole in INSTEAD:
        if words.endswith(end):
            what = [translated(part) for part in words.removesuffix(end).split(" or ")]
            joined = what[0]
            for other in what[1:]:
                joined = tr("{one} or {other}").format(one=joined, other=other)
            return tr(whole).format(what=joined)
    return translated(words)


def _bars(fit: Fit) -> list[tuple[str, list[tuple[str, int]], int | None]]:
    """Return (label, parts in bytes, free bytes) for the memory of the system and of the device."""
    host = [(part.name, part.host) for part in fit.parts]
    device = [(part.name, part.device) for part in fit.parts]
    both = any(count for _, count in device)
    found = [(tr("Memory") if both else "", host, fit.host_free)]
    if both:
        found.append((tr("Memory of the device"), device, fit.device_free))
    return [(label, [(n, c) for n, c in parts if c > 0], free) for label, parts, free in found]


def _draw_parts(ui: Ui, parts: Sequence[tuple[str, int]], taken: int, free: int | None) -> None:
    """Draw the parts over the whole width, and a line where free memory ends, if it ends before."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, ui.u(HEIGHT)
    x = at.x
    for name, count in parts:
        end = x + width * count / max(taken, 1)
        edge = max(end - ui.u(0.25), x + 1)
        draw.add_rect_filled(ImVec2(x, at.y), ImVec2(edge, at.y + height), _color(ui, name))
        x = end
    if free is not None and free < taken:
        middle = at.x + width * free / taken
        low = ImVec2(middle - ui.u(0.25), at.y - ui.u(1))
        high = ImVec2(middle + ui.u(0.25), at.y + height + ui.u(1))
        draw.add_rect_filled(low, high, ui.color("error"))
    imgui.dummy(ImVec2(width, height))
    words = [f"{tr(PARTS[name][0])}: {size(count)}" for name, count in parts]
    if free is not None:
        words.append(tr("Free: {size}").format(size=size(free)))
    tip(ui, "\n".join(words))


def _draw_share(ui: Ui, taken: int, free: int | None) -> None:
    """Draw the share of the free memory that is taken."""
    if free is None:
        return
    share = taken / max(free, 1)
    color = "error" if share > 1 else "warning" if share > HEADROOM else "good"
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(0.75))
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(1.25), color)


def _draw_verdict(ui: Ui, taken: int, free: int | None) -> None:
    if free is None:
        words = tr("It takes {taken}. The system does not report free memory.")
        wrapped(ui, words.format(taken=size(taken)))
        return
    fits = taken <= free
    good = tr("It fits: {taken} of {free} that are free.")
    bad = tr("It does not fit: it takes {taken}, and {free} are free.")
    words = (good if fits else bad).format(taken=size(taken), free=size(free))
    icon = ICON_CHECK if fits else ICON_WARNING
    wrapped(ui, f"{icon}  {words}", "good" if fits else "error")


def _draw_speed(ui: Ui, fit: Fit) -> None:
    if fit.active_bytes:
        whole = sum(part.host + part.device for part in fit.parts if part.name == "weights")
        words = tr("A token reads {active} of {whole}: only the experts that it chooses.")
        wrapped(ui, words.format(active=size(fit.active_bytes), whole=size(whole + fit.in_file)))
    if fit.in_file:
        words = tr(
            "There is no room for all experts: {size} of them stay in the file, and what memory "
            "does not hold comes from the disk when it is chosen."
        )
        wrapped(ui, words.format(size=size(fit.in_file)), "warning")
    if not fit.writes:
        return
    if fit.speed is None:
        wrapped(ui, tr("Speed: unknown, as this machine's memory was not measured yet."))
        return
    words = tr("Speed: at most {rate} tokens a second, by the memory's bandwidth.")
    wrapped(ui, words.format(rate=rate(fit.speed)))
    tip(ui, tr(SPEED))


def _draw_legend(ui: Ui, parts: Sequence[MemoryPart]) -> None:
    """Draw each colour once, with its part's memory, as many in a line as there is room for."""
    small, square = ui.theme.size("small"), ui.u(2.5)
    start, room = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x
    x = 0.0
    for part in parts:
        total = part.host + part.device
        if total <= 0:
            continue
        label, hint = PARTS[part.name]
        words = f"{tr(label)} {size(total)}"
        with ui.font(style="small"):
            width = square + ui.u(1.5) + imgui.calc_text_size(words).x
            if x and x + width <= room:
                imgui.same_line(start + x)
            else:
                x = 0.0
            at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
            low = ImVec2(at.x, round(at.y + (small - square) / 2))
            end = ImVec2(low.x + square, low.y + square)
            draw.add_rect_filled(low, end, _color(ui, part.name), ui.u(0.5))
            draw.add_text(ImVec2(end.x + ui.u(1.5), at.y), ui.color("muted"), words)
            imgui.dummy(ImVec2(width, small))
            tip(ui, tr(hint))
        x += width + ui.u(4)


def _color(ui: Ui, name: str) -> int:
    return ui.color_of_series(list(PARTS).index(name))
