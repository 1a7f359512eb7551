"""What the pointer is over, explained: bytes, code points, id, spelling."""

from __future__ import annotations

from collections.abc import Sequence

from imgui_bundle import imgui

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText, TokenPiece
from llm_lite.core.text.tokenization.spelling import (
    code_points,
    data_shown,
    hexadecimal,
    shown,
    symbol_bytes,
    symbol_shown,
)
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text

Fact = tuple[str, str]  # what it is, its value


def draw_facts(ui: Ui, title: str, facts: Sequence[Fact], note: str = "") -> None:
    """A tooltip: a title, and values beside their names."""
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
        text(ui, title, bold=True)
        column = 0.0
        with ui.font(style="small"):
            names = [imgui.calc_text_size(name).x for name, _ in facts]
            column = max(names, default=0.0) + ui.u(3)
        start = imgui.get_cursor_pos_x()
        for name, value in facts:
            text(ui, name, "muted", "small")
            imgui.same_line(start + column)
            text(ui, value, style="small")
        if note:
            imgui.push_text_wrap_pos(start + ui.u(64))
            text(ui, note, "muted", "small")
            imgui.pop_text_wrap_pos()
        imgui.end_tooltip()


def piece_facts(told: TokenizedText, piece: TokenPiece) -> list[Fact]:
    facts = [
        (tr("Token"), f"{piece.id:,}"),
        (tr("In the vocabulary"), shown_as_spelled(piece.token)),
    ]
    facts.append((tr("Bytes"), hexadecimal(piece.data)))
    characters = told.text[piece.start : piece.end]
    if characters:
        facts.append((tr("Characters"), shown(characters)))
        facts.append((tr("Code points"), code_points(characters)))
    return facts


def symbol_facts(told: TokenizedText, symbol: str) -> list[Fact]:
    data = symbol_bytes(symbol, told.of_bytes)
    return [
        (tr("In the vocabulary"), shown_as_spelled(symbol)),
        (tr("Bytes"), hexadecimal(data)),
    ]


def shown_as_spelled(token: str) -> str:
    """As the vocabulary spells it, "Ġthe" or "▁the", without what no line can show."""
    return "".join(char if char.isprintable() else "·" for char in token[:48])


def piece_title(piece: TokenPiece) -> str:
    return f"“{data_shown(piece.data)}”"


def symbol_title(told: TokenizedText, symbol: str) -> str:
    return f"“{symbol_shown(symbol, told.of_bytes)}”"
