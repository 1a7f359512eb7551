"""A text that grew is broken as if it had been there at once."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.desktop.widgets import wrapping
from llm_lite.desktop.widgets.markdown import StyledSpan, parse
from llm_lite.desktop.widgets.wrapping import KEPT, Wrapping, wrap

SIZE, LINE = 15.0, 24.0
PIECES = (
    *("a", "word", "a rather long word ", "  ", "\t", "\n", "\n", " and", "語", "말", "."),
    *("`code`", "**bold**", "**", "`", "i" * 60, " \n", "[x](y)"),
)


@pytest.fixture
def ui(headless):
    return headless().ui


def growing(pieces):
    text = ""
    for piece in pieces:
        text += piece
        for block in parse(text)[-1:]:
            yield block.spans


def test_as_if_it_had_been_there_at_once(ui):
    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from((40.0, 90.0, 400.0)))
    def check(pieces, width):
        known = Wrapping()
        for spans in growing(pieces):
            assert known.wrap(ui, spans, width, SIZE, LINE) == wrap(ui, spans, width, SIZE, LINE)

    check()


def test_only_the_last_lines_are_measured(ui, monkeypatch):
    asked = []
    words = wrapping._words

    def counted(*arguments):
        for piece in words(*arguments):
            asked.append(piece)
            yield piece

    monkeypatch.setattr(wrapping, "_words", counted)
    known, text = Wrapping(), ""
    for number in range(400):
        text += f" word{number}"
        asked.clear()
        known.wrap(ui, (StyledSpan(text),), 300.0, SIZE, LINE)
        assert len(asked) < 40
    assert known.wrap(ui, (StyledSpan(text),), 300.0, SIZE, LINE).lines > 30
    asked.clear()
    known.wrap(ui, (StyledSpan(text),), 200.0, SIZE, LINE)
    assert len(asked) > 400, "another width is another text"


def test_several_texts_grow_at_once(ui, monkeypatch):
    known, texts = Wrapping(), [""] * KEPT
    for number in range(60):
        for at in range(KEPT):
            texts[at] += f" word{at}.{number}"
            known.wrap(ui, (StyledSpan(texts[at]),), 200.0, SIZE, LINE)
    assert sorted(one.spans[0].text for one in known._last) == sorted(texts)
    assert all(one.common(one.spans, one.fit) > 10 for one in known._last)


def test_code_whose_lines_have_tabs(ui):
    rng, known, text = random.Random(0), Wrapping(), ""
    for _ in range(200):
        text += rng.choice(("\tx = 1", "\n", "  y\t", "call()", "\n\t\t", "z" * 50))
        spans = (StyledSpan(text, "mono"),)
        assert known.wrap(ui, spans, 120.0, SIZE, LINE) == wrap(ui, spans, 120.0, SIZE, LINE)
