"""Answers with Markdown in the chat: what is drawn, and what a click leads to."""

import subprocess
import sys
from pathlib import Path

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.panels import SavePanel
from llm_lite.desktop.features.program.model import OpenLink, SaveText
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.widgets.markdown.code_frame import CodeFrames
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from tests.desktop.headless import READY
from tests.paths import ROOT

LINK = "A [link](https://example.com/a) and [none](ftp://x)."
CODE = "```python\ndef f(x):\n    return x\n```"


def answered(text, *more):
    return replace(
        READY, tree=ConversationTree((Message("user", "q"), Message("assistant", text), *more))
    )


def page(one, text):
    return rich_text(one.ui).page(one.ui, text, 600.0)


def test_a_link_is_opened_only_when_a_person_says_so(headless):
    one, opened = headless(answered(LINK)), []
    one.program.on_open_link = opened.append
    one.driver.click("answer.1.link.1")
    assert not opened and not one.did(OpenLink)
    one.driver.click("link.open")
    assert opened == ["https://example.com/a"]
    assert not one.driver.shows("answer.1.link.2"), "no address of another kind"


def test_a_link_that_is_not_opened(headless):
    one = headless(answered(LINK))
    one.driver.click("answer.1.link.1")
    one.driver.click("link.copy")
    assert imgui.get_clipboard_text() == "https://example.com/a"
    assert not one.did(OpenLink)
    one.driver.frames(2)
    assert not one.driver.shows("link.open")


def test_code_is_saved(headless, tmp_path):
    one, path = headless(answered(CODE)), tmp_path / "folder" / "f.py"
    one.driver.click("answer.1.0.save")
    assert one.ui.local(SavePanel).path.endswith(".py")
    one.ui.local(SavePanel).path = str(path)
    one.driver.click("code.save.write")
    assert path.read_text() == "def f(x):\n    return x\n"
    assert one.did(SaveText)
    assert one.state.notices[-1].text.startswith(f"Saved {path}")
    one.program.do(SaveText(str(path), "other"))
    assert one.state.notices[-1].level == "warning"
    assert "def" in path.read_text(), "another file is never replaced"


def test_lines_are_numbered_at_will(headless):
    one = headless(answered(CODE))
    ((_, plain),) = page(one, CODE).blocks
    one.driver.click("answer.1.0.numbers")
    ((_, numbered),) = page(one, CODE).blocks
    assert len(plain.numbers) == 0 and len(numbered.numbers) == 2
    assert numbered.runs[0].x > plain.runs[0].x
    one.driver.click("answer.1.0.numbers")
    assert page(one, CODE) is page(one, CODE)
    assert not page(one, CODE).blocks[0][1].numbers


def test_wrapped_code_has_a_number_a_line(headless):
    one = headless(answered("q"))
    one.ui.local(CodeFrames).numbered = True
    code = "```\n" + "long words " * 40 + "\n\nend\n```"
    ((_, laid),) = page(one, code).blocks
    assert len(laid.numbers) == 3
    assert laid.numbers[1] - laid.numbers[0] > 30 < laid.height
    assert "".join(run.text for run in laid.runs) == "long words " * 40 + "end"


def test_a_formula_takes_the_place_of_its_source(headless):
    text = "so $\\frac{a_{17}}{b_{23}}$ is\n\n$$\nx_{29}^2\n$$"  # no other test has them
    one = headless(answered(text))
    formulas = rich_text(one.ui).formulas
    assert formulas.process.wait()
    height = one.driver.rect("message.1")[3] - one.driver.rect("message.1")[1]
    one.driver.frames(2)
    pictures = [run.picture for _, laid in page(one, text).blocks for run in laid.runs]
    assert sum(picture is not None for picture in pictures) == 2
    inline = next(picture for picture in pictures if picture)
    assert inline.ascent > 0 and inline.descent > 0
    rect = one.driver.rect("message.1")
    assert rect[3] - rect[1] != height, "the height is that of the formulas"


def test_a_formula_that_cannot_be_set_stays_source(headless):
    one = headless(answered("so $\\nosuch{x}$ is"))
    assert rich_text(one.ui).formulas.process.wait()
    one.driver.frames(2)
    ((_, laid),) = page(one, "so $\\nosuch{x}$ is").blocks
    assert [run.text for run in laid.runs if run.kind == "math"] == ["\\nosuch{x}"]


def test_columns_are_as_wide_as_what_is_in_them(headless):
    one = headless(answered("q"))
    narrow = "| a | b |\n|---|--:|\n| 1 | 2 |"
    ((_, laid),) = page(one, narrow).blocks
    assert laid.grid.width < 200
    wide = "| a | b |\n|---|--:|\n| " + "many words " * 40 + "| right |"
    ((_, laid),) = page(one, wide).blocks
    assert 400 < laid.grid.width <= 600
    right = next(run for run in laid.runs if run.text == "right")
    head = next(run for run in laid.runs if run.text == "b")
    assert right.x + right.width == pytest.approx(head.x + head.width, abs=1.5)
    many = "|" + "abcdefgh|" * 30 + "\n|" + "---|" * 30
    ((_, laid),) = page(one, many).blocks
    assert laid.grid.columns == tuple(sorted(laid.grid.columns))


def test_an_answer_is_nearer_to_its_question_than_to_the_next(headless):
    again = (Message("user", "q"), Message("assistant", "a", stop_reason="end"))
    one = headless(answered("short", *again))
    first, answer, second = (one.driver.rect(f"message.{n}") for n in range(3))
    assert answer[1] - first[3] < second[1] - answer[3]


@pytest.mark.parametrize("width", [300, 700, 1500])
def test_everything_is_drawn_at_every_length(headless, width):
    text = (Path(__file__).parent / "rich_answer.md").read_text("utf-8")
    one = headless(
        answered(
            "",
        ),
        size=(width, 900),
    )
    for end in range(0, len(text), 29):
        one.program.state = answered(text[:end])
        one.driver.frames(1)
    assert not one.state.log


def test_libraries_are_imported_when_they_are_needed():
    """The first frame needs no parser; lexers and formulas belong to the process apart."""
    code = (
        "import sys\n"
        "from llm_lite.core.history import ConversationTree\n"
        "from llm_lite.core.records import replace\n"
        "from llm_lite.desktop.features.program.state import Message\n"
        "from tests.desktop.headless import Headless, READY\n"
        "names = ('markdown_it', 'pygments', 'ziamath')\n"
        "one, said = Headless(READY), Message('assistant', '*a* $x$')\n"
        "print([name in sys.modules for name in names])\n"
        "one.program.state = replace(READY, tree=ConversationTree((said,)))\n"
        "one.driver.frames(2)\n"
        "print([name in sys.modules for name in names])\n"
        "one.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["[False, False, False]", "[True, False, False]"], done
