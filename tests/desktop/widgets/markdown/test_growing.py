"""A text that grows has the blocks that it would have had at once, for little work."""

import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.desktop.widgets.markdown.growing import LONG, GrowingText
from llm_lite.desktop.widgets.markdown.reading import Reader
from tests.counting import python_calls

PIECES = (
    *("a", "word", " two", "\n", "\n", "\n\n", "# ", "- ", "* ", "1. ", "2. ", "3", "> ", "    "),
    *(
        "```",
        "```py\n",
        "**",
        "*",
        "_",
        "`",
        "~~",
        "|",
        "| a | b |\n|---|:-:|\n",
        "| x | **y** |\n",
    ),
    *("$", "$$", "\\[", "\\]", "\\(", "\\)", "[a]", "[a]: http://x", "[a]: /y\n", "(b)", "![", "]"),
    *("-", "---", "===", "\t", "$x$", "$5", "[ ] ", "\\", "&amp;", "<b>", "안녕", "語", "#", "+ "),
    *("[^1]", "[^2]: n", "[^3]: m\n", "\\begin{align}", "\\end{align}", "a &= b \\\\\n"),
    *("- a\n", "- b\n", "1. one\n", "2. x\n", "  - nest\n", "   more\n", "99) z\n", "  > q\n"),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_as_if_it_had_been_there_at_once(pieces):
    growing, text = GrowingText(Reader()), ""
    for piece in pieces:
        text += piece
        assert growing.read(text) == GrowingText(Reader()).read(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.booleans()), max_size=40))
def test_marks_that_were_put_off_are_there_when_it_grows_no_more(pieces):
    """Of long paragraphs, which are short ones here."""
    growing, text = GrowingText(Reader()), ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llm_lite.desktop.widgets.markdown.growing.LONG", 4)
        patch.setattr("llm_lite.desktop.widgets.markdown.growing.UNREAD", 1)
        for piece, live in pieces:
            text += piece
            shown = growing.read(text, live=live)
            if not live:
                assert shown == GrowingText(Reader()).read(text)
        assert growing.read(text) == GrowingText(Reader()).read(text)


LONG_LINES = {
    "brackets": "[" * 49_000,
    "links": "[a](b) " * 7_000,
    "stars": "**a* " * 9_000,
    "dollars": "$a b " * 9_000,
    "words": "word " * 9_900,
}


@pytest.mark.parametrize("name", LONG_LINES)
def test_a_token_behind_a_long_line_of_marks_costs_little(name):
    """A frame took a second with each token behind 49,000 brackets."""
    growing, text = GrowingText(Reader()), LONG_LINES[name]
    growing.read(text, live=True)
    work, count = 0, 4 * LONG
    for _ in range(count // 8):
        text += " more **x"[:8]
        work += python_calls(partial(growing.read, text, live=True))
    once = python_calls(partial(GrowingText(Reader()).read, text))
    assert work < 60 * (count // 8) + 8 * once


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=200))
def test_any_text_is_read(text):
    for block in GrowingText(Reader()).read(text):
        assert len(block.path) == len(block.markers)
        assert all(isinstance(span.text, str) for span in block.spans)


KINDS = {
    "paragraphs": "Some **words** and `code`, about *this* and that.\n\n",
    "list": "- an item with **bold** words\n",
    "numbers": "1. an item with **bold** words\n",
    "table": "| a cell | of **words** |\n",
    "code": "    x = call(y)  # and so on\n",
    "words": "nothing but words and more of them ",
}
FIRST = {"table": "| a | b |\n|---|---|\n", "code": "```py\n"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_costs_the_same_however_long_the_text_is(kind):
    growing, text = GrowingText(Reader()), FIRST.get(kind, "")
    costs = []
    for _ in range(8):
        started = len(text)
        text += KINDS[kind] * 40
        costs.append(python_calls(partial(grow, growing, text, started)))
    assert costs[-1] < 2 * costs[1], costs


def grow(growing, text, start):
    for end in range(start, len(text), 4):
        growing.read(text[:end])


def test_the_end_of_an_answer_is_not_read_again():
    growing, text = GrowingText(Reader()), "- a\n" * 50
    shown = growing.read(text)
    assert growing.read(text) is shown


HOSTILE = {
    **{mark: mark * 10_000 for mark in ("> ", ">", "[", "*", "_", "`", "~", "<", "![", "\\(", "$")},
    "links": "[a](" * 5_000,
    "open": "**a " * 5_000,
    "pairs": "[[]" * 5_000,
    "nested": "".join("  " * depth + "- a\n" for depth in range(200)),
    "items": "- " * 5_000,
    "cells": "|a" * 5_000 + "\n" + "|-" * 5_000 + "\n",
    "displays": "$$\n" * 5_000,
    "brackets": "\\[ x\n\n" * 3_000,
    "ticks": "".join("`" * count + "a" for count in range(140)),
    "references": "".join(f"[{number}]: /x\n" for number in range(2_000)),
    "a line": "word " * 200_000,
    "a line of marks": "*" * 1_000_000,
    "letters": "a" * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_in_time(name):
    """A hundred times what a fast machine takes."""
    text = HOSTILE[name]
    started = time.process_time()
    assert isinstance(GrowingText(Reader()).read(text), tuple)
    assert time.process_time() - started < max(5.0, len(text) / 1024 * 0.05 * 5)
