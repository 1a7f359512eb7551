"""The draft's files above its words: a chip each, and how much of the context all of it takes."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.attachments.chip import (
    about,
    chip_height,
    chip_width,
    draw_chip,
    note,
)
from llm_lite.desktop.features.attachments.model import (
    AttachWhole,
    ChooseAttachments,
    DraftBudget,
    FitFiles,
    IntoText,
    RemoveFile,
    RemoveFiles,
    budget,
)
from llm_lite.desktop.features.attachments.state import DraftFile
from llm_lite.desktop.features.attachments.text_box import box_height, draw_text_box, preview
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.icons import ICON_PAPERCLIP, ICON_WARNING
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, icon_button, popover, wrapped

PREVIEW = "attachments.preview"
MOST_ROWS = 3  # of chips; more scroll
PREVIEW_LINES = 24


class FilePreview(Struct):
    """The file of the draft whose text is shown above its chip."""

    key: int | None = None  # None: no preview is open
    at: tuple[float, float] = (0.0, 0.0)  # the corner of the chip on the screen


def files_height(state: AppState, ui: Ui, width: float) -> float:
    """Return the height of the part of the card above the words; 0 for a short draft without
    files."""
    if not state.files.files:
        return ui.u(1) + _line(ui) if budget(state) else 0.0
    rows = min(len(_rows(state, ui, width)), MOST_ROWS)
    return rows * _row(ui) + ui.u(1) + (_line(ui) if budget(state) else 0.0)


def draw_files(state: AppState, ui: Ui, at: ImVec2, width: float) -> list[Action]:
    """Draw the files in a card of `width` with its corner at `at`."""
    if not state.files.files:
        ui.local(FilePreview).key = None
        known = budget(state)
        return [] if known is None else _draw_budget(state, ui, known, at, width)
    rows = _rows(state, ui, width)
    shown = min(len(rows), MOST_ROWS) * _row(ui)
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(2), at.y + ui.u(2)))
    with ui.styled(window_padding=(0.0, 0.0)):
        imgui.begin_child("##attachments", ImVec2(width - ui.u(4), shown))
    actions: list[Action] = []
    corner = imgui.get_cursor_screen_pos()
    for number, row in enumerate(rows):
        x, low = corner.x, ImVec2(corner.x, corner.y + number * _row(ui))
        if not imgui.is_rect_visible(low, ImVec2(low.x + width, low.y + _row(ui))):
            continue
        for file, words, wide in row:
            actions += _draw_file(ui, file, words, ImVec2(x, low.y), wide)
            x += wide + ui.u(1.5)
    imgui.set_cursor_screen_pos(ImVec2(corner.x, corner.y + len(rows) * _row(ui)))
    imgui.dummy(ImVec2(0, 0))
    imgui.end_child()
    known = budget(state)
    if known is not None:
        actions += _draw_budget(state, ui, known, ImVec2(at.x, at.y + ui.u(2) + shown), width)
    return actions + _draw_preview(state, ui)


def draw_paperclip(ui: Ui, at: ImVec2, side: float) -> list[Action]:
    imgui.set_cursor_screen_pos(at)
    hint = tr("Attach files: text, code or PDF. Or drop them on the window.")
    clicked = icon_button(ui, "chat.attach", ICON_PAPERCLIP, hint, side=side)
    return [ChooseAttachments()] if clicked else []


def _row(ui: Ui) -> float:
    return chip_height(ui) + ui.u(1.5)


def _line(ui: Ui) -> float:
    return ui.u(8)


def _rows(state: AppState, ui: Ui, width: float) -> list[list[tuple[DraftFile, str, float]]]:
    """List the chips of each line, with their notes and widths."""
    room, rows, x = width - ui.u(4), list[list[tuple[DraftFile, str, float]]](), 0.0
    for file in state.files.files:
        words = note(file.attached, file.tokens)
        wide = min(chip_width(ui, file.name, words, closes=True), room)
        if not rows or x + wide > room:
            rows.append([])
            x = 0.0
        rows[-1].append((file, words, wide))
        x += wide + ui.u(1.5)
    return rows


def _draw_file(ui: Ui, file: DraftFile, words: str, at: ImVec2, width: float) -> list[Action]:
    name, shown = f"attachment.{file.key}", ui.local(FilePreview)
    active = shown.key == file.key
    clicked, crossed = draw_chip(
        ui, name, file.attached, file.name, words, at, width, closes=True, active=active
    )
    if clicked and file.attached is not None:
        shown.key, shown.at = file.key, (at.x, at.y)
        ui.opened = PREVIEW
    return [RemoveFile(file.key)] if crossed else []


def _draw_budget(
    state: AppState, ui: Ui, known: DraftBudget, at: ImVec2, width: float
) -> list[Action]:
    """Draw a bar of the context: the conversation, the draft, what is free; what to do where it is
    too much."""
    small, draw = ui.theme.size("small"), imgui.get_window_draw_list()
    x, y, bar = at.x + ui.u(2), at.y + ui.u(1), min(ui.u(30), width * 0.22)
    middle = y + ui.u(3.5)
    _draw_bar(ui, known, ImVec2(x, middle - ui.u(0.75)), bar)
    x += bar + ui.u(2)
    right, font = at.x + width - ui.u(2), ui.fonts["regular"]
    actions: list[Action] = []
    color = "muted"
    words = tr("{used:,} of {context:,} tokens with this draft")
    if not known.fits:
        color, words = "error", tr("Does not fit: {used:,} of {context:,} tokens")
        draw.add_text(font, small, ImVec2(x, middle - small / 2), ui.color(color), ICON_WARNING)
        x += small + ui.u(1)
    if not known.fits and state.files.files:
        actions, right = _draw_ways_out(ui, known, right, y)
    if not known.counted:
        words = f"{words}…"
    with ui.font(style="small"):
        shown = fit(words.format(used=known.used, context=known.context), max(right - x, 1.0))
    draw.add_text(font, small, ImVec2(x, round(middle - small / 2)), ui.color(color), shown)
    ui.rects["attachments.budget"] = (at.x + ui.u(2), y, right, y + ui.u(7))
    return actions


def _draw_bar(ui: Ui, known: DraftBudget, at: ImVec2, width: float) -> None:
    draw, height = imgui.get_window_draw_list(), ui.u(1.5)
    radius = height / 2
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("pressed"), radius)
    whole = max(known.context, known.used, 1)
    before, used = known.before / whole * width, known.used / whole * width
    fill = "accent" if known.fits else "error"
    draw.add_rect_filled(at, ImVec2(at.x + max(used, height), end.y), ui.color(fill), radius)
    if before >= 1:
        draw.add_rect_filled(at, ImVec2(at.x + before, end.y), ui.color("muted"), radius)
    if known.used > known.context:  # where the context ends
        x = at.x + known.context / whole * width
        low, high = ImVec2(x, at.y - ui.u(0.75)), ImVec2(x + ui.u(0.5), end.y + ui.u(0.75))
        draw.add_rect_filled(low, high, ui.color("text"))


def _draw_ways_out(
    ui: Ui, known: DraftBudget, right: float, y: float
) -> tuple[list[Action], float]:
    """Draw buttons at the right end of the line; return their actions and where they begin."""
    label = tr("Attach what fits")
    with ui.font(style="small"), ui.styled(frame_padding=(ui.u(2), ui.u(1))):
        width = imgui.calc_text_size(label).x + ui.u(4)
        tall = ui.theme.size("small") + ui.u(2)
        imgui.set_cursor_screen_pos(ImVec2(right - width, round(y + ui.u(3.5) - tall / 2)))
        hint = tr("Keep the first part of the longest files, and leave room for the answer")
        clicked = button(ui, "attachments.fit", label, hint=hint, enabled=known.counted)
    return ([FitFiles()] if clicked else []), right - width - ui.u(2)


def _draw_preview(state: AppState, ui: Ui) -> list[Action]:
    kept = ui.local(FilePreview)
    at = kept.at
    file = next((file for file in state.files.files if file.key == kept.key), None)
    if file is None or file.attached is None:
        return []
    actions: list[Action] = []
    width = ui.u(150)
    with popover(ui, PREVIEW, fit_title(ui, file.name, width), ImVec2(*at), width, (0, 1)) as shown:
        if not shown:
            if ui.opened != PREVIEW:
                kept.key = None
            return []
        text = file.attached.text
        wrapped(ui, about(file.attached, "").strip().replace("\n", ".  "))
        if text:
            height = min(box_height(ui, text, PREVIEW_LINES), max(at[1] - ui.u(58), ui.u(26)))
            draw_text_box(ui, f"{PREVIEW}.text", text, ImVec2(-1, height))
            if words := preview(ui, text).note:
                wrapped(ui, words)
        if file.text and button(ui, f"{PREVIEW}.whole", tr("Attach all of it")):
            actions.append(AttachWhole(file.key))
        if file.text:
            imgui.same_line()
        if text and button(ui, f"{PREVIEW}.into_text", tr("Put it into the text")):
            imgui.close_current_popup()
            actions.append(IntoText(file.key))
        if text:
            imgui.same_line()
        if button(ui, f"{PREVIEW}.remove", tr("Remove the file")):
            imgui.close_current_popup()
            actions.append(RemoveFile(file.key))
        if len(state.files.files) > 1:
            imgui.same_line()
            if button(ui, f"{PREVIEW}.remove_all", tr("Remove all files")):
                imgui.close_current_popup()
                actions.append(RemoveFiles())
    return actions


def fit_title(ui: Ui, name: str, width: float) -> str:
    with ui.font("bold", "title"):
        return fit(name, width - ui.u(16))
