"""What a page shows as characters: copied, counted, and found again where it is drawn."""

import pytest

from llm_lite.desktop.widgets.markdown.characters import (
    block_spans,
    formula_at,
    markdown_source,
    page_text,
    paragraph_at,
    plain_text,
    run_spans,
    shown_text,
    step,
    step_word,
    word_at,
)
from llm_lite.desktop.widgets.markdown.geometry import block_rects, caret, character_at
from llm_lite.desktop.widgets.markdown.reading import Reader
from llm_lite.desktop.widgets.markdown.rich_text import rich_text

TEXTS = (
    "Some **bold** and *soft* words with `inline code` which are wrapped over lines.\nA break.",
    "한국어 문장은 낱말 사이에서 줄이 바뀝니다. 아주 긴 문장입니다. 中文没有空格所以到处可换行。",
    "- one\n- two is longer than the others\n  1. inner\n\n     more of it\n- [x] done\n\n> quoted",
    "| name | value |\n|---|--:|\n| one `x` | 1 |\n| | 22 |\n| one `x` | 1 |",
    "```python\ndef f(x):\n\treturn x\n\n\nlong = 'a line of code that is wider than a page'\n```",
    "So $a^2 + b^2$ is\n\n$$\nc^2\n$$\n\n---\n\n# Head\nline",
    "supercalifragilisticexpialidociouslongerthanthepage and more",
)


def blocks(text):
    return tuple(piece.block for piece in Reader().read(text, {}).pieces)


def all_of(text):
    found = blocks(text)
    return plain_text(found, 0, len(page_text(found)))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("width", [90.0, 240.0, 900.0])
def test_every_character_is_found_where_it_is_drawn(headless, text, width):
    ui = headless().ui
    page = rich_text(ui).page(ui, text, width)
    starts = block_spans(laid.block for _, laid in page.blocks)
    for (top, laid), (first, _) in zip(page.blocks, starts, strict=True):
        shown = shown_text(laid.block)
        for run, (low, high) in zip(laid.runs, run_spans(laid.block, laid.runs), strict=True):
            assert shown[low:high] == run.text
            if run.picture is not None:
                continue
            for at in range(low, high):
                ((x0, y0, x1, y1),) = block_rects(ui, laid, at, at + 1)[:1]
                if x1 - x0 < 1:
                    continue
                y = top + (y0 + y1) / 2
                assert character_at(ui, page.blocks, x0 + 0.1, y) == first + at
                assert character_at(ui, page.blocks, (x0 + x1) / 2, y, inside=True) == first + at
            x, y0, y1 = caret(ui, page.blocks, first + low + 1)
            assert run.x < x <= run.x + run.width and y0 <= top + run.y <= y1


def test_points_outside_are_the_nearest_places(headless):
    ui = headless().ui
    page = rich_text(ui).page(ui, "one\n\ntwo", 300.0)
    assert character_at(ui, page.blocks, -50, -50) == 0
    assert character_at(ui, page.blocks, 500, 2) == 3
    assert character_at(ui, page.blocks, 500, 5000) == len("one\ntwo")
    assert character_at(ui, rich_text(ui).page(ui, "", 300.0).blocks, 5, 5) == 0


def test_plain_text_is_what_is_seen():
    assert all_of("- one\n- [x] two\n  3. inner\n\nend") == "• one\n☑ two\n  3. inner\n\nend"
    assert all_of("| a | b |\n|---|---|\n| 1 | |") == "a\tb\n1\t"
    assert all_of("a\n\n---\n\n```\nx\n  y\n```") == "a\n\n---\n\nx\n  y"
    assert all_of("so $x^2$ and `c`") == "so x^2 and c"
    found = blocks("- one\n- two")
    assert plain_text(found, 1, 5) == "ne\n• t", "an item's mark is of its beginning"


def test_markdown_is_that_of_whole_blocks():
    text = "# Head\n\nwith **bold**\n\n- one\n- two\n  - inner\n\n```c\nx;\n```\n\nend"
    found = blocks(text)
    spans = block_spans(found)

    def source(first, last):
        return markdown_source(text, found, spans[first][0] + 1, spans[last][1])

    assert source(1, 1) == "with **bold**"
    assert source(2, 4) == "- one\n- two\n  - inner"
    assert source(4, 4) == "- inner"
    assert source(0, 6) == text
    assert source(5, 5) == "```c\nx;\n```"
    assert markdown_source(text, found, 3, 3) == ""


@pytest.mark.parametrize(
    ("text", "at", "word"),
    [
        ("one two", 1, "one"),
        ("one two", 3, " "),
        ("안녕하세요 하늘이", 2, "안녕하세요"),
        ("naïve_name2!", 4, "naïve_name2"),
        ("cafe\u0301 x", 1, "cafe\u0301"),
        ("a...b", 2, "."),
        ("end", 3, "end"),
        ("a\nb", 1, ""),
        ("", 0, ""),
    ],
)
def test_words(text, at, word):
    low, high = word_at(text, at)
    assert text[low:high] == word


def test_steps_go_over_what_is_one_letter():
    family = "a👩\u200d👧b👍🏽e\u0301"
    stops, at = [0], 0
    while at < len(family):
        at = step(family, at, True)
        stops.append(at)
    assert stops == [0, 1, 4, 5, 7, 9]
    assert step(family, 4, False) == 1
    assert step_word("one, two", 0, True) == 3
    assert step_word("one, two", 3, True) == 8
    assert step_word("one, two", 8, False) == 5


def test_paragraphs_lines_of_code_and_cells():
    found = blocks("para\nmore\n\n```\nx = 1\ny = 2\n```\n\n| a | bc |\n|---|---|\n| 1 | 2 |")
    text = page_text(found)

    def around(word):
        low, high = paragraph_at(found, text.index(word))
        return text[low:high]

    assert around("ara") == "para\nmore"
    assert around("y =") == "y = 2"
    assert around("bc") == "bc"
    assert around("1\t") == "1"


def test_formulas_are_whole():
    found = blocks("so $x^2$ is\n\n| $a+b$ |\n|---|\n| 1 |")
    assert formula_at(found, 4) == (3, 6)
    assert formula_at(found, 3) is None
    assert formula_at(found, page_text(found).index("+")) is not None


def test_characters_are_the_same_while_an_answer_grows(headless):
    ui = headless().ui
    text = "\n\n".join(TEXTS)
    before = ""
    for end in range(0, len(text), 37):
        page = rich_text(ui).page(ui, text[:end], 400.0, live=True)
        shown = [shown_text(laid.block) for _, laid in page.blocks]
        known = "\n".join(shown[:-1])
        assert known.startswith(before[: len(known)]) or before.startswith(known)
        before = known if len(known) > len(before) else before
