"""Markdown as models write it, whole and at every length on the way."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.desktop.widgets.markdown import Block, StyledSpan, parse, spans
from tests.counting import python_calls
from tests.desktop.fake_engine import ANSWER


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", [("plain", "regular")]),
        ("a **b** c", [("a ", "regular"), ("b", "bold"), (" c", "regular")]),
        ("__b__", [("b", "bold")]),
        ("`x = 1`", [("x = 1", "mono")]),
        ("``a ` b``", [("a ` b", "mono")]),
        ("*soft*", [("soft", "regular")]),
        ("2 * 3 * 4", [("2 * 3 * 4", "regular")]),
        ("snake_case_name", [("snake_case_name", "regular")]),
        ("open **bold", [("open **bold", "regular")]),
        ("[text](http://x)", [("text (http://x)", "regular")]),
        ("**`a`**", [("a", "bold")]),
        ("[a [b](c)", [("[a ", "regular"), ("b (c)", "regular")]),
    ],
)
def test_spans(text, expected):
    assert [(s.text, s.style) for s in spans(text)] == expected


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a\n\nb", ["paragraph", "paragraph"]),
        ("a\nb", ["paragraph"]),
        ("# T\ntext", ["heading", "paragraph"]),
        ("- a\n- b\n  more", ["item", "item"]),
        ("1. a\n2) b", ["item", "item"]),
        ("> a\n> b", ["quote"]),
        ("a\n***\nb", ["paragraph", "rule", "paragraph"]),
        ("```py\nx\n```\ny", ["code", "paragraph"]),
        ("```\nnever closed\n\n- x", ["code"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["code"]),
        ("#hashtag", ["paragraph"]),
        ("", []),
    ],
)
def test_blocks(text, kinds):
    assert [block.kind for block in parse(text)] == kinds


def test_code_is_kept_to_the_letter():
    (block,) = parse("```python\n  a = **b**\n\n\tc\n```")
    assert block == Block("code", (StyledSpan("  a = **b**\n\n\tc", "mono"),), label="python")


def test_items_know_marker_and_depth():
    assert [(b.label, b.level) for b in parse("- a\n  - b\n12. c")] == [
        ("•", 0),
        ("•", 1),
        ("12.", 0),
    ]


def test_every_prefix_parses_and_loses_no_word():
    for end in range(len(ANSWER)):
        shown = "".join(s.text for b in parse(ANSWER[:end]) for s in b.spans)
        words = ANSWER[:end].replace("*", " ").replace("`", " ").split()
        assert not words or words[0] in shown


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab *_`#>-|1.\n[]()~안\t", max_size=80))
def test_any_text_parses(text):
    for block in parse(text):
        assert all(isinstance(span.text, str) for span in block.spans)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# T #", "T"),
        ("## C#", "C#"),
        ("# a # b ##  ", "a # b"),
        ("# #", ""),
        ("###### six", "six"),
    ],
)
def test_heading_loses_its_closing_marks(text, words):
    (block,) = parse(text)
    assert "".join(span.text for span in block.spans) == words


@pytest.mark.parametrize("piece", ["**a ", "[", "[a](", "`a", "# #", "__a", "*a", "| ", "> "])
def test_what_never_closes_is_cheap(piece):
    """A model may repeat itself for thousands of tokens, and each of them parses the text."""
    few, many = (python_calls(lambda n=n: parse_both(piece * n)) for n in (1000, 4000))
    assert many < 5 * few + 1000, "it grows with the text"
    started = time.process_time()
    parse_both(piece * 4000)
    assert time.process_time() - started < 20  # a thousand times what it takes


def parse_both(text):
    parse("# " + text)
    parse(text)
