"""Markdown to blocks: what markdown-it's tree says, and what people expect of dollars."""

import json
import os
from pathlib import Path

import pytest

from llm_lite.desktop.widgets.markdown.blocks import DONE_TASK, OPEN_TASK, StyledSpan
from llm_lite.desktop.widgets.markdown.growing import GrowingText
from llm_lite.desktop.widgets.markdown.reading import Reader
from tests.desktop.engine.answers import ANSWER
from tests.desktop.widgets.markdown.structure import has_addresses, of_blocks, of_tree

# CommonMark's examples are under a licence of their own and not in this repository: commonmark.json
# of https://spec.commonmark.org.
SPECIFICATION = os.environ.get("COMMONMARK_JSON", "")
TEXTS = [
    ANSWER,
    "# T\ntext\n===\n\nmore\n---",
    "- a\n  - b\n    - c\n\n    d\n- e",
    "> a\n> > b\n>\n> - c\n>   d\nlazy",
    "1. a\n\n   b\n\n   ```py\n   x\n   ```\n2. c",
    "- - a\n  - > b\n- ",
    "| a | b |\n|---|:-:|\n| 1 | `2\\|3` |\n\nafter",
    "```\nopen\n\n- no item",
    "    code\n\n    more\n\ntext\n    not code",
    "***\n* * *\n- - -",
    "$$\na\n+ b\n$$\n\nx $$y$$ z\n\n\\[ q \\]",
    "[a]: http://x\n\n[a] *b* **c** ***d*** `e` ~~f~~ <http://g> \\* &amp;",
    "<div>\n*a*\n</div>\n\n<!-- b -->",
    "a  \nb\\\nc\nd",
    ">\n\n-\n\n1.",
    "Blue[^1] and red[^2][^10].\n\n[^1]: Rayleigh *1871*\n   and more\n[^2]: http://x\nafter",
    "- a[^1]\n- b\n\n[^1]: c\n\n[^a-z] [^1]: x",
    "so\n\\begin{align}\na &= b \\\\\nc &= d\n\\end{align}\n\nand \\begin{align} x",
    "\\begin{equation*} a = b \\end{equation*}\n\n\\begin{align}\n\nno",
]


def blocks(text):
    return GrowingText(Reader()).read(text)


def check(text):
    ours, theirs = of_blocks(blocks(text)), of_tree(text)
    if has_addresses(text):  # we tell where a link leads that is not opened
        ours, theirs = ([one[:2] for one in each] for each in (ours, theirs))
    assert ours == theirs


@pytest.mark.parametrize("text", TEXTS)
def test_blocks_are_those_of_the_tree(text):
    for end in range(len(text) + 1):
        check(text[:end])


@pytest.mark.skipif(not Path(SPECIFICATION).is_file(), reason="COMMONMARK_JSON names no file")
def test_the_examples_of_commonmark():
    examples = json.loads(Path(SPECIFICATION).read_text("utf-8"))
    assert len(examples) > 600
    for example in examples:
        check(example["markdown"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", [("plain", "regular")]),
        ("a **b** c", [("a ", "regular"), ("b", "bold"), (" c", "regular")]),
        ("*a **b***", [("a ", "italic"), ("b", "bold_italic")]),
        ("``a ` b``", [("a ` b", "mono")]),
        ("2 * 3 * 4", [("2 * 3 * 4", "regular")]),
        ("snake_case_name", [("snake_case_name", "regular")]),
        ("open **bold", [("open **bold", "regular")]),
        ("a\nb  \nc", [("a\nb\nc", "regular")]),
        ("<b>x</b> &lt;", [("<b>x</b> <", "regular")]),
        ("![alt](x.png)", [("alt (x.png)", "regular")]),
        ("[a](/b) [c](javascript:d)", [("a (/b) [c](javascript:d)", "regular")]),
    ],
)
def test_spans(text, expected):
    (block,) = blocks(text)
    assert [(s.text, s.style) for s in block.spans] == expected


def test_links_that_can_be_opened():
    (block,) = blocks("[a *b*](https://x.y/z) <mailto:a@b.c> [c](ftp://x) ![d](http://e/f.png)")
    links = [(span.text, span.link) for span in block.spans if span.link]
    assert links == [
        ("a ", "https://x.y/z"),
        ("b", "https://x.y/z"),
        ("mailto:a@b.c", "mailto:a@b.c"),
        ("d (http://e/f.png)", "http://e/f.png"),
    ]
    assert any("c (ftp://x)" in span.text for span in block.spans)


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("$x^2$", ["x^2"]),
        ("costs $5 and $6", []),
        ("costs $5 and 6$ more", []),
        ("$5-$6", []),
        ("US$5 and $x$", ["x"]),
        ("$ x $", []),
        ("a \\$5 and $y$", ["y"]),
        ("\\(a\\) and \\[b\\]", ["a", "b"]),
        ("$$c$$ inside", ["c"]),
        ("`$x$`", []),
        ("$a_1 * b_1 * c$", ["a_1 * b_1 * c"]),
        ("$1", []),
        ("\\(", []),
    ],
)
def test_formulas(text, formulas):
    found = [s.text for b in blocks(text) for s in b.spans if s.kind in ("math", "display")]
    assert found == formulas


def test_lists_know_their_markers():
    found = blocks("7. a\n8. b\n\n- [ ] c\n- [x] d\n- e\n\n1) f\n   - g")
    assert [block.markers for block in found] == [
        ("7.",),
        ("8.",),
        (OPEN_TASK,),
        (DONE_TASK,),
        ("•",),
        ("1)",),
        ("", "•"),
    ]
    assert [block.tight for block in found] == [True] * 7
    assert not any(block.tight for block in blocks("- a\n\n- b"))


def test_a_table_has_aligned_cells():
    (table,) = blocks("| a | b | c |\n|:--|:-:|--:|\n| **x** | | 1 |")
    assert table.cells.aligns == ("left", "center", "right")
    assert table.cells.rows[1] == ((StyledSpan("x", "bold"),), (), (StyledSpan("1"),))
    assert table.text == "a\tb\tc\nx\t\t1"


def test_code_is_kept_to_the_letter():
    (block,) = blocks("```python\n  a = **b**\n\n\tc\n```")
    assert block.spans == (StyledSpan("  a = **b**\n\n    c", "mono", "code"),)
    assert block.label == "python"


def test_footnotes_are_raised_numbers_and_items():
    first, *notes = blocks("Blue[^1] is 12[^2][^10].\n\n[^1]: Said *once*\n  and again.\n[^2]: Two")
    assert first.text == "Blue¹ is 12²\u2009¹⁰."
    assert [note.text for note in notes] == ["Said once\nand again.", "Two"]
    assert [note.markers for note in notes] == [("1.",), ("2.",)]
    kept = "A class `[^1]` of code, [^a-z] and [^1](http://x) [^1234]."
    assert "[^a-z]" in blocks(kept)[0].text and "[^1]" in blocks(kept)[0].text


@pytest.mark.parametrize("name", ["align", "align*", "equation", "gather*", "aligned", "cases"])
def test_an_environment_of_formulas_needs_no_dollars(name):
    text = f"So:\n\\begin{{{name}}}\na &= b \\\\\nc &= d\n\\end{{{name}}}\nafter"
    assert [block.kind for block in blocks(text)] == ["paragraph", "math", "paragraph"]
    formula = blocks(text)[1].text
    assert formula.startswith(f"\\begin{{{name}}}") and formula.endswith(f"\\end{{{name}}}")
    assert [b.kind for b in blocks("\\begin{itemize}\n\\item a\n\\end{itemize}")] == ["paragraph"]
