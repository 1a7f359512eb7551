"""The tokens that a word becomes, with their numbers."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText, Word
from llm_lite.core.text.tokenization.spelling import data_shown
from llm_lite.desktop.features.tokenizer import colors, tips
from llm_lite.desktop.features.tokenizer.chips import Chip, Look, draw_chips, kept_page
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text


def draw_word_tokens(ui: Ui, told: TokenizedText, word: Word) -> None:
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    text(ui, tr("Tokens"), style="small", bold=True)
    held = ui.memory.get("tokenizer.result")
    if held is None or held[0] is not word:
        chips = [Chip(data_shown(piece.data), str(piece.id)) for piece in word.pieces]
        held = ui.memory["tokenizer.result"] = (word, chips)
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, "tokenizer.result.page", word, held[1], width, ui.u(0.5))

    def paint(number: int) -> Look:
        return colors.of_word(ui, number, 1)

    pointed = draw_chips(ui, "tokenizer.token", held[1], page, paint)
    if pointed is not None:
        piece = word.pieces[pointed]
        tips.draw_facts(ui, tips.piece_title(piece), tips.piece_facts(told, piece))
