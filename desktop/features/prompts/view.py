"""The library of prompts: insert, edit, save the draft as one, bring files in and out."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.model import (
    AddExamples,
    DeletePrompt,
    ExportPrompts,
    ImportPrompts,
    RestorePrompt,
    SavePrompt,
    WantPrompts,
)
from llm_lite.desktop.features.prompts.places import draw_places, use
from llm_lite.desktop.features.prompts.state import LONGEST_NAME, LONGEST_PROMPT, SavedPrompt
from llm_lite.desktop.language.incoming import typed
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_BOOK, ICON_EDIT, ICON_TRASH, ICON_UPLOAD
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    icon_button,
    popover,
    primary_button,
    row_button,
    text,
    wrapped,
)

_EDIT = "prompts.edit"  # the name that it had, its name, its text


PANEL = "prompts"
PROMPTS_SHOWN = "prompts.shown"  # in the memory of the surroundings: whether the panel is open
HINT = mark("Prompts: texts that you use again. Or type / at the start.")
ABOUT = mark(
    "Texts that you use again, each a Markdown file. When you insert one, you "
    "fill in the words in double braces, such as {{subject}}. Drop files here to "
    "import them."
)
WIDTH, ROWS = 112.0, 7  # in spacing units; rows in sight
LONGEST_PATH, LONGEST_QUERY = 4096, 200  # characters


def draw_prompts(state: AppState, ui: Ui, at: ImVec2, side: float) -> list[Action]:
    """The button with its corner at `at`, and what it opens above it."""
    imgui.set_cursor_screen_pos(at)
    is_open = ui.memory.get(PROMPTS_SHOWN, False)
    if icon_button(ui, "chat.prompts", ICON_BOOK, tr(HINT), side=side, active=is_open):
        ui.opened = PANEL
    asked = ui.opened == PANEL
    actions: list[Action] = [WantPrompts()] if asked else []
    place = ImVec2(at.x + side - ui.u(WIDTH), at.y - ui.u(2))
    with ui.styled(item_spacing=(ui.u(2), ui.u(2))):
        with popover(ui, PANEL, tr("Prompts"), place, ui.u(WIDTH), (0, 1)) as shown:
            ui.memory[PROMPTS_SHOWN] = shown
            if shown:
                actions += draw_editor(state, ui) if is_editing(ui) else _draw_library(state, ui)
        actions += draw_places(ui, place)
    return actions


def _draw_library(state: AppState, ui: Ui) -> list[Action]:
    library, actions = state.prompts, list[Action]()
    wrapped(ui, tr(ABOUT))
    if library.prompts:
        query = _field(ui, "prompts.query", tr("Search"), LONGEST_QUERY)
        actions += _draw_list(ui, library.found(query), query)
    elif library.read:
        actions += _draw_empty(ui)
    if library.deleted is not None:
        actions += _draw_deleted(ui, library.deleted)
    if button(ui, "prompts.save", tr("Save the draft as a prompt"), enabled=bool(_draft(state))):
        begin_edit(ui, "", _draft(state))
    imgui.same_line()
    if button(ui, "prompts.new", tr("New prompt")):
        begin_edit(ui, "", "")
    return actions + _draw_files(ui, bool(library.prompts))


def _draft(state: AppState) -> str:
    return "" if state.draft.startswith("/") else state.draft.strip()


def _draw_empty(ui: Ui) -> list[Action]:
    text(ui, tr("There are no prompts yet."), "muted")
    if button(ui, "prompts.examples", tr("Add examples")):
        return [AddExamples()]
    return []


def _draw_list(ui: Ui, found: tuple[SavedPrompt, ...], query: str) -> list[Action]:
    if not found:
        wrapped(ui, tr("No prompt has {words}.").format(words=query))
        return []
    row = ui.theme.text + ui.u(4.75) + ui.theme.size("small")
    height = min(len(found), ROWS) * row
    actions: list[Action] = []
    with ui.styled(window_padding=(0.0, 0.0), item_spacing=(0.0, 0.0)):
        imgui.begin_child("##prompts.list", ImVec2(0, height))
        width = imgui.get_content_region_avail().x
        clipper = imgui.ListClipper()
        clipper.begin(len(found), row)
        while clipper.step():
            for number in range(clipper.display_start, clipper.display_end):
                actions += _draw_row(ui, number, found[number], width, row)
        imgui.end_child()
    imgui.dummy(ImVec2(0, ui.u(1)))
    return actions


def _draw_row(ui: Ui, number: int, prompt: SavedPrompt, width: float, row: float) -> list[Action]:
    """Its buttons stand at the right while the pointer is over it."""
    top, side = imgui.get_cursor_screen_pos(), ui.u(6)
    name = f"prompts.{number}"
    held = imgui.HoveredFlags_.allow_when_blocked_by_active_item  # a button being pressed
    over = imgui.is_window_hovered(held) and imgui.is_mouse_hovering_rect(
        top, ImVec2(top.x + width, top.y + row)
    )
    if over:  # the buttons at the right too
        end = ImVec2(top.x + width, top.y + row)
        imgui.get_window_draw_list().add_rect_filled(top, end, ui.color("hover"), ui.u(1.5))
    imgui.set_next_item_allow_overlap()
    taken = side * 3 + ui.u(2) if over else 0.0
    clicked = row_button(ui, name, prompt.name, prompt.first_line, taken=taken)
    if not over:
        return _chosen(ui, prompt) if clicked else []
    after = imgui.get_cursor_screen_pos()
    actions: list[Action] = []
    x, y = top.x + width - taken, top.y + (row - side) / 2
    buttons = (
        ("edit", ICON_EDIT, tr("Edit or rename")),
        ("export", ICON_UPLOAD, tr("Export: enter the path below")),
        ("delete", ICON_TRASH, tr("Delete")),
    )
    for what, icon, hint in buttons:
        imgui.set_cursor_screen_pos(ImVec2(x, y))
        if icon_button(ui, f"{name}.{what}", icon, hint, side=side, style="small"):
            clicked = False
            actions += _do(ui, what, prompt)
        x += side
    imgui.set_cursor_screen_pos(after)
    return actions + (_chosen(ui, prompt) if clicked else [])


def _do(ui: Ui, what: str, prompt: SavedPrompt) -> list[Action]:
    if what == "edit":
        begin_edit(ui, prompt.name, prompt.text)
    elif what == "export":
        ui.memory["prompts.export_of"] = prompt.name
    else:
        return [DeletePrompt(prompt.name)]
    return []


def _chosen(ui: Ui, prompt: SavedPrompt) -> list[Action]:
    imgui.close_current_popup()
    return use(ui, prompt)


def _draw_deleted(ui: Ui, deleted: SavedPrompt) -> list[Action]:
    imgui.align_text_to_frame_padding()
    text(ui, tr("Deleted {name}.").format(name=deleted.name), "muted", "small")
    imgui.same_line()
    return [RestorePrompt()] if button(ui, "prompts.undo", tr("Undo")) else []


def _draw_files(ui: Ui, any_prompts: bool) -> list[Action]:
    imgui.separator()
    of = ui.memory.get("prompts.export_of", "")
    label = tr("Path of a file or folder")
    path = _field(ui, "prompts.path", label, LONGEST_PATH)
    actions: list[Action] = []
    if button(ui, "prompts.import", tr("Import"), enabled=bool(path)):
        actions.append(ImportPrompts((path,)))
    imgui.same_line()
    words = tr("Export {name}").format(name=of) if of else tr("Export all to a folder")
    if button(ui, "prompts.export", words, enabled=bool(path) and any_prompts):
        actions.append(ExportPrompts(path, of))
        ui.memory.pop("prompts.export_of", None)
    return actions


def _field(ui: Ui, name: str, label: str, longest: int) -> str:
    imgui.set_next_item_width(-1)
    _, said = imgui.input_text_with_hint(f"##{name}", label, ui.memory.get(name, ""))
    ui.mark(name)
    ui.memory[name] = said = said[:longest]
    return said.strip()


def begin_edit(ui: Ui, name: str, words: str) -> None:
    ui.memory[_EDIT] = (name, name, words)


def is_editing(ui: Ui) -> bool:
    return _EDIT in ui.memory


def draw_editor(state: AppState, ui: Ui) -> list[Action]:
    before, name, words = ui.memory[_EDIT]
    text(ui, tr("Name"), "muted", "small")
    imgui.set_next_item_width(-1)
    _, name = imgui.input_text("##prompts.edit.name", name)
    ui.mark("prompts.edit.name")
    text(ui, tr("Text"), "muted", "small")
    size, flags = ImVec2(-1, ui.theme.text * 10), imgui.InputTextFlags_.word_wrap
    _, words = imgui.input_text_multiline("##prompts.edit.text", words, size, flags)
    ui.mark("prompts.edit.text")
    name, words = name[:LONGEST_NAME], typed(words[:LONGEST_PROMPT])
    ui.memory[_EDIT] = (before, name, words)
    places = SavedPrompt(name, words).places
    if places:
        wrapped(ui, tr("Asked for when it is inserted: {names}.").format(names=", ".join(places)))
    taken = name.strip() != before and state.prompts.named(name.strip()) is not None
    if taken:
        wrapped(ui, tr("There is a prompt of this name already."), "warning")
    ready = bool(name.strip() and words.strip()) and not taken
    saved = primary_button(ui, "prompts.edit.save", tr("Save"), enabled=ready)
    imgui.same_line()
    if button(ui, "prompts.edit.cancel", tr("Cancel")) or saved:
        del ui.memory[_EDIT]
    return [SavePrompt(name.strip(), words, before)] if saved else []
