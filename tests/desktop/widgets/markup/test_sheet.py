"""Pictures of formulas on the device: placed, drawn in a colour, let go of when there are many."""

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.desktop.widgets.markup import sheet
from llm_lite.desktop.widgets.markup.formulas import Formulas
from llm_lite.desktop.widgets.markup.sheet import Sheets

RED = 0xFF0000FF


def square(side):
    return np.full((side, side), 255, np.uint8)


def test_a_picture_has_the_color_it_is_drawn_in(scene):
    one, sheets = scene(40, 40), None

    def paint(draw):
        nonlocal sheets
        sheets = sheets or Sheets()
        sheets.begin()
        where, corner = sheets.place(square(8))
        where.draw(draw, imgui.ImVec2(4, 6), imgui.ImVec2(12, 14), corner, (8, 8), RED)

    pixels = one.draw(paint, 3)
    assert (pixels[7:13, 5:11, 0] == 255).all() and (pixels[7:13, 5:11, 1] == 0).all()
    assert pixels[20:, 20:, :3].max() == 0


def test_the_oldest_sheet_goes(scene, monkeypatch):
    monkeypatch.setattr(sheet, "SIDE", 16)
    one, made = scene(40, 40), []

    def paint(draw):
        if not made:
            made.append(Sheets())
        made[0].begin()
        where, corner = made[0].place(square(12))
        where.draw(draw, imgui.ImVec2(0, 0), imgui.ImVec2(12, 12), corner, (12, 12), RED)

    for frame in range(12):
        assert one.draw(paint)[5, 5, 0] == 255, frame
    assert made[0].epoch == 12 - sheet.MOST_SHEETS
    assert len(made[0]._leaving) <= 2, "the device lets go of them"


@pytest.mark.parametrize("size", [15.0, 30.0])
def test_formulas_keep_to_the_width_they_are_given(scene, size):
    one, formulas, found = scene(40, 40), Formulas(), []
    formulas.process.formula("a" * 60, True)
    assert formulas.process.wait()
    one.draw(lambda draw: found.append(formulas.picture("a" * 60, size, 30.0 * size, True)))
    one.draw(lambda draw: found.append(formulas.picture("a" * 60, size, 9000.0, True)))
    one.draw(lambda draw: found.append(formulas.picture("a" * 60, size, 100.0, True)))
    assert found[0].width <= 30 * size + 1 < found[1].width
    assert found[2] is None, "nobody could read it"
    assert found[1].ascent < size
