"""Tables: broken lines in cells, and those that are wider than their column."""

import pytest
from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.widgets.markdown import table
from llm_lite.desktop.widgets.markdown.geometry import block_rects, character_at
from llm_lite.desktop.widgets.markdown.rich_text import rich_text
from tests.desktop.headless import READY

WIDE = "\n".join(
    "| " + " | ".join(words * 14) + " |" for words in (["A heading"], ["---"], ["some words"])
)


@pytest.fixture
def one(headless):
    messages = (Message("user", "?"), Message("assistant", WIDE, stop_reason="end"))
    return headless(replace(READY, tree=ConversationTree(messages)))


def page_of(one, text, width=500.0):
    return rich_text(one.ui).page(one.ui, text, width)


@pytest.mark.parametrize("mark", ["<br>", "<br/>", " <BR /> "])
def test_a_cell_breaks_its_line_where_html_would(one, mark):
    text = f"| a | b |\n|---|---|\n| one{mark}two | `<br>` |"
    ((_, laid),) = page_of(one, text).blocks
    assert laid.block.text == "a\tb\none\ntwo\t<br>"
    tops = {run.text: run.y for run in laid.runs}
    assert tops["two"] > tops["one"] == pytest.approx(tops["<br>"], abs=2)


def test_a_narrow_table_fits_and_one_of_many_columns_scrolls(one):
    ((_, small),) = page_of(one, "| a | b |\n|---|---|\n| 1 | " + "word " * 99 + "|").blocks
    assert small.grid.over == 0 and small.grid.width <= 500
    ((_, laid),) = page_of(one, WIDE).blocks
    assert laid.grid.over == pytest.approx(laid.grid.width - 500)
    assert len({run.y for run in laid.runs}) == 2, "no cell is broken into letters"


def test_a_scrolled_table_is_selected_where_it_is_seen(one):
    page = page_of(one, WIDE)
    ((_, laid),) = page.blocks
    run = laid.runs[-1]
    x, y = run.x + 1 - laid.grid.over, run.y + 5
    before = character_at(one.ui, page.blocks, x, y)
    table.scroll_to(one.ui, laid.grid, 1e9)
    assert table.offset(one.ui, laid.grid) == pytest.approx(laid.grid.over, abs=1)
    after = character_at(one.ui, page.blocks, x, y)
    assert after > before
    (rect,) = block_rects(one.ui, laid, after, after + 4)
    assert rect[0] == pytest.approx(run.x - laid.grid.over, abs=1.5)


def test_the_bar_and_the_wheel_scroll_it(one):
    one.driver.frames(2)
    name = next(name for name in one.ui.rects if name.endswith(".scroll"))
    x0, y0, _, y1 = one.driver.rect(name)
    io = imgui.get_io()
    io.add_mouse_pos_event(x0 + 5, (y0 + y1) / 2)
    one.driver.frames(2)
    io.add_mouse_button_event(0, True)
    one.driver.frames(2)
    io.add_mouse_pos_event(x0 + 45, (y0 + y1) / 2)
    one.driver.frames(2)
    io.add_mouse_button_event(0, False)
    one.driver.frames(2)
    ((grid, dragged),) = one.ui.local(table.Tables).scrolled.values()
    assert 0 < dragged <= grid.over
    io.add_mouse_pos_event(x0 + 20, y0 - 20)
    one.driver.frames(2)
    io.add_mouse_wheel_event(-2.0, 0.0)
    one.driver.frames(3)
    assert table.offset(one.ui, grid) > dragged
