"""Emphasis is seen in scripts whose face has no italics."""

import numpy as np
import pytest

from llm_lite.desktop.widgets.fonts import load_fonts
from llm_lite.desktop.widgets.markdown.drawing import draw_italic

BASELINE = 50.0


@pytest.fixture
def picture(scene):
    one = scene(120, 80)
    font = load_fonts().italic

    def paint(words, slanted):
        def on(draw):
            if slanted:
                draw_italic(draw, font, 32.0, (20.0, 24.0), 0xFFFFFFFF, words, BASELINE)
            else:
                draw.add_text(font, 32.0, (20.0, 24.0), 0xFFFFFFFF, words)

        return one.draw(on, 2)[..., 0].astype(float)

    return paint


def middle(rows):
    """Of the ink, from the left."""
    return (rows.sum(axis=0) * np.arange(rows.shape[1])).sum() / rows.sum()


@pytest.mark.parametrize("words", ["한", "日本", "굵 게"])
def test_letters_without_italics_lean_to_the_right(picture, words):
    upright, leaning = picture(words, False), picture(words, True)
    lean = [middle(leaning[a:b]) - middle(upright[a:b]) for a, b in ((20, 38), (38, 56))]
    assert lean[0] > lean[1] + 1


def test_letters_with_italics_stay_as_they_are(picture):
    assert (picture("Abc", True) == picture("Abc", False)).all()
    assert (picture("a한", True)[:, :34] == picture("a한", False)[:, :34]).all()
