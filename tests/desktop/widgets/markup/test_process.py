"""What the process apart makes of formulas and code, and how it ends what takes too long."""

import numpy as np
import pytest

from llm_lite.desktop.widgets.markup.code_colors import CodeColors
from llm_lite.desktop.widgets.markup.formulas import coverage
from llm_lite.desktop.widgets.markup.process import FAILED, MarkupProcess
from llm_lite.desktop.widgets.theme import DARK, LIGHT

CODE = "def f(x):\n    return 'a'  # c\n"


@pytest.fixture(scope="module")
def process():
    made = MarkupProcess()
    yield made
    made.close()


def formula(process, tex, display=True):
    process.formula(tex, display)
    assert process.wait()
    return process.formula(tex, display)


@pytest.mark.parametrize(
    "tex",
    [
        r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
        r"\sum_{i=1}^n i",
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\begin{aligned} a &= b \\ c &= d \end{aligned}",
        r"\text{rate } \alpha \in \mathbb{R}",
        r"\boxed{x} \cancel{y}",
    ],
)
def test_formulas_have_outlines(process, tex):
    made = formula(process, tex)
    assert made["contours"] and made["width"] > 300 and made["ascent"] > 300


@pytest.mark.parametrize(
    "tex", [r"\nosuchthing x", r"\frac{a}", r"\text{กขค}", "{" * 3000, "x^", "\\" * 999, "\ud800"]
)
def test_what_cannot_be_set_fails(process, tex):
    assert formula(process, tex) is FAILED


def test_letters_of_the_text_have_a_place_in_a_formula(process):
    made = formula(process, r"\text{한글 x} + x^{\text{속}}")
    (first, second, third) = made["letters"]
    assert [one[0] for one in made["letters"]] == ["한", "글", "속"]
    assert first[1] < second[1] < third[1] <= made["width"]
    assert first[3] == second[3] > third[3], "small above the line"
    assert third[2] < first[2] == 0
    assert made["contours"]
    alone = formula(process, r"\text{漢}")
    assert alone["letters"][0][0] == "漢" and not alone["contours"] and alone["width"] > 900


def test_what_takes_too_long_is_ended_and_the_next_one_is_made(process):
    assert formula(process, r"\frac{1}{" * 200 + "2" + "}" * 200) is FAILED
    assert formula(process, "x+1")["contours"]


def test_inline_formulas_are_flatter(process):
    tall, flat = (formula(process, r"\sum_{i=1}^n i", display) for display in (True, False))
    assert flat["ascent"] + flat["descent"] < tall["ascent"] + tall["descent"]


def colored(process, code, language="python", live=False):
    colors = CodeColors(process)
    colors.of(language, code, 0.0, live)
    assert process.wait()
    return colors.of(language, code, 0.0, live)


def test_code_has_colors(process):
    parts = colored(process, CODE).parts(0, len(CODE))
    assert parts[0] == (3, "keyword") and parts[-1][0] == len(CODE)
    words = {kind: CODE[low:high] for (low, _), (high, kind) in zip([(0, ""), *parts], parts)}  # noqa: B905
    assert (words["string"], words["comment"]) == ("'a'", "# c")


@pytest.mark.parametrize("language", ["", "no such language", "python" * 1000])
def test_unknown_languages_are_plain(process, language):
    assert {kind for _, kind in colored(process, CODE, language).parts(0, len(CODE))} == {""}


def test_code_that_is_written_keeps_the_colors_of_whole_lines(process):
    code = CODE + "    els"
    parts = colored(process, code, live=True).parts(0, len(code))
    assert parts[0] == (3, "keyword") and parts[-1] == (len(code), "")


@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_colors_can_be_read(palette):
    for kind, color in palette.syntax.items():
        assert contrast(color, palette.code) >= 4.5, kind
    for surface in (palette.base, palette.bubble):
        assert contrast(palette.link, surface) >= 4.5


def contrast(one, other):
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color):
    parts = ((color >> shift & 255) / 255 for shift in (16, 8, 0))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_coverage_is_the_share_of_each_pixel():
    square = np.array([(1.25, 1.0), (3.5, 1.0), (3.5, 2.5), (1.25, 2.5)])
    found = coverage([square], 5, 4) / 255
    expected = np.zeros((4, 5))
    expected[1] = (0, 0.75, 1, 0.5, 0)
    expected[2] = expected[1] / 2
    assert np.allclose(found, expected, atol=1 / 255)
    hole = square[::-1] * 0.5 + (1.2, 0.9)
    assert coverage([square, hole], 5, 4).sum() < coverage([square], 5, 4).sum()
    for points in (square, square[::-1]):  # whichever way it turns
        assert coverage([points], 5, 4).sum() == coverage([square], 5, 4).sum()
