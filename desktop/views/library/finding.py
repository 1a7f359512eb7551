"""Models of the hub: a short list first, then what a search found. Nothing is asked of the network
before Search is pressed."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.library.showing import SearchHub, SetSearch
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.state.library.library_state import HubSearch, LibraryState
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import sentence
from llm_lite.desktop.views.library import cards, hub_details, split
from llm_lite.desktop.widgets.controls import picker, toggle
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import primary_button, wrapped

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
                actions += cards.draw(state, ui)
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
    """In one line, or as many as they need."""
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
    """On the same line where there is room."""
    imgui.same_line(0, ui.u(2))
    if imgui.get_cursor_pos_x() + width > right:
        imgui.new_line()
