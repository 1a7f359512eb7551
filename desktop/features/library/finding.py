"""Models of the hub: a short list first, then the results of a search. Nothing is sent over the
network before Search is pressed."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages.library import CuratedModel, HubModel, LocalModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.library import hub_details, split
from llm_lite.desktop.features.library.model import (
    ChooseRepo,
    ForgetFound,
    ReadRepo,
    SearchHub,
    SetSearch,
)
from llm_lite.desktop.features.library.state import HubSearch, LibraryState
from llm_lite.desktop.features.library.words import context
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, number, tr, tr_labels, trn
from llm_lite.desktop.language.units import quantity, sentence, size
from llm_lite.desktop.widgets.by_keyboard import FLAT, is_on_its_way, press_area
from llm_lite.desktop.widgets.controls import picker, toggle
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_DOWNLOAD, ICON_LOCK, ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, primary_button, tip, wrapped

CURATED = mark("Good on this machine")
CURATED_NOTE = mark(
    "A short list that comes with this program. Memory is given for a context of 4,096 tokens."
)
BACK = mark("Back to the short list")
NOTHING = mark("The hub has found nothing for this. Fewer words or filters find more.")


class Card(Struct, frozen=True):
    """A row for a model; `badges` are (icon, words, colour)."""

    repo: str
    title: str
    corner: str  # at the right of the title
    line: str
    note: str
    badges: tuple[tuple[str, str, str], ...] = ()


class HeldCards(Struct):
    """The cards, with what they were made of."""

    source: Sequence[object]
    local: tuple[LocalModel, ...] | None
    key: tuple[object, ...]
    cards: list[Card]


class FindControls(Struct):
    held: HeldCards | None = None


LONGEST_WORDS = 200  # characters
TASKS: tuple[tuple[str, str], ...] = (
    ("text-generation", mark("Task: text")),
    ("image-text-to-text", mark("Task: text and pictures")),
    ("", mark("Task: any")),
)
LICENCES: tuple[tuple[str, str], ...] = (
    ("", mark("Licence: any")),
    ("apache-2.0", "Apache 2.0"),
    ("mit", "MIT"),
    ("gemma", "Gemma"),
    ("llama3.2", "Llama 3.2"),
    ("cc-by-4.0", "CC BY 4.0"),
)
SIZES: tuple[tuple[str, str], ...] = (
    ("0", mark("Size: any")),
    (str(1 << 30), mark("Size: up to 1 GiB")),
    (str(4 << 30), mark("Size: up to 4 GiB")),
    (str(10 << 30), mark("Size: up to 10 GiB")),
    (str(40 << 30), mark("Size: up to 40 GiB")),
)
RUNNABLE = mark("Only what runs here")
RUNNABLE_HINT = mark("Architectures and formats that this build knows")
OFFLINE = mark(
    "Nothing is sent over the network until you press Search or Enter. Then {hub}"
    " gets the contents of these fields."
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    library = state.library
    actions = _draw_fields(library, ui)
    if library.find_problem:
        wrapped(ui, sentence(library.find_problem), "error")
    if library.found is None and library.searching is None:
        wrapped(ui, tr(OFFLINE).format(hub=library.hub.partition("://")[2] or library.hub))
    with split.split(ui, "library.find", bool(library.repo)) as (first, second):
        with first as is_shown:
            if is_shown:
                actions += draw_cards(state, ui)
        with second as is_shown:
            if is_shown:
                actions += hub_details.draw(state, ui)
    return actions


def _draw_fields(library: LibraryState, ui: Ui) -> list[Action]:
    search = library.search
    rests, works = tr("Search"), tr("Searching")
    label = works if library.searching is not None else rests
    both = max(imgui.calc_text_size(words).x for words in (rests, works))
    wide = both + 4 * imgui.get_style().frame_padding.x
    imgui.set_next_item_width(min(ui.u(120), imgui.get_content_region_avail().x - wide - ui.u(3)))
    hint = tr("Words, or owner/name")
    flags = imgui.InputTextFlags_.enter_returns_true
    entered, words = imgui.input_text_with_hint("##library.words", hint, search.words, flags)
    ui.mark("library.words")
    words = words[:LONGEST_WORDS]
    imgui.same_line()
    same = library.searching == replace(search, words=words)
    pressed = primary_button(ui, "library.search", label, enabled=not same, width=wide)
    changed = _draw_filters(replace(search, words=words), ui)
    actions: list[Action] = [SetSearch(changed)] if changed != search else []
    if (pressed or entered) and not same:
        actions.append(SearchHub())
    return actions


def _draw_filters(search: HubSearch, ui: Ui) -> HubSearch:
    """Draw the filters in one line, or as many as they need."""
    right = imgui.get_cursor_pos_x() + imgui.get_content_region_avail().x
    task = _filter(ui, "library.task", tr_labels(TASKS), search.task, right, first=True)
    largest = _filter(ui, "library.largest", tr_labels(SIZES), str(search.largest), right)
    licence = _filter(ui, "library.licence", tr_labels(LICENCES), search.licence, right)
    wide = ui.u(10) + imgui.calc_text_size(tr(RUNNABLE)).x
    _flow(wide, right, ui)
    runnable = toggle(ui, "library.runnable", tr(RUNNABLE), search.runnable, tr(RUNNABLE_HINT))
    return replace(search, task=task, largest=int(largest), licence=licence, runnable=runnable)


def _filter(
    ui: Ui, name: str, options: list[tuple[str, str]], value: str, right: float, first: bool = False
) -> str:
    with ui.font(style="small"):
        widest = max(imgui.calc_text_size(label).x for _, label in options)
    wide = widest + ui.u(10)
    if not first:
        _flow(wide, right, ui)
    return picker(ui, name, options, value, wide)


def _flow(width: float, right: float, ui: Ui) -> None:
    """Continue the line where there is room for something this wide."""
    imgui.same_line(0, ui.u(2))
    if imgui.get_cursor_pos_x() + width > right:
        imgui.new_line()


def draw_cards(state: AppState, ui: Ui) -> list[Action]:
    library, actions = state.library, list[Action]()
    if library.found is None:
        if library.curated:
            heading(ui, tr(CURATED), tr(CURATED_NOTE))
    else:
        actions += _draw_count(library, ui, library.found)
    held = _held(state, ui)
    return actions + _draw_cards(state, ui, held)


def _draw_count(library: LibraryState, ui: Ui, found: tuple[HubModel, ...]) -> list[Action]:
    if not found:
        wrapped(ui, tr(NOTHING))
    words = trn("{n:,} model, by downloads", "{n:,} models, by downloads", len(found))
    words = words.format(n=len(found))
    if library.found_for.words:
        words = f"{words}: {library.found_for.words}"
    label = tr(BACK)
    width = imgui.calc_text_size(label).x + 2 * imgui.get_style().frame_padding.x
    at, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    with ui.font(style="small"):
        y = round(at.y + (imgui.get_frame_height() - imgui.get_font_size()) / 2)
        shown = fit(words, room - width - ui.u(4))
        imgui.get_window_draw_list().add_text(ImVec2(at.x, y), ui.color("muted"), shown)
    imgui.set_cursor_pos_x(ui.right(width))
    if button(ui, "library.curated", label):
        return [ForgetFound()]
    return []


def _held(state: AppState, ui: Ui) -> list[Card]:
    """Return the cards, made again when the models, the free memory or the language change."""
    library = state.library
    source: Sequence[object] = library.curated if library.found is None else library.found
    free = (state.memory_available or 0) >> 28  # a quarter of a GiB makes no other card
    key = (number(), free, library.found is None)
    controls, local = ui.local(FindControls), library.local
    held = controls.held
    if held is None or held.source is not source or held.local is not local or held.key != key:
        if library.found is None:
            made = [_of_curated(model, state.memory_available) for model in library.curated]
        else:
            here = {model.repo for model in library.local or ()}
            made = [_of_hub(model, here) for model in library.found]
        held = controls.held = HeldCards(source, local, key, made)
    return held.cards


def _of_curated(model: CuratedModel, free: int | None) -> Card:
    line = tr("{size} to fetch, {memory} of memory, {licence}").format(
        size=size(model.size), memory=size(model.memory), licence=model.licence
    )
    badges: tuple[tuple[str, str, str], ...] = ()
    if free is not None and model.memory > free:
        badges = ((ICON_WARNING, tr("needs more memory than is free"), "warning"),)
    elif free is not None:
        badges = ((ICON_CHECK, tr("fits"), "good"),)
    note = tr("{reason} Chosen on {date}.").format(reason=model.reason, date=model.date)
    return Card(model.repo, model.title, model.repo, line, note, badges)


def _of_hub(model: HubModel, here: set[str]) -> Card:
    owner, _, name = model.repo.rpartition("/")
    parts = [owner] if owner else []
    if model.parameters:
        parts.append(tr("{n} parameters").format(n=quantity(model.parameters)))
    if model.context:
        parts.append(tr("context {n}").format(n=context(model.context)))
    parts.append(model.licence or tr("licence unknown"))
    badges: list[tuple[str, str, str]] = []
    if model.repo in here:
        badges.append((ICON_CHECK, tr("on this machine"), "good"))
    if model.gated:
        badges.append((ICON_LOCK, tr("gated"), "warning"))
    if not model.runnable:
        badges.append((ICON_WARNING, tr("cannot run here"), "warning"))
    corner = f"{ICON_DOWNLOAD} {model.downloads:,}"
    note = model.description or _files(model)
    return Card(model.repo, name, corner, "  ·  ".join(parts), note, tuple(badges))


def _files(model: HubModel) -> str:
    """Return formats with their sizes, as many as a line may hold."""
    files = [
        f"{file.format or file.name} {size(file.size)}" if file.size else file.format or file.name
        for file in model.files[:12]
    ]
    return "  ·  ".join(files) or tr("It has no file that this build knows.")


def _draw_cards(state: AppState, ui: Ui, held: list[Card]) -> list[Action]:
    imgui.begin_child("library.cards", ImVec2(0, 0), FLAT)
    actions: list[Action] = []
    height = ui.theme.text + 2 * ui.theme.size("small") + ui.u(8)
    step = height + ui.u(1)
    low = imgui.get_scroll_y()
    first = max(0, int(low / step))
    last = int((low + imgui.get_window_height()) / step) + 1
    if is_on_its_way():  # the next card is there to go to
        first, last = max(0, first - 2), last + 2
    for index in range(first, min(last, len(held))):
        imgui.set_cursor_pos(ImVec2(0, index * step))
        actions += _draw_card(state, ui, held[index], height)
    imgui.set_cursor_pos(ImVec2(0, len(held) * step))
    imgui.dummy(ImVec2(1, 1))
    imgui.end_child()
    return actions


def _draw_card(state: AppState, ui: Ui, card: Card, height: float) -> list[Action]:
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x - ui.u(1)
    name = f"library.card.{card.repo}"
    clicked = press_area(name, ImVec2(max(width, 1.0), height))
    ui.mark(name)
    chosen = state.library.repo == card.repo
    draw, end = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + height)
    if imgui.is_item_hovered() or chosen:
        fill = "accent_soft" if chosen else "hover"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    cut = _draw_words(ui, card, (at.x + ui.u(2), at.y + ui.u(2)), width - ui.u(4))
    tip(ui, f"{card.title}\n{card.note}" if cut else "")
    if not clicked or chosen:
        return []
    if state.library.found is None or card.repo in state.library.repos:
        return [ChooseRepo(card.repo)]
    return [ChooseRepo(card.repo), ReadRepo(card.repo)]  # the hub was asked already


def _draw_words(ui: Ui, card: Card, at: tuple[float, float], width: float) -> bool:
    """Draw the texts of a card, and return whether something had to be cut."""
    draw, (x, y), small = imgui.get_window_draw_list(), at, ui.theme.size("small")
    with ui.font(style="small"):
        corner = fit(card.corner, width * 0.45)
        taken = imgui.calc_text_size(corner).x
        spot = ImVec2(round(x + width - taken), round(y + ui.theme.text - small))
        draw.add_text(spot, ui.color("muted"), corner)
    with ui.font("bold"):
        title = fit(card.title, width - taken - ui.u(3))
        draw.add_text(ImVec2(x, y), ui.color("text"), title)
    y += ui.theme.text + ui.u(1.5)
    with ui.font(style="small"):
        end = x + width
        for icon, words, color in reversed(card.badges):
            badge = f"{icon} {words}"
            end -= imgui.calc_text_size(badge).x
            draw.add_text(ImVec2(end, y), ui.color(color), badge)
            end -= ui.u(3)
        line = fit(card.line, end - x)
        draw.add_text(ImVec2(x, y), ui.color("muted"), line)
        y += small + ui.u(1)
        note = fit(card.note, width)
        draw.add_text(ImVec2(x, y), ui.color("faint"), note)
    return title != card.title or line != card.line or note != card.note
