"""The library of prompts: insert, edit, save the draft as one, bring files in and out."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.file_chooser.path_field import path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.model import (
    AddExamples,
    DeletePrompt,
    ExportPrompts,
    ImportPrompts,
    InsertPrompt,
    RestorePrompt,
    SavePrompt,
    WantPrompts,
)
from llm_lite.desktop.features.prompts.state import (
    LONGEST_NAME,
    LONGEST_PROMPT,
    SavedPrompt,
    filled,
)
from llm_lite.desktop.language.incoming import TYPED, typed
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_BOOK, ICON_EDIT, ICON_TRASH, ICON_UPLOAD
from llm_lite.desktop.widgets.text_input import lines_field
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

PANEL, PLACES = "prompts", "prompts.places"
HINT = mark("Prompts: texts that you use again. Or type / at the start.")
ABOUT = mark(
    "Texts that you use again, each a Markdown file. When you insert one, you "
    "fill in the words in double braces, such as {{subject}}. Drop files here to "
    "import them."
)
WIDTH, ROWS = 112.0, 7  # in spacing units; rows in sight
LONGEST_QUERY = 200  # characters


class EditedPrompt(Struct):
    before: str  # the name that it had, "" for a new prompt
    name: str
    text: str


class InsertedPrompt(Struct):
    """A prompt whose places are filled before it is inserted."""

    prompt: SavedPrompt
    values: dict[str, str]  # by place
    focus: bool = True  # the first field is to have the keyboard


class PromptControls(Struct):
    shown: bool = False  # the panel is open
    query: str = ""
    path: str = ""  # of a file or folder, to import from or export to
    exported: str = ""  # the name of the prompt to export, "" for all
    edited: EditedPrompt | None = None
    inserted: InsertedPrompt | None = None


def shows_prompts(ui: Ui) -> bool:
    """Return whether the panel of prompts is open."""
    return ui.local(PromptControls).shown


def draw_prompts(state: AppState, ui: Ui, at: ImVec2, side: float) -> list[Action]:
    """Draw the button with its corner at `at`, and the panel that it opens above it."""
    imgui.set_cursor_screen_pos(at)
    controls = ui.local(PromptControls)
    if icon_button(ui, "chat.prompts", ICON_BOOK, tr(HINT), side=side, active=controls.shown):
        ui.opened = PANEL
    asked = ui.opened == PANEL
    actions: list[Action] = [WantPrompts()] if asked else []
    place = ImVec2(at.x + side - ui.u(WIDTH), at.y - ui.u(2))
    with ui.styled(item_spacing=(ui.u(2), ui.u(2))):
        with popover(ui, PANEL, tr("Prompts"), place, ui.u(WIDTH), (0, 1)) as shown:
            controls.shown = shown
            if shown:
                actions += (
                    _draw_library(state, ui)
                    if controls.edited is None
                    else _draw_editor(state, ui, controls.edited)
                )
        actions += draw_places(ui, place)
    return actions


def _draw_library(state: AppState, ui: Ui) -> list[Action]:
    library, actions = state.prompts, list[Action]()
    controls = ui.local(PromptControls)
    wrapped(ui, tr(ABOUT))
    if library.prompts:
        controls.query = _field(ui, "prompts.query", tr("Search"), controls.query, LONGEST_QUERY)
        query = controls.query.strip()
        actions += _draw_list(ui, library.found(query), query)
    elif library.read:
        actions += _draw_empty(ui)
    if library.deleted is not None:
        actions += _draw_deleted(ui, library.deleted)
    if button(ui, "prompts.save", tr("Save the draft as a prompt"), enabled=bool(_draft(state))):
        _begin_edit(ui, "", _draft(state))
    imgui.same_line()
    if button(ui, "prompts.new", tr("New prompt")):
        _begin_edit(ui, "", "")
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
    """Draw a row, with its buttons at the right while the pointer is over it."""
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
        _begin_edit(ui, prompt.name, prompt.text)
    elif what == "export":
        ui.local(PromptControls).exported = prompt.name
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
    controls, label = ui.local(PromptControls), tr("Path of a file or folder")
    target = PathTarget("prompts.path", PANEL)
    typed = path_field(ui, target, controls.path, ("file", "folder"), label)
    controls.path, actions = typed.path, typed.actions
    path, name = controls.path.strip(), controls.exported
    if button(ui, "prompts.import", tr("Import"), enabled=bool(path)):
        actions.append(ImportPrompts((path,)))
    imgui.same_line()
    words = tr("Export {name}").format(name=name) if name else tr("Export all to a folder")
    if button(ui, "prompts.export", words, enabled=bool(path) and any_prompts):
        actions.append(ExportPrompts(path, name))
        controls.exported = ""
    return actions


def _field(ui: Ui, name: str, label: str, value: str, longest: int) -> str:
    imgui.set_next_item_width(-1)
    _, value = imgui.input_text_with_hint(f"##{name}", label, value)
    ui.mark(name)
    return value[:longest]


def _begin_edit(ui: Ui, name: str, words: str) -> None:
    ui.local(PromptControls).edited = EditedPrompt(name, name, words)


def _draw_editor(state: AppState, ui: Ui, edited: EditedPrompt) -> list[Action]:
    text(ui, tr("Name"), "muted", "small")
    imgui.set_next_item_width(-1)
    _, name = imgui.input_text("##prompts.edit.name", edited.name)
    ui.mark("prompts.edit.name")
    text(ui, tr("Text"), "muted", "small")
    size, flags = ImVec2(-1, ui.theme.text * 10), imgui.InputTextFlags_.word_wrap
    _, words = lines_field("##prompts.edit.text", edited.text, size, flags)
    ui.mark("prompts.edit.text")
    edited.name = name = name[:LONGEST_NAME]
    edited.text = words = typed(words[:LONGEST_PROMPT])
    places = SavedPrompt(name, words).places
    if places:
        wrapped(ui, tr("Asked for when it is inserted: {names}.").format(names=", ".join(places)))
    taken = name.strip() != edited.before and state.prompts.named(name.strip()) is not None
    if taken:
        wrapped(ui, tr("There is a prompt of this name already."), "warning")
    ready = bool(name.strip() and words.strip()) and not taken
    saved = primary_button(ui, "prompts.edit.save", tr("Save"), enabled=ready)
    imgui.same_line()
    if button(ui, "prompts.edit.cancel", tr("Cancel")) or saved:
        ui.local(PromptControls).edited = None
    return [SavePrompt(name.strip(), words, edited.before)] if saved else []


def is_inserting(ui: Ui) -> bool:
    return ui.local(PromptControls).inserted is not None


def use(ui: Ui, prompt: SavedPrompt) -> list[Action]:
    """Insert a prompt, or show a field for each place that it leaves open."""
    if not prompt.places:
        return [InsertPrompt(prompt.text)]
    ui.local(PromptControls).inserted = InsertedPrompt(prompt, dict.fromkeys(prompt.places, ""))
    ui.opened = PLACES
    return []


def draw_places(ui: Ui, at: ImVec2) -> list[Action]:
    """Draw fields for the places of an inserted prompt, with the lower edge at `at`."""
    controls = ui.local(PromptControls)
    inserted = controls.inserted
    if inserted is None:
        return []
    prompt = inserted.prompt
    with popover(ui, PLACES, prompt.name, at, ui.u(104), (0, 1)) as shown:
        if not shown:
            if ui.opened != PLACES:
                controls.inserted = None
            return []
        wrapped(ui, tr("Fill what the prompt leaves open. What stays empty is left as it is."))
        entered = _draw_fields(ui, inserted)
        clicked = primary_button(ui, f"{PLACES}.insert", tr("Insert"))
        if not clicked and not entered:
            return []
        imgui.close_current_popup()
        given = {name: value for name, value in inserted.values.items() if value.strip()}
        return [InsertPrompt(filled(prompt.text, given))]


def _draw_fields(ui: Ui, inserted: InsertedPrompt) -> bool:
    """Draw the fields and return whether Enter ended the last one."""
    values = inserted.values
    on, inserted.focus = inserted.focus, False
    for number, name in enumerate(values):
        text(ui, name, "muted", "small")
        imgui.set_next_item_width(-1)
        if on:
            imgui.set_keyboard_focus_here()
        flags = imgui.InputTextFlags_.enter_returns_true
        done, value = imgui.input_text(f"##{PLACES}.{number}", values[name], flags)
        ui.mark(f"{PLACES}.{number}")
        values[name] = value[:TYPED]
        on = done  # Enter leads to the next one
    return bool(on)
