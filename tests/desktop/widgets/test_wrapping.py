"""Paragraphs: broken at spaces, and where a word is longer than a line, within it."""

import pytest
from imgui_bundle import imgui

from llm_lite.desktop.widgets.widgets import wrap_lines

PATH = "/home/somebody/" + "a-folder-with-a-long-name/" * 12 + "model.gguf"


@pytest.mark.parametrize("words", ["One sentence of plain words.", f"{PATH}: is cut short", PATH])
def test_no_line_is_longer_than_its_room_and_nothing_is_lost(headless, words):
    headless()
    imgui.new_frame()
    lines = wrap_lines(words, 160.0, imgui.get_font_size())
    widths = [imgui.calc_text_size(line).x for line in lines]
    imgui.render()
    assert max(widths) <= 160.0 and len(lines) > 1
    assert "".join("".join(lines).split()) == "".join(words.split())
    if PATH not in words:
        assert " ".join(lines) == words
