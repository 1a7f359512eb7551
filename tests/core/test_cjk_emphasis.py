"""Marks beside Korean, Chinese and Japanese letters, as the amendment's own plug-in reads them."""

import json

import pytest
from markdown_it import MarkdownIt

from llm_lite.core.cjk_emphasis import add_cjk_emphasis
from llm_lite.core.history.exchange.html import _renderer
from llm_lite.desktop.widgets.markdown.reading import Reader
from llm_lite.server.page.markdown_worker import _html
from tests.fixtures.make_cjk_emphasis import EXAMPLES, FILE, texts

KEPT = json.loads(FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def parser():
    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    add_cjk_emphasis(made)
    return made


def test_marks_between_all_kinds_of_neighbours(parser):
    wrong = []
    made = texts()
    assert len(made) == len(KEPT["marked"]) > 5000
    for text, marked in zip(made, KEPT["marked"], strict=True):
        html = parser.render(text).replace("</p>", "")
        if ("</" in html) != (marked == "1"):
            wrong.append((text, html))
    assert not wrong, f"{len(wrong)} of {len(made)}: {wrong[:5]}"


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples(parser, text):
    assert parser.render(text) == KEPT["examples"][text]


def test_commonmark_is_as_before_without_such_letters(parser):
    plain = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    letters = ("a", " ", ".", "(", "“", "é", "7", "*", "_", "~")
    for a in letters:
        for b in letters:
            for mark in ("*", "**", "_", "__", "~~"):
                text = f"x{a}{mark}{b}y{mark}{a}z {mark}{b}{a}{mark}"
                assert parser.render(text) == plain.render(text), text


def test_window_page_and_export_read_them():
    text = "**인공지능(AI)**은 ~~느리게(X)~~빠르게 **발전**합니다."
    (piece,) = Reader().read(text, {}).pieces
    bold = [span.text for span in piece.block.spans if span.style == "bold"]
    struck = [span.text for span in piece.block.spans if span.strike]
    assert bold == ["인공지능(AI)", "발전"] and struck == ["느리게(X)"]
    html = _html({"text": text}, b"")["html"]
    assert "<strong>인공지능(AI)</strong>은 <s>느리게(X)</s>빠르게" in html
    assert _renderer().render(text) == html
