"""A script without glyphs is named, and its text stays whole."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.widgets.scripts import NAMES, cannot_draw
from tests.desktop.headless import READY

ARABIC, HINDI = "السماء زرقاء", "आसमान नीला है"


@pytest.mark.parametrize(
    "text", ["plain", "안녕", "Привет, Ελλάδα", "中文 かな", "😀 🇫🇷 → ℝ ∑", "Tiếng Việt", ""]
)
def test_what_has_glyphs_is_not_named(headless, text):
    assert cannot_draw(headless().ui, text) == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ARABIC, "Arabic"),
        (f"a {HINDI} b", "Devanagari (Hindi)"),
        (f"{HINDI} {ARABIC} ไทย אב", None),
    ],
)
def test_what_has_none_is_named(headless, text, names):
    said = cannot_draw(headless().ui, text)
    assert (names or "Devanagari (Hindi), Arabic, Thai") in said and "Hebrew" not in said


def test_a_letter_of_each_named_script_has_no_glyph(headless):
    """A name that is never shown would be dead."""
    font = headless().ui.fonts["regular"]
    starts = {
        "ARABIC": 0x627, "ARMENIAN": 0x561, "BENGALI": 0x995, "DEVANAGARI": 0x915,
        "ETHIOPIC": 0x1200, "GEORGIAN": 0x10D0, "GUJARATI": 0xA95, "GURMUKHI": 0xA15,
        "HEBREW": 0x5D0, "KANNADA": 0xC95, "KHMER": 0x1780, "LAO": 0xE81, "MALAYALAM": 0xD15,
        "MYANMAR": 0x1000, "SINHALA": 0xD9A, "TAMIL": 0xB95, "TELUGU": 0xC15, "THAI": 0xE01,
        "TIBETAN": 0xF40,
    }  # fmt: skip
    assert set(starts) == set(NAMES)
    assert not any(font.is_glyph_in_font(letter) for letter in starts.values())
    assert font.fallback_char == 0x25A1 and font.is_glyph_in_font(0x25A1)


def test_a_message_says_so_and_is_copied_whole(headless):
    messages = (Message("user", ARABIC), Message("assistant", f"So: {HINDI}", stop_reason="end"))
    one = headless(replace(READY, tree=ConversationTree(messages)))
    one.driver.frames(2)
    for index in (0, 1):
        low = one.driver.rect(f"message.{index}.lack")
        whole = one.driver.rect(f"message.{index}")
        assert low[0] >= whole[0] and low[2] <= whole[2] + 1 and low[3] <= whole[3]
    one.driver.click("message.1.copy")
    assert imgui.get_clipboard_text() == f"So: {HINDI}"
    one.program.state = replace(one.state, tree=ConversationTree((Message("user", "So"),)))
    one.driver.frames(2)
    assert not one.driver.shows("message.0.lack")
