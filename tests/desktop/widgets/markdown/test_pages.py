"""A page that grows is laid out as if it had been there at once, for little work."""

import random
from functools import partial

import pytest

from llm_lite.desktop.widgets.markdown.drawing import PageDrawing
from llm_lite.desktop.widgets.markdown.rich_text import RichText
from tests.counting import python_calls

PIECES = (
    *(
        "words ",
        "**bold** ",
        "\n\n",
        "\n",
        "- item\n",
        "```\ncode\n```\n\n",
        "# Head\n\n",
        "---\n\n",
    ),
    *("| a | b |\n|---|---|\n| c | d |\n\n", "> quote\n\n", "1. one\n"),
)


@pytest.fixture
def ui(headless):
    return headless().ui


def same(one, other):
    """Places and runs; `live` says how it was asked for."""
    return _told(one) == _told(other)


def _told(page):
    blocks = [(y, laid.block, laid.height, laid.left, laid.runs) for y, laid in page.blocks]
    return blocks, page.height, page.width, page.epoch


@pytest.mark.parametrize("seed", range(6))
def test_a_page_that_grew_is_the_page_of_the_whole(ui, seed):
    rng, text, grown = random.Random(seed), "", RichText()
    for _ in range(60):
        text += rng.choice(PIECES)
        width = 300.0 if rng.random() < 0.9 else 200.0
        live = rng.random() < 0.8
        fresh = RichText().page(ui, text, width)
        assert same(grown.page(ui, text, width, live=live), fresh)


@pytest.mark.parametrize("live", [True, False])
def test_a_page_that_becomes_shorter_is_laid_out_as_it_is(ui, live):
    """As one of an answer that is begun again: its first blocks are those from before."""
    blocks = [f"paragraph {number}\n\n" for number in range(6)]
    shown = RichText()
    for count in (6, 3, 5, 1, 6, 0, 2):
        text = "".join(blocks[:count])
        assert same(shown.page(ui, text, 300.0, live=live), RichText().page(ui, text, 300.0))


def test_two_pages_grow_at_once(ui):
    grown, one, other = RichText(), "", ""
    for number in range(40):
        one, other = f"{one}one {number}\n\n", f"{other}- other {number}\n"
        assert same(grown.page(ui, one, 300.0, live=True), RichText().page(ui, one, 300.0))
        assert same(grown.page(ui, other, 300.0, live=True), RichText().page(ui, other, 300.0))


@pytest.mark.parametrize("unit", ["{}\n\n", "- {}\n", "{}. item\n", "**{}**\n\n```\nx\n```\n\n"])
def test_a_token_costs_the_same_however_many_blocks_there_are(ui, unit):
    """Thousands of them: more than are kept by themselves."""
    costs = []
    for count in (50, 6_000):
        grown, text = RichText(), "".join(unit.format(n) for n in range(1, count))
        grown.page(ui, text, 300.0, live=True)
        grown.page(ui, text + "more", 300.0, live=True)
        costs.append(python_calls(partial(grown.page, ui, text + "more w", 300.0, live=True)))
    assert costs[1] < 2 * costs[0] + 50, costs


def test_only_blocks_in_sight_are_drawn(ui, headless, monkeypatch):
    text = "".join(f"paragraph {n}\n\n" for n in range(2_000))
    rich, drawn = RichText(), []
    page = rich.page(ui, text, 300.0)
    monkeypatch.setattr(PageDrawing, "_block", lambda self, laid, *rest: drawn.append(laid))
    monkeypatch.setattr(PageDrawing, "_markers", lambda *rest: None)
    monkeypatch.setattr(PageDrawing, "_bars", lambda *rest: None)
    drawing = PageDrawing.__new__(PageDrawing)
    drawing.live, drawing.name, drawing._selected = False, "", None
    for low, high in (
        (0.0, 100.0),
        (5_000.0, 5_300.0),
        (-50.0, 10.0),
        (1e6, 1e6 + 9),
        (-99.0, -1.0),
    ):
        drawn.clear()
        drawing.low, drawing.high = low, high
        drawing.blocks(page.blocks, 0.0, 0.0, 300.0)
        expected = [b for top, b in page.blocks if top + b.height >= low and top <= high]
        assert drawn == expected
