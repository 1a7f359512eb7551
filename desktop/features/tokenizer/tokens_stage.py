"""The tokens of a text with their numbers; control tokens and the template's own stand out."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText, TokenPiece
from llm_lite.core.text.tokenization.spelling import data_shown
from llm_lite.desktop.features.tokenizer import colors, tips
from llm_lite.desktop.features.tokenizer.chips import Chip, Look, draw_chips, kept_page
from llm_lite.desktop.language.incoming import NAME, fit_line
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, wrapped

Placed = tuple[TokenPiece, int, int, bool, bool]  # word, part of it, whether control, whether typed


def draw(ui: Ui, told: TokenizedText) -> None:
    facts = f"{fit_line(told.tokenizer, NAME)}  ·  {kind_words(told)}"
    text(ui, facts, "muted", "small")
    if not told.tokens:
        wrapped(ui, tr("There are no tokens yet: write a text above."))
        return
    if told.typed:
        wrapped(ui, tr("Framed: control tokens. Grey: what the template writes. Coloured: you."))
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    draw_pieces(ui, "tokenizer.piece", told)


def kind_words(told: TokenizedText) -> str:
    """What kind of tokenizer it is, and how large."""
    kind = tr("BPE of bytes") if told.of_bytes else told.kind
    return f"{kind}  ·  " + tr("{n:,} tokens in the vocabulary").format(n=told.vocabulary)


def draw_pieces(ui: Ui, name: str, told: TokenizedText) -> None:
    placed, chips = _made(ui, name, told)
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, f"{name}.page", chips, chips, width, ui.u(0.5))

    def paint(number: int) -> Look:
        _, word, part, control, own = placed[number]
        if control:
            return colors.of_control(ui)
        if not own:
            return colors.of_template(ui, number)
        return colors.of_word(ui, word, part)

    pointed = draw_chips(ui, name, chips, page, paint)
    if pointed is not None:
        piece, _, _, control, own = placed[pointed]
        note = "" if own and not control else _note(control)
        tips.draw_facts(ui, tips.piece_title(piece), tips.piece_facts(told, piece), note)


def _note(control: bool) -> str:
    if control:
        return tr("A control token: it stands for no text and steers the model.")
    return tr("The chat template writes it.")


def _made(ui: Ui, name: str, told: TokenizedText) -> tuple[list[Placed], list[Chip]]:
    """Made once for a result."""
    held = ui.memory.get(f"{name}.made")
    if held is None or held[0] is not told:
        placed = _placed(told)
        chips = [_chip(told, each) for each in placed]
        held = ui.memory[f"{name}.made"] = (told, placed, chips)
    return held[1], held[2]


def _placed(told: TokenizedText) -> list[Placed]:
    found: list[Placed] = [(piece, 0, 0, True, True) for piece in told.before]
    number = 0
    for word in told.words:
        for part, piece in enumerate(word.pieces):
            own = colors.is_typed(told, word.start)
            found.append((piece, number, part, word.control, own))
        number += 1 if word.pieces and word.spelled.strip("Ġ▁ ") else 0
    return [*found, *((piece, 0, 0, True, True) for piece in told.after)]


def _chip(told: TokenizedText, placed: Placed) -> Chip:
    piece = placed[0]
    words = data_shown(piece.data) if piece.data else tips.shown_as_spelled(piece.token)
    return Chip(words, str(piece.id), piece.data.endswith(b"\n") and not placed[3])
