"""Menus of a conversation and of the list, and panels that confirm or need a path."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.files.places import user_folder
from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.file_chooser.path_field import path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.history.model import (
    ArchiveConversation,
    BeginRename,
    ChooseConversations,
    DeleteAll,
    DeleteConversation,
    EmptyTrash,
    ExportConversation,
    FileKind,
    ImportConversations,
    OpenConversation,
    PinConversation,
    RestoreConversation,
    ShowHistoryPart,
)
from llm_lite.desktop.features.history.state import ConversationRow
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import is_entered, press_area
from llm_lite.desktop.widgets.icons import (
    ICON_ARCHIVE,
    ICON_CHAT,
    ICON_DOWNLOAD,
    ICON_EDIT,
    ICON_FOLDER_OPEN,
    ICON_PIN,
    ICON_TRASH,
    ICON_UNDO,
    ICON_UPLOAD,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, popover, primary_button, wrapped

LIST, OF_ROW = "history.list", "history.menu"  # popups
EXPORT, IMPORT, SURE = "history.export", "history.import", "history.sure"
LONGEST = 4096  # characters of a path
KINDS: tuple[tuple[FileKind, str, str], ...] = (
    ("markdown", ".md", "Markdown"),
    ("html", ".html", "HTML"),
    ("json", ".json", "JSON"),
)
EXPORT_NOTE = mark(
    "Markdown and HTML say what is shown, to read. JSON has every version, to import again."
)
IMPORT_NOTE = mark(
    "A file that was exported here as JSON, conversations.json of ChatGPT, or a conversation of "
    "LM Studio."
)
SURE_NOTES = {
    "all": mark("All conversations leave the list, archived ones too. They can be restored."),
    "trash": mark(
        "What was deleted is deleted for good, and so is what drafts learned from answers. This "
        "cannot be taken back."
    ),
}


class HistoryMenus(Struct):
    row: ConversationRow | None = None  # the conversation of the menu and of an export
    row_shown: bool = False  # its menu is open
    export_path: str | None = None  # None: one is proposed
    import_path: str = ""
    sure: Literal["all", "trash"] = "all"  # what the panel confirms to delete


def open_for(ui: Ui, row: ConversationRow) -> None:
    """Open the menu of a conversation, at the pointer."""
    ui.local(HistoryMenus).row = row
    ui.opened = OF_ROW


def open_export(ui: Ui, row: ConversationRow | None) -> None:
    """Open the panel that exports a conversation, with a new path proposed."""
    menus = ui.local(HistoryMenus)
    menus.row, menus.export_path = row, None
    ui.show_popover(EXPORT)


def has_menu(ui: Ui, row: ConversationRow) -> bool:
    """Return whether the menu of this conversation is open."""
    menus = ui.local(HistoryMenus)
    return menus.row_shown and menus.row == row


def draw(state: AppState, ui: Ui) -> list[Action]:
    """Draw every menu and panel that is open."""
    actions = _draw_row_menu(ui) + _draw_list_menu(state, ui)
    return actions + _draw_export(ui) + _draw_import(ui) + _draw_sure(ui)


def _begin(ui: Ui, name: str) -> bool:
    if ui.opened == name:
        imgui.open_popup(name)
        ui.opened = ""
    with ui.styled(window_padding=(ui.u(1.5), ui.u(1.5)), item_spacing=(0.0, 0.0)):
        shown = bool(imgui.begin_popup(name, imgui.WindowFlags_.no_move))
    if shown:
        low, size = imgui.get_window_pos(), imgui.get_window_size()
        ui.rects[name] = (low.x, low.y, low.x + size.x, low.y + size.y)
        if imgui.is_key_pressed(imgui.Key.escape, False):
            imgui.close_current_popup()
    return shown


def _item(ui: Ui, name: str, icon: str, label: str, color: str = "text") -> bool:
    """Draw a line of a menu, which a click closes, and return whether it was clicked."""
    at, size, height = imgui.get_cursor_screen_pos(), ui.theme.size("small"), ui.u(7.5)
    width = ui.u(48)
    with ui.styled(item_spacing=(0.0, 0.0)):
        clicked = press_area(name, ImVec2(width, height))
    ui.mark(name)
    draw = imgui.get_window_draw_list()
    if imgui.is_item_hovered() or imgui.is_item_focused():
        end = ImVec2(at.x + width, at.y + height)
        draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    y, font = round(at.y + (height - size) / 2), ui.fonts["regular"]
    draw.add_text(font, size, ImVec2(at.x + ui.u(2), y), ui.color("muted"), icon)
    draw.add_text(font, size, ImVec2(at.x + ui.u(7.5), y), ui.color(color), label)
    if clicked:
        imgui.close_current_popup()
    return clicked


def _draw_row_menu(ui: Ui) -> list[Action]:
    menus = ui.local(HistoryMenus)
    row = menus.row
    menus.row_shown = row is not None and _begin(ui, OF_ROW)
    if not menus.row_shown or row is None:
        return []
    actions: list[Action] = []
    if row.part == "deleted":
        if _item(ui, f"{OF_ROW}.restore", ICON_UNDO, tr("Restore")):
            actions.append(RestoreConversation(row.id))
        imgui.end_popup()
        return actions
    if _item(ui, f"{OF_ROW}.open", ICON_CHAT, tr("Open")):
        actions.append(OpenConversation(row.id))
    if row.part == "all":
        if _item(ui, f"{OF_ROW}.rename", ICON_EDIT, tr("Rename")):
            actions.append(BeginRename(row.id))
        if _item(ui, f"{OF_ROW}.pin", ICON_PIN, tr("Unpin") if row.pinned else tr("Pin")):
            actions.append(PinConversation(row.id, not row.pinned))
    archived = row.part == "archived"
    if _item(ui, f"{OF_ROW}.archive", ICON_ARCHIVE, tr("Unarchive") if archived else tr("Archive")):
        actions.append(ArchiveConversation(row.id, not archived))
    if _item(ui, f"{OF_ROW}.export", ICON_DOWNLOAD, tr("Export")):
        menus.export_path = None
        ui.opened = EXPORT
    if _item(ui, f"{OF_ROW}.delete", ICON_TRASH, tr("Delete"), "error"):
        actions.append(DeleteConversation(row.id))
    imgui.end_popup()
    return actions


def _draw_list_menu(state: AppState, ui: Ui) -> list[Action]:
    part, actions = state.history.part, list[Action]()
    if not _begin(ui, LIST):
        return actions
    if part != "all" and _item(ui, f"{LIST}.all", ICON_CHAT, tr("All conversations")):
        actions.append(ShowHistoryPart("all"))
    if part != "archived" and _item(ui, f"{LIST}.archived", ICON_ARCHIVE, tr("Archived")):
        actions.append(ShowHistoryPart("archived"))
    if part != "deleted" and _item(ui, f"{LIST}.deleted", ICON_TRASH, tr("Deleted")):
        actions.append(ShowHistoryPart("deleted"))
    if _item(ui, f"{LIST}.import", ICON_UPLOAD, tr("Import")):
        ui.opened = IMPORT
    if part == "deleted" and state.history.rows:
        if _item(ui, f"{LIST}.purge", ICON_TRASH, tr("Delete for good"), "error"):
            ui.local(HistoryMenus).sure, ui.opened = "trash", SURE
    elif state.history.rows and _item(
        ui, f"{LIST}.delete_all", ICON_TRASH, tr("Delete all"), "error"
    ):
        ui.local(HistoryMenus).sure, ui.opened = "all", SURE
    imgui.end_popup()
    return actions


def _place(ui: Ui) -> ImVec2:
    """Return the place of a panel: beside the list, at its upper edge."""
    low, size = imgui.get_window_pos(), imgui.get_window_size()
    return ImVec2(low.x + size.x + ui.u(2), low.y + ui.u(12))


def _path(ui: Ui, name: str, path: str) -> tuple[str, bool]:
    """Draw the field of a path; return it, and whether Enter was pressed there."""
    imgui.set_next_item_width(-1)
    if imgui.is_window_appearing():
        imgui.set_keyboard_focus_here()
    _, path = imgui.input_text_with_hint(f"##{name}.path", tr("Path of a file"), path)
    ui.mark(f"{name}.path")
    return path[:LONGEST], is_entered() and (imgui.is_item_active() or imgui.is_item_deactivated())


def _proposed(row: ConversationRow) -> str:
    """Return a path with the conversation's title as its name, without an ending."""
    from llm_lite.core.history.exchange.exporting import file_name

    return one_line(str(user_folder("documents") / file_name(row.title)))


def _draw_export(ui: Ui) -> list[Action]:
    menus = ui.local(HistoryMenus)
    row = menus.row
    with popover(ui, EXPORT, tr("Export"), _place(ui), ui.u(96)) as shown:
        if not shown or row is None:
            return []
        wrapped(ui, tr(EXPORT_NOTE))
        if menus.export_path is None:
            menus.export_path = _proposed(row)
        if imgui.is_window_appearing():
            imgui.set_keyboard_focus_here()
        target = PathTarget(f"{EXPORT}.path", EXPORT, file_name=Path(menus.export_path).name)
        hint = tr("Path of a file")
        typed = path_field(ui, target, menus.export_path, ("folder",), hint)
        menus.export_path, actions = typed.path, typed.actions
        path = menus.export_path.strip()
        for kind, ending, label in KINDS:
            if kind != KINDS[0][0]:
                imgui.same_line()
            if button(ui, f"{EXPORT}.{kind}", label, enabled=bool(path)):
                bare = path.removesuffix(ending)
                actions.append(ExportConversation(row.id, kind, bare + ending))
                imgui.close_current_popup()
        return actions


def _draw_import(ui: Ui) -> list[Action]:
    with popover(ui, IMPORT, tr("Import conversations"), _place(ui), ui.u(96)) as shown:
        if not shown:
            return []
        wrapped(ui, tr(IMPORT_NOTE))
        menus = ui.local(HistoryMenus)
        menus.import_path, entered = _path(ui, IMPORT, menus.import_path)
        path = menus.import_path.strip()
        if primary_button(ui, f"{IMPORT}.go", tr("Import"), enabled=bool(path)) or (
            entered and path
        ):
            imgui.close_current_popup()
            return [ImportConversations(path)]
        imgui.same_line(0, ui.u(2))
        if button(ui, f"{IMPORT}.choose", tr("Choose a file"), ICON_FOLDER_OPEN):
            imgui.close_current_popup()
            return [ChooseConversations()]
        return []


def _draw_sure(ui: Ui) -> list[Action]:
    what = ui.local(HistoryMenus).sure
    title = tr("Delete all conversations?") if what == "all" else tr("Delete for good?")
    with popover(ui, SURE, title, _place(ui), ui.u(84)) as shown:
        if not shown:
            return []
        wrapped(ui, tr(SURE_NOTES[what]))
        if button(ui, f"{SURE}.yes", tr("Delete all") if what == "all" else tr("Delete for good")):
            imgui.close_current_popup()
            return [DeleteAll() if what == "all" else EmptyTrash()]
        return []
