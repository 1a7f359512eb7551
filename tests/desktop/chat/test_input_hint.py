"""The words in an empty input, beside its buttons."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.chat import input_card
from llm_lite.desktop.widgets.widgets import fit
from tests.desktop.headless import READY


@pytest.mark.parametrize(
    ("font_size", "size", "is_cut"), [(15.0, (900, 600), False), (32.0, (600, 600), True)]
)
def test_the_hint_ends_before_the_buttons(headless, monkeypatch, font_size, size, is_cut):
    shown = []

    def recorded(words, room):
        made = fit(words, room)
        shown.append((made, imgui.calc_text_size(made).x, room))
        return made

    monkeypatch.setattr(input_card, "fit", recorded)
    one = headless(replace(READY, font_size=font_size), size=size)
    one.driver.frames(3)
    made, width, room = shown[-1]
    assert width <= room and made.endswith("…") == is_cut
    left, right = one.driver.rect("chat.input")[0], one.driver.rect("chat.prompts")[0]
    assert left + width <= right
