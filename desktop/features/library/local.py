"""The models on this machine: filtered as one types, sorted by a column, variants below their
source. Only the rows in sight are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.features.library import local_details, split
from llm_lite.desktop.features.library.model import (
    ChooseImport,
    ChooseLocal,
    ImportLocal,
    ShowLibrary,
)
from llm_lite.desktop.features.library.words import ORIGINS, context
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, number, tr
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.by_keyboard import FLAT, is_on_its_way, press_area
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CHEVRON_DOWN,
    ICON_CHEVRON_UP,
    ICON_FOLDER_OPEN,
    ICON_NEW,
    ICON_WARNING,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, popover, primary_button, tip, wrapped

PANEL, PATH = "library.import", "library.import.path"
LONGEST_PATH = 4096  # characters
ABOUT = mark(
    "A GGUF file, a folder with config.json and safetensors, or a variant. It is remembered where "
    "it lies: nothing is copied."
)
WIDTH = 96.0  # spacing units
LABEL = mark("Import")


Column = Literal["name", "format", "size", "context", "licence", "place"]
# Width in spacing units (the name takes the rest), title, whether it is a number.
COLUMNS: dict[Column, tuple[float, str, bool]] = {
    "name": (0.0, mark("Name"), False),
    "format": (22.0, mark("Format"), False),
    "size": (20.0, mark("Size"), True),
    "context": (18.0, mark("Context"), True),
    "licence": (28.0, mark("Licence"), False),
    "place": (28.0, mark("Where"), False),
}
LEAST_NAME = 52.0  # spacing units: below, columns are left out
LEFT_OUT: tuple[Column, ...] = ("licence", "place", "context", "format")
ROW, HEAD = 8.5, 7.0  # heights in spacing units
INDENT = 5.0
FILTER = "library.filter"
LONGEST_FILTER = 200  # characters
NOTHING = mark(
    "No model was found on this machine. What Hugging Face, LM Studio, Ollama and llama.cpp have "
    "downloaded is looked for; other files can be imported."
)


class LocalRow(Struct, frozen=True):
    model: LocalModel
    depth: int  # 1: made of the one above
    cells: dict[Column, str]


class LocalListing(Struct):
    """The rows, with what they were made of."""

    models: tuple[LocalModel, ...]
    key: tuple[object, ...]
    rows: list[LocalRow]


class LocalControls(Struct):
    filter: str = ""
    column: Column = "name"  # that rows are sorted by
    down: bool = False  # the largest first
    listing: LocalListing | None = None
    path: str = ""  # to import


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = _draw_tools(state, ui)
    library = state.library
    if library.list_problem:
        wrapped(ui, library.list_problem, "error")
    if library.local is None:
        wrapped(ui, tr("Looking for models on this machine."))
        return actions
    if not library.local:
        return actions + _draw_nothing(ui)
    with split.split(ui, "library.local", bool(library.chosen)) as (first, second):
        with first as is_shown:
            if is_shown:
                actions += _draw_table(state, ui, library.local)
        with second as is_shown:
            if is_shown:
                actions += local_details.draw(state, ui)
    return actions


def _draw_nothing(ui: Ui) -> list[Action]:
    wrapped(ui, tr(NOTHING), style="body")
    if primary_button(ui, "library.find_some", tr("Find models")):
        return [ShowLibrary(True, "find")]
    return []


def _draw_tools(state: AppState, ui: Ui) -> list[Action]:
    """Draw the filter, and the button that imports a model."""
    button = width_of(ui)
    room = imgui.get_content_region_avail().x - button - imgui.get_style().item_spacing.x
    imgui.set_next_item_width(min(ui.u(90), room))
    hint = tr("Filter by name, format, licence or place")
    controls = ui.local(LocalControls)
    _, typed = imgui.input_text_with_hint(f"##{FILTER}", hint, controls.filter)
    ui.mark(FILTER)
    controls.filter = typed[:LONGEST_FILTER]
    imgui.same_line(ui.right(button))
    return draw_import(state, ui)


def rows_of(
    models: tuple[LocalModel, ...], words: str, column: Column, down: bool
) -> list[LocalRow]:
    """Return sources in the order of `column`, each with its variants below; only those that hold
    all `words`, with their sources."""
    wanted = words.casefold().split()
    names = {model.name for model in models}
    made: dict[str, list[LocalModel]] = {}
    for model in models:
        if model.made_of in names and model.made_of != model.name:
            made.setdefault(model.made_of, []).append(model)
    below = {model.name for group in made.values() for model in group}
    tops = sorted((m for m in models if m.name not in below), key=_order(column), reverse=down)
    rows: list[LocalRow] = []
    seen: set[str] = set()
    for top in tops:
        rows += _group(top, made, wanted, seen)
    for model in models:  # made of each other in a circle: nobody is left out
        if model.name not in seen:
            rows += _group(model, {}, wanted, seen)
    return rows


def _group(
    top: LocalModel, made: dict[str, list[LocalModel]], wanted: list[str], seen: set[str]
) -> list[LocalRow]:
    """Return the rows of a source, its variants and theirs: all one step in."""
    below: list[LocalModel] = []
    heads = [top]
    seen.add(top.name)
    while heads:
        for model in sorted(made.get(heads.pop().name, ()), key=lambda m: (-m.size, m.name)):
            if model.name not in seen:
                seen.add(model.name)
                below.append(model)
                heads.append(model)
    if not _matches(top, wanted):
        below = [model for model in below if _matches(model, wanted)]
        if not below:
            return []
    return [_row(top, 0), *(_row(model, 1) for model in below)]


def _matches(model: LocalModel, wanted: list[str]) -> bool:
    if not wanted:
        return True
    parts = (model.name, model.format, model.architecture, model.licence, model.repo)
    held = " ".join((*parts, model.form, model.origin, tr(ORIGINS[model.origin]))).casefold()
    return all(word in held for word in wanted)


def _row(model: LocalModel, depth: int) -> LocalRow:
    cells: dict[Column, str] = {
        "name": model.name,
        "format": model.format or "–",
        "size": size(model.size) if model.size else "–",
        "context": context(model.context),
        "licence": model.licence or "–",
        "place": tr(ORIGINS[model.origin]),
    }
    return LocalRow(model, depth, cells)


def _order(column: Column) -> Callable[[LocalModel], tuple[Any, str]]:
    """Return the key that models are sorted by; equal ones are in the order of their names."""

    def key(model: LocalModel) -> tuple[Any, str]:
        name = model.name.casefold()
        match column:
            case "name":
                return name, name
            case "size":
                return model.size, name
            case "context":
                return model.context, name
            case "format":
                return model.format.casefold(), name
            case "licence":
                return model.licence.casefold(), name
            case "place":
                return model.origin, name

    return key


def _listing(state: AppState, ui: Ui, models: tuple[LocalModel, ...]) -> list[LocalRow]:
    """Return the rows, made again when the models, the filter, the order or the language change."""
    controls = ui.local(LocalControls)
    key = (controls.filter, controls.column, controls.down, number())
    held = controls.listing
    if held is None or held.models is not models or held.key != key:
        rows = rows_of(models, controls.filter, controls.column, controls.down)
        held = controls.listing = LocalListing(models, key, rows)
    return held.rows


def _draw_table(state: AppState, ui: Ui, models: tuple[LocalModel, ...]) -> list[Action]:
    columns = _columns(ui, imgui.get_content_region_avail().x - ui.u(3))
    _draw_head(ui, columns)
    rows = _listing(state, ui, models)
    imgui.begin_child("library.rows", ImVec2(0, 0), FLAT)
    actions: list[Action] = []
    if not rows:
        wrapped(ui, tr("No model here matches the filter."))
    height = ui.u(ROW)
    low = imgui.get_scroll_y()
    first = max(0, int(low / height))
    last = int((low + imgui.get_window_height()) / height) + 1
    if is_on_its_way():  # the next row is there to go to
        first, last = max(0, first - 2), last + 2
    for index in range(first, min(last, len(rows))):
        imgui.set_cursor_pos(ImVec2(0, index * height))
        actions += _draw_row(state, ui, rows[index], columns, height)
    imgui.set_cursor_pos(ImVec2(0, len(rows) * height))
    imgui.dummy(ImVec2(1, 1))
    imgui.end_child()
    return actions


def _columns(ui: Ui, width: float) -> list[tuple[Column, float, float]]:
    """Return (column, left, width) in pixels; columns without room are left to the details."""
    shown = list(COLUMNS)
    for column in LEFT_OUT:
        if width - sum(ui.u(COLUMNS[c][0]) for c in shown) < ui.u(LEAST_NAME):
            shown.remove(column)
    rest = width - sum(ui.u(COLUMNS[column][0]) for column in shown)
    found, x = [], 0.0
    for column in shown:
        wide = rest if column == "name" else ui.u(COLUMNS[column][0])
        found.append((column, x, wide))
        x += wide
    return found


def _draw_head(ui: Ui, columns: list[tuple[Column, float, float]]) -> None:
    at, height = imgui.get_cursor_screen_pos(), ui.u(HEAD)
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    controls = ui.local(LocalControls)
    by, down = controls.column, controls.down
    for column, left, width in columns:
        _, title, counts = COLUMNS[column]
        imgui.set_cursor_screen_pos(ImVec2(at.x + left, at.y))
        name = f"library.by.{column}"
        if press_area(name, ImVec2(width, height)):
            controls.column, controls.down = column, not down if column == by else counts
        ui.mark(name)
        color = "text" if imgui.is_item_hovered() or column == by else "muted"
        tip(ui, tr("Sort by this column"))
        with ui.font("bold" if column == by else "regular", "small"):
            arrow = f" {ICON_CHEVRON_DOWN if down else ICON_CHEVRON_UP}" if column == by else ""
            words = fit(tr(title), width - ui.u(7)) + arrow
            y = round(at.y + (height - small) / 2)
            x = _left(at.x + left, width, words, counts, ui)
            draw.add_text(ImVec2(x, y), ui.color(color), words)
    wide = columns[-1][1] + columns[-1][2]
    low = ImVec2(at.x, at.y + height - ui.u(0.25))
    draw.add_rect_filled(low, ImVec2(at.x + wide, at.y + height), ui.color("border"))
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + height))
    imgui.dummy(ImVec2(wide, 0))


def _left(at: float, width: float, words: str, counts: bool, ui: Ui) -> float:
    """Return where text begins: numbers end at the right of their column."""
    if not counts:
        return at + ui.u(2)
    return round(at + width - ui.u(3) - imgui.calc_text_size(words).x)


def _draw_row(
    state: AppState,
    ui: Ui,
    row: LocalRow,
    columns: list[tuple[Column, float, float]],
    height: float,
) -> list[Action]:
    model, at = row.model, imgui.get_cursor_screen_pos()
    width, name = columns[-1][1] + columns[-1][2], f"library.local.{row.model.name}"
    clicked = press_area(name, ImVec2(width, height))
    ui.mark(name)
    hovered = imgui.is_item_hovered()
    twice = hovered and imgui.is_mouse_double_clicked(0)
    chosen, used = state.library.chosen == model.name, is_loaded(state, model)
    draw, end = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + height)
    if hovered or chosen:
        fill = "accent_soft" if chosen else "hover"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    cut = _draw_cells(ui, row, columns, (at.x, at.y), height, used)
    tip(ui, model.problem or (model.name if cut else ""))
    if twice and can_open(state, model):
        return [ChooseLocal(model.name), OpenModel(str(model.path))]
    return [ChooseLocal(model.name)] if clicked and not chosen else []


def _draw_cells(
    ui: Ui,
    row: LocalRow,
    columns: list[tuple[Column, float, float]],
    at: tuple[float, float],
    height: float,
    used: bool,
) -> bool:
    """Draw the cells of a row, and return whether the name had to be cut."""
    draw, cut = imgui.get_window_draw_list(), False
    bad = bool(row.model.problem) or not row.model.runnable
    for column, left, width in columns:
        first = column == "name"
        with ui.font("bold" if first and used else "regular", "body" if first else "small"):
            size_of = imgui.get_font_size()
            inset = ui.u(INDENT) * row.depth if first else 0.0
            mark_of = ICON_WARNING if bad else ICON_CHECK if used else ""
            taken = ui.u(6) if first and mark_of else 0.0
            whole = row.cells[column]
            words = fit(whole, width - inset - taken - ui.u(4))
            cut = cut or (first and words != whole)
            x = _left(at[0] + left + inset, width, words, COLUMNS[column][2], ui)
            y = int(at[1] + (height - size_of) / 2 + 0.5)  # no half is even
            color = "text" if first and not bad else "muted"
            draw.add_text(ImVec2(x, y), ui.color(color), words)
            if first and mark_of:
                x += imgui.calc_text_size(words).x + ui.u(2)
                tint = "warning" if bad else "link"
                draw.add_text(ImVec2(x, y), ui.color(tint), mark_of)
    return cut


def is_loaded(state: AppState, model: LocalModel) -> bool:
    return state.model is not None and state.model.path == str(model.path)


def can_open(state: AppState, model: LocalModel) -> bool:
    return not model.problem and model.runnable and state.load is None


def width_of(ui: Ui) -> float:
    """Return the width of the button, in pixels."""
    words = f"{ICON_NEW}  {tr(LABEL)}"
    return float(imgui.calc_text_size(words).x) + 2 * imgui.get_style().frame_padding.x


def draw_import(state: AppState, ui: Ui) -> list[Action]:
    if button(ui, PANEL + ".open", tr(LABEL), ICON_NEW, tr("Add a model that lies elsewhere")):
        ui.show_popover(PANEL, PATH)
    high = imgui.get_item_rect_max()
    at = ImVec2(high.x - ui.u(WIDTH), high.y + ui.u(1))
    with popover(ui, PANEL, tr("Import a model"), at, ui.u(WIDTH)) as shown:
        return _draw_panel(ui) if shown else []


def _draw_panel(ui: Ui) -> list[Action]:
    wrapped(ui, tr(ABOUT))
    imgui.set_next_item_width(-1)
    flags = imgui.InputTextFlags_.enter_returns_true
    controls = ui.local(LocalControls)
    entered, path = imgui.input_text_with_hint(
        f"##{PATH}", tr("Path of a file or a folder"), controls.path, flags
    )
    ui.mark(PATH)
    controls.path = path = path[:LONGEST_PATH]
    able = bool(path.strip())
    if button(ui, "library.import.add", tr("Import this path"), enabled=able) or (entered and able):
        controls.path = ""
        imgui.close_current_popup()
        return [ImportLocal(path.strip())]
    imgui.same_line()
    if button(ui, "library.import.choose", tr("Choose a file"), ICON_FOLDER_OPEN):
        imgui.close_current_popup()
        return [ChooseImport()]
    return []
