"""A text that grew is broken as if it had been there at once."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.desktop.widgets.markdown import wrapping
from llm_lite.desktop.widgets.markdown.blocks import StyledSpan
from llm_lite.desktop.widgets.markdown.growing import GrowingText
from llm_lite.desktop.widgets.markdown.reading import Reader
from llm_lite.desktop.widgets.markdown.wrapping import KEPT, Style, Wrapping, wrap

PIECES = (
    *("a", "word", "a rather long word ", "  ", "\t", "\n", "\n", " and", "語", "말", "."),
    *("`code`", "**bold**", "**", "`", "i" * 60, " \n", "[x](y)"),
)


def style(width, boxed=True):
    return Style(width, 15.0, 24.0, boxed)


@pytest.fixture
def ui(headless):
    return headless().ui


def growing(pieces):
    text, read = "", GrowingText(Reader())
    for piece in pieces:
        text += piece
        for block in read.read(text)[-1:]:
            yield block.spans


def test_as_if_it_had_been_there_at_once(ui):
    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from((40.0, 90.0, 400.0)))
    def check(pieces, width):
        known = Wrapping()
        for spans in growing(pieces):
            assert known.wrap(ui, spans, style(width)) == wrap(ui, spans, style(width))

    check()


def test_only_the_last_lines_are_measured(ui, monkeypatch):
    asked = []
    words = wrapping._pieces

    def counted(*arguments):
        for piece in words(*arguments):
            asked.append(piece)
            yield piece

    monkeypatch.setattr(wrapping, "_pieces", counted)
    known, text = Wrapping(), ""
    for number in range(400):
        text += f" word{number}"
        asked.clear()
        known.wrap(ui, (StyledSpan(text),), style(300.0))
        assert len(asked) < 40
    assert known.wrap(ui, (StyledSpan(text),), style(300.0)).lines > 30
    asked.clear()
    known.wrap(ui, (StyledSpan(text),), style(200.0))
    assert len(asked) > 400, "another width is another text"


@pytest.mark.parametrize(
    "text", ["가나다라마" * 4_000, "[" * 20_000, "a" + "\t" * 20_000, "語" * 20_000, "a\t" * 10_000]
)
def test_only_the_last_lines_of_a_long_line_are_measured(ui, monkeypatch, text):
    """Also where a word is longer than a line, or blanks are: 1 MB of Korean without a space."""
    asked = [0]
    words = wrapping._pieces

    def counted(*arguments):
        for piece in words(*arguments):
            asked[0] += 1
            yield piece

    monkeypatch.setattr(wrapping, "_pieces", counted)
    known = Wrapping()
    known.wrap(ui, (StyledSpan(text),), style(300.0))
    for _ in range(20):
        text += "가 "
        asked[0] = 0
        found = known.wrap(ui, (StyledSpan(text),), style(300.0))
        assert asked[0] < 300
    assert found == wrap(ui, (StyledSpan(text),), style(300.0))


def test_several_texts_grow_at_once(ui, monkeypatch):
    known, texts = Wrapping(), [""] * KEPT
    for number in range(60):
        for at in range(KEPT):
            texts[at] += f" word{at}.{number}"
            known.wrap(ui, (StyledSpan(texts[at]),), style(200.0))
    assert sorted(one.spans[0].text for one in known._last) == sorted(texts)
    assert all(one.common(one.spans, one.fit) > 10 for one in known._last)


def test_code_whose_lines_have_tabs(ui):
    rng, known, text = random.Random(0), Wrapping(), ""
    for _ in range(200):
        text += rng.choice(("\tx = 1", "\n", "  y\t", "call()", "\n\t\t", "z" * 50))
        spans = (StyledSpan(text, "mono", "code"),)
        for boxed in (True, False):
            look = style(120.0, boxed)
            assert known.wrap(ui, spans, look) == wrap(ui, spans, look)


@pytest.mark.parametrize(
    "spans",
    [
        (StyledSpan("aaaa "), StyledSpan("굵은", "bold"), StyledSpan("는 b")),
        (StyledSpan("aaaa "), StyledSpan("bold", "bold"), StyledSpan(", b")),
        (StyledSpan("aaaa ("), StyledSpan("code", "mono", "code"), StyledSpan(") b")),
    ],
)
def test_no_line_is_broken_where_a_word_changes_its_style(ui, spans):
    """Not even where a line ends just there."""
    word = "".join(span.text for span in spans).split()[1]
    for width in range(60, 140):
        wrapped = wrap(ui, spans, style(float(width)))
        lines = {}
        for run in wrapped.runs:
            lines[run.y] = lines.get(run.y, "") + run.text
        assert any(word in line for line in lines.values()), width
