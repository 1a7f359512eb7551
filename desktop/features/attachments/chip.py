"""A file as a small card: an icon for its kind, its name, how many tokens it has."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.attached_text import Attachment, AttachmentKind
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.icons import (
    ICON_CLOSE,
    ICON_FILE,
    ICON_FILE_CODE,
    ICON_FILE_TEXT,
    ICON_PICTURE,
)
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, tip

ICONS: dict[AttachmentKind, str] = {
    "text": ICON_FILE_TEXT,
    "markdown": ICON_FILE_TEXT,
    "code": ICON_FILE_CODE,
    "pdf": ICON_FILE,
    "picture": ICON_PICTURE,
}
KINDS: dict[AttachmentKind, str] = {
    "text": mark("Text"),
    "markdown": mark("Markdown"),
    "code": mark("Code"),
    "pdf": mark("Text of a PDF"),
    "picture": mark("Picture"),
}
ONLY_ITS_NAME = mark("The model sees no pictures: it is told the name only.")
LONGEST = 56.0  # of a name, in spacing units


def chip_height(ui: Ui) -> float:
    return ui.u(7)


def note(attached: Attachment | None, tokens: int) -> str:
    """Return the words beside the name of a file."""
    if attached is None:
        return tr("Reading")
    if attached.kind == "picture":
        return tr("only its name")
    count = trn("{n:,} token", "{n:,} tokens", tokens).format(n=tokens) if tokens > 0 else "…"
    return tr("first part, {count}").format(count=count) if attached.is_cut else count


def about(attached: Attachment | None, name: str) -> str:
    """Return the hint that the pointer shows."""
    if attached is None:
        return name
    lines = [name, tr(KINDS[attached.kind])]
    if attached.kind == "picture":
        lines.append(tr(ONLY_ITS_NAME))
    elif attached.is_cut:
        words = tr("The first {part:,} of {whole:,} characters are attached.")
        lines.append(words.format(part=len(attached.text), whole=attached.whole))
    return "\n".join(lines)


def chip_width(ui: Ui, name: str, words: str, *, closes: bool) -> float:
    return _fixed(ui, words, closes=closes) + min(_wide(ui, name), ui.u(LONGEST))


def _fixed(ui: Ui, words: str, *, closes: bool) -> float:
    small = ui.theme.size("small")
    return small + ui.u(5.5) + _wide(ui, words) + ui.u(6 if closes else 2)


def _wide(ui: Ui, words: str) -> float:
    with ui.font(style="small"):
        return imgui.calc_text_size(words).x


def draw_chip(
    ui: Ui,
    name: str,
    attached: Attachment | None,
    label: str,
    words: str,
    at: ImVec2,
    width: float,
    *,
    closes: bool = False,
    active: bool = False,
) -> tuple[bool, bool]:
    """Draw the card; return whether it was clicked, and whether its cross was."""
    height, small = chip_height(ui), ui.theme.size("small")
    draw, end = imgui.get_window_draw_list(), ImVec2(at.x + width, at.y + height)
    imgui.set_cursor_screen_pos(at)
    clicked = imgui.invisible_button(
        f"##{name}", ImVec2(width - (ui.u(6) if closes else 0), height)
    )
    hovered = imgui.is_item_hovered()
    ui.mark(name)
    tip(ui, about(attached, label))
    fill = "accent_soft" if active else "hover" if hovered else "base"
    draw.add_rect_filled(at, end, ui.color(fill), ui.u(1.5))
    draw.add_rect(at, end, ui.color("accent" if active else "border"), ui.u(1.5), ui.u(0.25))
    y, x = round(at.y + (height - small) / 2), at.x + ui.u(2)
    font = ui.fonts["regular"]
    icon = ICONS[attached.kind] if attached else ICON_FILE
    draw.add_text(font, small, ImVec2(x, y), ui.color("accent"), icon)
    x += small + ui.u(1.5)
    room = width - _fixed(ui, words, closes=closes)
    with ui.font(style="small"):
        shown = fit(label, room)
        wide = imgui.calc_text_size(shown).x
    draw.add_text(font, small, ImVec2(x, y), ui.color("text"), shown)
    draw.add_text(font, small, ImVec2(x + wide + ui.u(2), y), ui.color("muted"), words)
    if not closes:
        return clicked, False
    side = ui.u(5)
    imgui.set_cursor_screen_pos(ImVec2(end.x - side - ui.u(0.5), at.y + (height - side) / 2))
    crossed = icon_button(
        ui, f"{name}.remove", ICON_CLOSE, tr("Remove the file"), side=side, style="small"
    )
    return clicked, crossed
