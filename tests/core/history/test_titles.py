"""Titles are the first sentence, as plain text, of a width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.history import title_of, title_of_model


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("What is **entropy**? Explain it.", "What is entropy?"),
        ("Version 3.14 is out. Why?", "Version 3.14 is out"),
        ("\n\n# Plan\n\nFirst things", "Plan"),
        ("> *quoted* `code` text", "quoted code text"),
        ('1. [a link](http://x.org "t") and ![picture](p.png)', "a link and picture"),
        ("- [ ] item_with_underscores", "[ ] item_with_underscores"),
        ("```python\nprint(1)\n```\nWhat does it print?", "What does it print?"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("```\nunclosed code", "unclosed code"),
        ("***\n---\nAfter rules", "After rules"),
        ("\\*no emphasis\\*", "*no emphasis*"),
        ("snake_case and 2*3*4", "snake_case and 2*3*4"),
        ("오늘 날씨 어때요? 내일은요?", "오늘 날씨 어때요?"),
        ("今天天气怎么样？明天呢？", "今天天气怎么样？"),
        ("好的。谢谢你的帮助。", "好的。谢谢你的帮助"),
        ("tabs\tand\x07bells", "tabs and bells"),
        ("word " * 30, "word word word word word word word word word word word word…"[:60]),
        ("x" * 100, "x" * 59 + "…"),
        ("", ""),
        (" \n\t\n", ""),
        ("***", ""),
    ],
)
def test_titles(text, title):
    assert title_of(text) == title


@given(
    st.text(alphabet=st.sampled_from("ab \n`*_[]()#>-.!?~\\1。"), max_size=300), st.integers(10, 60)
)
def test_titles_of_anything_are_one_short_line(text, width):
    title = title_of(text, width)
    assert len(title) <= width and title == " ".join(title.split())


@pytest.mark.parametrize(
    "piece", ["*", "_", "[", "`", "![](", "**a", "> ", "~~~\n", "- ", "\\", "*a "]
)
def test_marks_without_end_take_no_time(piece):
    title_of(piece * 20_000)


TALK = "Why is the sky blue? It scatters light. 하늘은 왜 파랗지? 天空为什么是蓝色的？"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("The Blue Sky", "The Blue Sky"),
        ('"Why skies are blue."\n\nIt is', "Why skies are blue"),
        ("\n**Title: Scattered light**", "Scattered light"),
        ("하늘이 파란 이유", "하늘이 파란 이유"),
        ("天空的颜色", "天空的颜色"),
        ("", ""),
        ("  \n \n", ""),
        ("...", ""),
        ("blue", "blue"),
        ("sky sky sky sky sky", ""),
        ("The sky the sky the sky", ""),
        ("Pancakes without eggs", ""),
        ("I can help you with the sky", ""),
        ("Here's a title about the sky", ""),
        ("<think>The sky", ""),
        ('{"title": "sky"}', ""),
        ("Sky " + "x" * 60, ""),
        ("blue \ufffd", ""),
    ],
)
def test_what_a_model_says_is_a_title_only_where_it_is_one(said, title):
    assert title_of_model(said, TALK) == title
