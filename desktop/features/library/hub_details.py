"""The details of a repository of the hub: its files, the one that fits best, and its download."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.library import CuratedModel, HubFile, HubModel
from llm_lite.desktop.features.library import fit_bar, quantizing
from llm_lite.desktop.features.library.model import ChooseHubFile, ChooseRepo, FetchModel, ReadRepo
from llm_lite.desktop.features.library.state import (
    LibraryState,
    fit_of_file,
    here,
    is_queued,
    recommended,
)
from llm_lite.desktop.features.library.words import UNKNOWN, bytes_of, context_in_full, parameters
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenLink, OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import sentence, size
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CLOSE,
    ICON_DOWNLOAD,
    ICON_LINK,
    ICON_LOCK,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    facts,
    fit,
    icon_button,
    primary_button,
    text,
    tip,
    wrapped,
)

GATED = mark(
    "Gated: its owner wants a licence to be accepted first. Accept it on its page, then set "
    "HF_TOKEN to a token of your account and start this program again."
)
HERE = mark("It lies on this machine already.")
READ_FILES = mark("Ask the hub for its files")
ROW = 8.5  # spacing units
SHOWN_FILES = 40  # drawn; a repository of hundreds of files says how many more there are


def draw(state: AppState, ui: Ui) -> list[Action]:
    library = state.library
    model, known = library.hub_model(library.repo), library.curated_model(library.repo)
    actions = _draw_title(ui, library, known.title if known is not None else library.repo)
    if library.repo_problem:
        wrapped(ui, sentence(library.repo_problem), "error")
    if known is not None:
        _draw_curated(ui, known)
    if model is None or not model.files:
        return actions + _draw_unread(state, ui, known)
    return actions + _draw_model(state, ui, model)


def _draw_title(ui: Ui, library: LibraryState, title: str) -> list[Action]:
    side = ui.u(6)
    right = ui.right(side)
    with ui.font("bold", "title"):
        words = fit(title, imgui.get_content_region_avail().x - side - ui.u(2))
        imgui.text_unformatted(words)
        tip(ui, title if words != title else "")
    imgui.same_line(right)
    label = tr("Close the details")
    if icon_button(ui, "library.details.close", ICON_CLOSE, label, side=side, style="small"):
        return [ChooseRepo("")]
    page = f"{library.hub}/{library.repo}"
    name = fit(library.repo, ui.u(70)) if title != library.repo else tr("Its page on the hub")
    if button(ui, "library.page", name, ICON_LINK, page):
        return [OpenLink(page)]
    return []


def _draw_curated(ui: Ui, known: CuratedModel) -> None:
    wrapped(ui, known.reason, "text")
    words = tr("Chosen on {date}, {licence}.").format(date=known.date, licence=known.licence)
    wrapped(ui, words)


def _draw_unread(state: AppState, ui: Ui, known: CuratedModel | None) -> list[Action]:
    """Draw a download for a repository that only the short list describes."""
    library, actions = state.library, list[Action]()
    if known is not None:
        words = tr("{file}: {size} to fetch, {memory} of memory with 4,096 tokens.")
        wrapped(
            ui,
            words.format(file=known.file, size=size(known.size), memory=size(known.memory)),
            "text",
        )
        fetched = FetchModel(known.repo, known.file, known.size)
        actions += _draw_fetch(state, ui, fetched, True)
        imgui.same_line()
    asking = library.opening == library.repo
    label = tr("Asking the hub") if asking else tr(READ_FILES)
    if button(ui, "library.read", label, enabled=not asking):
        actions.append(ReadRepo(library.repo))
    return actions


def _draw_model(state: AppState, ui: Ui, model: HubModel) -> list[Action]:
    library, actions = state.library, list[Action]()
    if model.gated:
        wrapped(ui, f"{ICON_LOCK}  {tr(GATED)}", "warning")
    if model.problem:
        wrapped(ui, f"{ICON_WARNING}  {sentence(model.problem)}", "warning")
    if model.description:
        wrapped(ui, model.description)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    best = recommended(library, state.options, model)
    chosen = next((file for file in model.files if file.name == library.file), best)
    chosen = chosen or next((file for file in model.files if not file.problem), None)
    actions += _draw_files(state, ui, model, best, chosen)
    if chosen is not None:
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        actions += _draw_buttons(state, ui, model, chosen)
        if not chosen.problem and model.runnable:
            imgui.dummy(ImVec2(0, ui.u(1)))
            actions += fit_bar.draw_options(library, ui, model.context)
            question = fit_of_file(library, state.options, model.repo, chosen)
            fit_bar.draw_answer(ui, library.fits.get(question))
    imgui.dummy(ImVec2(0, ui.u(1)))
    _draw_facts(ui, model)
    return actions


def _draw_files(
    state: AppState, ui: Ui, model: HubModel, best: HubFile | None, chosen: HubFile | None
) -> list[Action]:
    actions: list[Action] = []
    text(ui, tr("Files"), bold=True)
    with ui.styled(item_spacing=(ui.u(2), ui.u(0.25))):
        for file in model.files[:SHOWN_FILES]:
            if _draw_file(state, ui, model, file, file is best, file is chosen):
                actions.append(ChooseHubFile(file.name))
    more = len(model.files) - SHOWN_FILES
    if more > 0:
        words = trn("and {n:,} file more", "and {n:,} files more", more)
        wrapped(ui, words.format(n=more))
    return actions


def _draw_file(
    state: AppState, ui: Ui, model: HubModel, file: HubFile, best: bool, chosen: bool
) -> bool:
    """Draw a row: the format or the name, the size, and whether it fits."""
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    height, name = ui.u(ROW), f"library.file.{file.name}"
    clicked = press_area(name, ImVec2(max(width, 1.0), height))
    ui.mark(name)
    draw, end = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + height)
    if imgui.is_item_hovered() or chosen:
        fill = "accent_soft" if chosen else "hover"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    answer = state.library.fits.get(fit_of_file(state.library, state.options, model.repo, file))
    fits = answer.fit.fits if answer is not None and answer.fit is not None else None
    icon, color = (ICON_CHECK, "good") if fits else (ICON_WARNING, "warning")
    shown = icon if fits is not None or file.problem else ""
    right = end.x - ui.u(2) - ui.u(5)
    y = int(at.y + (height - ui.theme.size("small")) / 2 + 0.5)  # no half is even
    with ui.font(style="small"):
        draw.add_text(ImVec2(right + ui.u(1), y), ui.color(color), shown)
        weight = bytes_of(file.size)
        right -= imgui.calc_text_size(weight).x
        draw.add_text(ImVec2(right, y), ui.color("muted"), weight)
        if best:
            badge = tr("recommended")
            right -= imgui.calc_text_size(badge).x + ui.u(3)
            draw.add_text(ImVec2(right, y), ui.color("link"), badge)
    with ui.font("bold" if chosen else "regular", "small"):
        words = fit(_title(file), right - at.x - ui.u(4))
        draw.add_text(ImVec2(at.x + ui.u(2), y), ui.color("text"), words)
    hints = [file.name] if words != _title(file) or file.form == "huggingface" else []
    if len(file.parts) > 1:
        hints.append(trn("{n} file", "{n} files", len(file.parts)).format(n=len(file.parts)))
    if file.problem:
        hints.append(sentence(file.problem))
    tip(ui, "\n".join(hints))
    return clicked


def _title(file: HubFile) -> str:
    kind = tr("Safetensors checkpoint") if file.form == "huggingface" else file.name
    return f"{file.format}  ·  {kind}" if file.format else kind


def _draw_buttons(state: AppState, ui: Ui, model: HubModel, file: HubFile) -> list[Action]:
    able = model.runnable and not file.problem
    fetched = FetchModel(model.repo, file.name, file.size)
    actions = _draw_fetch(state, ui, fetched, able)
    is_here = here(state.library, model.repo, file.name) is not None
    return actions + quantizing.draw_hub(ui, model, file, able, is_here=is_here)


def _draw_fetch(state: AppState, ui: Ui, fetched: FetchModel, able: bool) -> list[Action]:
    """Draw a download, or the way to open what is on this machine."""
    library = state.library
    known = here(library, fetched.repo, fetched.file)
    if known is not None:
        if primary_button(ui, "library.open_here", tr("Open"), tr(HERE), state.load is None):
            return [OpenModel(str(known.path))]
        return []
    queued = is_queued(library, fetched.repo, fetched.file)
    label = tr("In the queue") if queued else tr("Download")
    if primary_button(ui, "library.download", label, enabled=able and not queued):
        return [fetched]
    return []


def _draw_facts(ui: Ui, model: HubModel) -> None:
    rows = [
        (tr("Architecture"), model.architecture or tr(UNKNOWN), ""),
        (tr("Parameters"), parameters(model.parameters), tr("Number of weights.")),
        (tr("Context"), context_in_full(model.context), tr("What it was trained for.")),
        (tr("Licence"), model.licence or tr(UNKNOWN), tr("As its page says.")),
        (tr("Task"), model.task or tr(UNKNOWN), ""),
        (tr("Downloads"), f"{ICON_DOWNLOAD} {model.downloads:,}", tr("Of the last 30 days.")),
        (tr("Updated"), model.updated or tr(UNKNOWN), ""),
        (
            tr("Revision"),
            model.revision or tr(UNKNOWN),
            tr("The newest commit when the hub was asked."),
        ),
    ]
    facts(ui, "library.hub_facts", rows)
