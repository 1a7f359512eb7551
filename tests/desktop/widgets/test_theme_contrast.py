"""What is drawn on what can be read: WCAG 2's contrast, over both themes."""

import pytest

from llm_lite.desktop.widgets.theme import DARK, LIGHT

GROUNDS = ("base", "sunken", "panel", "raised")
LIT = ("hover", "bubble", "accent_soft")  # rows under the pointer, chosen ones, what was said
# Text, and all that it stands on.
TEXTS = {
    "text": (*GROUNDS, *LIT, "pressed", "code", "selection"),
    "muted": (*GROUNDS, *LIT, "pressed", "code", "selection"),
    "faint": (*GROUNDS, "code"),
    "link": (*GROUNDS, *LIT, "code", "selection"),
    "good": GROUNDS,
    "warning": (*GROUNDS, "hover"),
    "error": (*GROUNDS, "hover"),
    "on_accent": ("accent", "accent_hover"),
}
# Icons, lines, knobs and the ring of the keyboard.
MARKS = {
    "accent": (*GROUNDS, "accent_soft"),
    "link": (*GROUNDS, *LIT, "pressed"),  # the ring
    "faint": (*GROUNDS, "hover"),
    "good": (*GROUNDS, "hover"),
    "warning": (*GROUNDS, "hover"),
    "error": (*GROUNDS, "hover"),
}
THEMES = pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])


def luminance(color):
    """Relative, of sRGB."""
    parts = (color >> 16, color >> 8 & 255, color & 255)
    linear = [
        c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def too_low(palette, table, least):
    return {
        (front, ground): round(ratio, 2)
        for front, grounds in table.items()
        for ground in grounds
        if (ratio := contrast(getattr(palette, front), getattr(palette, ground))) < least
    }


def test_the_formula_is_the_one_of_wcag():
    assert contrast(0x000000, 0xFFFFFF) == pytest.approx(21.0)
    assert contrast(0x767676, 0xFFFFFF) == pytest.approx(4.54, abs=0.01)


@THEMES
def test_text_can_be_read(palette):
    assert too_low(palette, TEXTS, 4.5) == {}


@THEMES
def test_code_can_be_read(palette):
    for name, color in palette.syntax.items():
        for ground in ("code", "selection"):
            assert contrast(color, getattr(palette, ground)) >= 4.5, (name, ground)


@THEMES
def test_marks_can_be_seen(palette):
    assert too_low(palette, MARKS, 3.0) == {}


@THEMES
def test_lines_of_plots_can_be_seen(palette):
    for color in palette.series:
        assert contrast(color, palette.panel) >= 3.0, hex(color)
