"""The window's own file chooser: places, a folder's entries, and a filter that has the keyboard."""

from __future__ import annotations

import os
from pathlib import Path

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.attachments.model import AttachFiles
from llm_lite.desktop.features.file_chooser.model import BrowseFolder, CloseFiles, FilterFiles
from llm_lite.desktop.features.file_chooser.path_field import (
    ChosenPaths,
    end_choosing,
    give_path,
)
from llm_lite.desktop.features.file_chooser.state import (
    FileEntry,
    FilesState,
    Place,
    Purpose,
    parent_of,
)
from llm_lite.desktop.features.history.model import ImportConversations
from llm_lite.desktop.features.library.model import ImportLocal
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.incoming import shown_path
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.by_keyboard import is_entered
from llm_lite.desktop.widgets.controls import toggle
from llm_lite.desktop.widgets.icons import (
    ICON_CHECK,
    ICON_CHEVRON_UP,
    ICON_CLOCK,
    ICON_CLOSE,
    ICON_FILE,
    ICON_FOLDER_OPEN,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    fit,
    icon_button,
    primary_button,
    text,
    tip,
    wrapped,
)

POPUP = "files"
WIDTH, HEIGHT, PLACES_WIDTH = 170.0, 124.0, 38.0  # spacing units
LONGEST = 4096  # characters of a filter or a path
TITLES: dict[Purpose, str] = {
    "model": mark("Open a model"),
    "import": mark("Import a model"),
    "attach": mark("Attach files"),
    "conversations": mark("Import conversations"),
    "path": mark("Choose a file"),
    "folder": mark("Choose a folder"),
}
PLACES: dict[Place, str] = {
    "home": mark("Home"),
    "documents": mark("Documents"),
    "downloads": mark("Downloads"),
}
KEY = imgui.Key
_FLAGS = imgui.WindowFlags_.no_move | imgui.WindowFlags_.no_title_bar | imgui.WindowFlags_.no_resize


class ChooserInput(Struct):
    """The filter that is typed, the row that has the keyboard, and the files that are picked, by
    their paths."""

    query: str = ""
    at: int = 0
    picked: list[str] = field(default_factory=list)
    folder: str = ""  # that the query and the row belong to
    scroll: bool = False  # the row is to be in sight
    field: int = 0  # the input is another one when its text changes from outside


class Chooser(Struct):
    """The window of the chooser, from frame to frame."""

    input: ChooserInput | None = None  # while the window is open
    top: float = 0.0  # of the part right of the places, in pixels of the window


def draw(state: AppState, ui: Ui) -> list[Action]:
    files = state.chooser
    into_field = files.purpose in ("path", "folder")
    ui.local(ChosenPaths).choosing = files.target.field if files.shown and into_field else ""
    if not files.shown:
        ui.local(Chooser).input = None
        return []
    if not imgui.is_popup_open(POPUP):
        imgui.open_popup(POPUP)
    screen, edge = imgui.get_main_viewport().size, ui.u(4)
    width = min(ui.u(WIDTH), screen.x - 2 * edge)
    height = min(ui.u(HEIGHT), screen.y - ui.status_height - 2 * edge)
    middle = ImVec2(round(screen.x / 2), round((screen.y - ui.status_height) / 2))
    imgui.set_next_window_pos(middle, imgui.Cond_.always, ImVec2(0.5, 0.5))
    imgui.set_next_window_size(ImVec2(width, height))
    with ui.styled(window_padding=(ui.u(4), ui.u(4))), ui.colored(border="faint"):
        shown = imgui.begin_popup_modal(POPUP, None, _FLAGS)[0]
    if not shown:
        return []
    try:
        return _draw_inside(files, ui)
    finally:
        low, found = imgui.get_window_pos(), imgui.get_window_size()
        ui.rects[POPUP] = (low.x, low.y, low.x + found.x, low.y + found.y)
        imgui.end_popup()


def _draw_inside(files: FilesState, ui: Ui) -> list[Action]:
    held = _held(files, ui)
    side = ui.u(6)
    right = ui.right(side)
    text(ui, tr(TITLES[files.purpose]), style="title", bold=True)
    imgui.same_line(right)
    closed = icon_button(ui, "files.close", ICON_CLOSE, tr("Close"), side=side, style="small")
    if closed or imgui.is_key_pressed(KEY.escape, False):
        return _end(files, ui, [CloseFiles()])
    below = imgui.get_frame_height() + ui.u(3)
    room = imgui.get_content_region_avail().y - below
    actions = _draw_places(files, ui, room)
    imgui.same_line(0, ui.u(4))
    imgui.begin_group()
    actions += _draw_path(files, ui) + _draw_query(files, ui, held)
    listed = files.listed("" if _is_path(held.query) else held.query.strip())
    held.at = min(held.at, max(len(listed) - 1, 0))
    _move(held, len(listed))
    used = imgui.get_cursor_pos_y() - ui.local(Chooser).top
    opened = _draw_rows(files, ui, held, listed, max(room - used, ui.u(12)))
    imgui.end_group()
    actions += _draw_foot(files, ui)
    if is_entered() and _is_path(held.query):
        asked = held.query.strip()
        held.query, held.field = "", held.field + 1
        return [BrowseFolder(asked)]
    if opened is None and is_entered() and listed:
        opened = listed[held.at]
    if opened is not None and opened.is_folder:
        return [BrowseFolder(_path(files, opened))]
    paths = held.picked or [_path(files, e) for e in listed[held.at :][:1] if not e.is_folder]
    if files.purpose == "folder":
        paths = [files.folder]
    if _draw_open(files, ui, paths) or opened is not None:
        paths = _with(paths, files, opened)
        if files.purpose in ("path", "folder"):
            give_path(ui, files.target, paths[0], is_folder=files.purpose == "folder")
        return _end(files, ui, _given(files.purpose, paths))
    return actions


def _held(files: FilesState, ui: Ui) -> ChooserInput:
    """Return what is typed and picked. Another folder begins with an empty filter at its first
    row, or with the file named."""
    chooser = ui.local(Chooser)
    held = chooser.input = chooser.input or ChooserInput()
    key = str(Path(files.folder) / files.named)
    if held.folder != key:
        held.folder, held.query, held.at = key, shown_path(files.named), 0
        held.scroll, held.field = True, held.field + 1
    return held


def _path(files: FilesState, entry: FileEntry) -> str:
    return str(Path(files.folder) / entry.name)


def _is_path(query: str) -> bool:
    return query.lstrip().startswith("~") or Path(query.strip()).is_absolute()


def _end(files: FilesState, ui: Ui, actions: list[Action]) -> list[Action]:
    imgui.close_current_popup()
    if files.purpose in ("path", "folder"):
        end_choosing(ui, files.target)
    else:
        ui.request("input")
    return actions


def _with(paths: list[str], files: FilesState, opened: FileEntry | None) -> list[str]:
    """Return the paths that are taken: all that are picked, and what was opened by itself."""
    if opened is None:
        return paths
    path = _path(files, opened)
    return [*(one for one in paths if one != path), path] if files.takes_many else [path]


def _given(purpose: Purpose, paths: list[str]) -> list[Action]:
    """Return the actions that follow from a choice."""
    if purpose in ("path", "folder"):
        return [CloseFiles(tuple(paths))]
    done: Action
    if purpose == "model":
        done = OpenModel(paths[0])
    elif purpose == "import":
        done = ImportLocal(paths[0])
    elif purpose == "conversations":
        done = ImportConversations(paths[0])
    else:
        done = AttachFiles(tuple(paths))
    return [CloseFiles(tuple(paths)), done]


def _places(files: FilesState) -> list[tuple[str, str, str]]:
    """Return the icon, name and folder of each place at the left."""
    found = [(ICON_FOLDER_OPEN, tr(PLACES[kind]), folder) for kind, folder in files.places]
    return found + [(ICON_CLOCK, Path(one).name or one, one) for one in files.recent]


def _draw_places(files: FilesState, ui: Ui, room: float) -> list[Action]:
    actions: list[Action] = []
    imgui.begin_child("files.places", ImVec2(ui.u(PLACES_WIDTH), room))
    for number, (icon, name, folder) in enumerate(_places(files)):
        width, here = imgui.get_content_region_avail().x, folder == files.folder
        at, line = imgui.get_cursor_screen_pos(), ui.u(8)
        with ui.styled(item_spacing=(0.0, 0.0)):
            pressed = imgui.invisible_button(f"place.{number}", ImVec2(max(width, 1.0), line))
        ui.mark(f"files.place.{number}")
        draw, end = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + line)
        if here or imgui.is_item_hovered():
            fill = "hover" if imgui.is_item_hovered() else "accent_soft"
            draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
        tip(ui, shown_path(folder))
        small = ui.theme.size("small")
        y = round(at.y + (line - small) / 2)
        with ui.font(style="small"):
            draw.add_text(ImVec2(at.x + ui.u(2), y), ui.color("muted"), icon)
            words = fit(one_line(name), width - ui.u(4) - small - ui.u(3))
            draw.add_text(ImVec2(at.x + ui.u(4) + small, y), ui.color("text"), words)
        if pressed:
            actions.append(BrowseFolder(folder))
    imgui.end_child()
    return actions


def _draw_path(files: FilesState, ui: Ui) -> list[Action]:
    """Draw the folder that is listed, and the way to the one around it."""
    ui.local(Chooser).top = imgui.get_cursor_pos_y()
    side = ui.u(7)
    hint = tr("The folder around this one (Backspace)")
    pressed = icon_button(ui, "files.up", ICON_CHEVRON_UP, hint, side=side)
    imgui.same_line(0, ui.u(1.5))
    at = imgui.get_cursor_pos()
    imgui.set_cursor_pos_y(at.y + (side - ui.theme.size("small")) / 2)
    with ui.font(style="small"), ui.colored(text="muted"):
        imgui.text_unformatted(_fit_end(shown_path(files.folder), ui))
    tip(ui, shown_path(files.folder))
    return [BrowseFolder(parent_of(files.folder))] if pressed else []


def _fit_end(path: str, ui: Ui) -> str:
    """Shorten a path at its beginning: its end says more."""
    room = imgui.get_content_region_avail().x
    while imgui.calc_text_size(path).x > room and os.sep in path[2:]:
        path = "…" + path[path.index(os.sep, 2) :]
    return fit(path, room)


def _draw_query(files: FilesState, ui: Ui, held: ChooserInput) -> list[Action]:
    imgui.set_next_item_width(-1)
    if not imgui.is_any_item_active() and not imgui.is_mouse_down(0):
        imgui.set_keyboard_focus_here()  # the list is gone through with keys of our own
    empty = not held.query
    hint = tr("Filter, or type a path")
    _, query = imgui.input_text_with_hint(f"##files.query.{held.field}", hint, held.query)
    ui.mark("files.query")
    query = query[:LONGEST]
    if query != held.query:
        held.query, held.at, held.scroll = query, 0, True
    if files.problem:
        wrapped(ui, files.problem, "warning")
        ui.mark("files.problem")
    if empty and imgui.is_key_pressed(KEY.backspace):
        return [BrowseFolder(parent_of(files.folder))]
    return []


def _move(held: ChooserInput, count: int) -> None:
    """Move the row that has the keyboard."""
    last = max(count - 1, 0)
    for key, to in (
        (KEY.down_arrow, min(held.at + 1, last)),
        (KEY.up_arrow, max(held.at - 1, 0)),
        (KEY.page_down, min(held.at + 10, last)),
        (KEY.page_up, max(held.at - 10, 0)),
    ):
        if imgui.is_key_pressed(key):
            held.at, held.scroll = to, True


def _draw_rows(
    files: FilesState, ui: Ui, held: ChooserInput, listed: list[FileEntry], height: float
) -> FileEntry | None:
    """Draw the entries, and return the one that was opened with the mouse."""
    opened: FileEntry | None = None
    flags = imgui.WindowFlags_.no_nav_inputs | imgui.WindowFlags_.no_saved_settings
    imgui.begin_child("files.rows", ImVec2(0, height), imgui.ChildFlags_.borders, flags)
    line = ui.u(7.5)
    if not listed:
        words = tr("Reading the folder.") if files.wanted else tr("Nothing here matches.")
        wrapped(ui, words)
    if held.scroll:
        held.scroll = False
        top, low = held.at * line, imgui.get_scroll_y()
        if top < low or top + line > low + height - ui.u(4):
            imgui.set_scroll_y(max(0.0, top - height / 2))
    with ui.styled(item_spacing=(0.0, 0.0)):
        clipper = imgui.ListClipper()
        clipper.begin(len(listed), line)
        while clipper.step():
            for number in range(clipper.display_start, clipper.display_end):
                if _draw_row(files, ui, held, listed[number], number, line):
                    opened = listed[number]
        clipper.end()
    if files.left_out:
        words = tr("{n:,} more are not listed: type a part of the path.")
        wrapped(ui, words.format(n=files.left_out))
    imgui.end_child()
    return opened


def _draw_row(
    files: FilesState, ui: Ui, held: ChooserInput, entry: FileEntry, number: int, line: float
) -> bool:
    """Draw an entry, and return whether it was opened: a folder by a click, a file by a double
    click."""
    at, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    pressed = imgui.invisible_button(f"row.{number}", ImVec2(max(width, 1.0), line))
    ui.mark(f"files.row.{number}")
    double = imgui.is_item_hovered() and imgui.is_mouse_double_clicked(0)
    path = _path(files, entry)
    if pressed:
        held.at = number
        if files.takes_many and not entry.is_folder:
            held.picked.remove(path) if path in held.picked else held.picked.append(path)
    draw, end = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + line)
    if number == held.at or imgui.is_item_hovered():
        fill = "accent_soft" if number == held.at else "hover"
        draw.add_rect_filled(at, end, ui.color(fill), ui.u(1))
    small = ui.theme.size("small")
    y, right = round(at.y + (line - small) / 2), end.x - ui.u(1.5)
    picked = path in held.picked
    icon = ICON_CHECK if picked else ICON_FOLDER_OPEN if entry.is_folder else ICON_FILE
    color = ui.color("link" if picked or entry.is_folder else "muted")
    with ui.font(style="small"):
        if entry.size >= 0:
            words = size(entry.size)
            right -= imgui.calc_text_size(words).x
            draw.add_text(ImVec2(right, y), ui.color("muted"), words)
        draw.add_text(ImVec2(at.x + ui.u(1.5), y), color, icon)
        left = at.x + ui.u(3.5) + small
        words = fit(shown_path(entry.name), right - left - ui.u(3))
        draw.add_text(ImVec2(left, y), ui.color("text"), words)
    return pressed if entry.is_folder else double


def _draw_foot(files: FilesState, ui: Ui) -> list[Action]:
    hidden = toggle(ui, "files.hidden", tr("Hidden files"), files.hidden)
    kinds = files.all_kinds
    if files.purpose not in ("attach", "folder"):
        imgui.same_line(0, ui.u(5))
        kinds = toggle(ui, "files.kinds", tr("All files"), files.all_kinds)
    changed = (hidden, kinds) != (files.hidden, files.all_kinds)
    return [FilterFiles(hidden, kinds)] if changed else []


def _draw_open(files: FilesState, ui: Ui, paths: list[str]) -> bool:
    """Draw the button that takes what is chosen, at the lower right; return whether it was
    pressed."""
    label = tr("Open")
    if files.purpose in ("path", "folder"):
        label = tr("Choose this folder") if files.purpose == "folder" else tr("Choose")
    if files.takes_many:
        count = len(paths)
        label = trn("Attach {n} file", "Attach {n} files", count).format(n=count)
        label = label if count else tr("Attach")
    width = imgui.calc_text_size(label).x + ui.u(8)
    imgui.same_line(ui.right(width))
    return primary_button(ui, "files.open", label, enabled=bool(paths), width=width)
