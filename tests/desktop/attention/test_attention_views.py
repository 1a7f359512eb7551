"""Choices, colours and exports of the attention views."""

from types import SimpleNamespace

import numpy as np
import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import AttentionRows, Ended, ReadAttentionRows
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.records import replace
from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.colors import FADE, NAMES, faded, srgb_to_lab, table
from llm_lite.desktop.features.attention import heads
from llm_lite.desktop.features.attention import view as grid
from llm_lite.desktop.features.attention.coloring import LOWEST, ticks
from llm_lite.desktop.features.attention.heads import largest
from llm_lite.desktop.features.attention.map import (
    AxisZoom,
    MapWindow,
    MapZoom,
    hatching,
    value_words,
    whole,
)
from llm_lite.desktop.features.attention.model import ReadAgain, SetAttention
from llm_lite.desktop.features.attention.rows import HEAD_ROWS
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.cache import unread
from llm_lite.desktop.features.layouts.state import Layouts, Sides, Sizes
from llm_lite.desktop.features.program.cached_text import decoded
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokens.state import XRay
from llm_lite.desktop.widgets.head_maps import MapPicture
from llm_lite.desktop.widgets.token_text import visible
from tests.desktop.cached import with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL


@pytest.mark.parametrize("name", NAMES)
def test_lightness_of_colour_maps_grows_evenly(name):
    lightness = srgb_to_lab(table(name)[:, :3] / 255.0)[:, 0]
    steps = np.diff(lightness)
    steps = steps if steps.mean() > 0 else -steps
    assert steps.mean() * 255 > 55
    assert steps.min() > -0.35 and steps.max() < 0.9  # 8 bits a channel cannot do better
    straight = np.linspace(lightness[0], lightness[-1], 256)
    np.testing.assert_allclose(lightness, straight, atol=0.7)


def test_four_heads_are_locked_and_a_fifth_pushes_the_first_out():
    choice = AttentionChoice()
    for head in range(5):
        choice = choice.toggled((0, head))
    assert choice.locked == ((0, 1), (0, 2), (0, 3), (0, 4))
    assert choice.toggled((0, 2)).locked == ((0, 1), (0, 3), (0, 4))
    assert choice.fit(replace(MODEL, layers=1, heads=3)).locked == ((0, 1), (0, 2))


def test_zoom_keeps_at_least_sixteen_tokens_inside_the_text():
    zoom = AxisZoom()
    assert zoom.window(500) == range(500)
    zoom.set(490.0, 4.0, 500)
    assert len(zoom.window(500)) == 16 and zoom.window(500).stop == 500
    zoom.set(-5.0, 100.0, 500)
    assert zoom.window(500) == range(100)
    zoom.set(0.0, 500.0, 500)
    assert zoom.window(600) == range(600)
    assert AxisZoom(0.0, 50.0).window(3) == range(3)


def test_the_axes_of_cross_attention_are_zoomed_apart():
    layers = (SimpleNamespace(cross=True),)
    maps = SimpleNamespace(layers=layers, length=40, column_tokens=lambda layer: (0,) * 100)
    zoom = MapZoom()
    assert zoom.window(maps) == whole(maps) == MapWindow(range(40), range(100))
    zoom.columns.set(90.0, 20.0, 100)
    zoom.rows.scale(2.0, 1.0, 40)  # about the last row
    assert zoom.window(maps) == MapWindow(range(14, 40), range(80, 100))
    zoom.rows.pan(-100.0, 40)
    assert zoom.window(maps).rows == range(26)
    layers[0].cross = False
    assert zoom.window(maps) == MapWindow(range(26), range(26)), "one text has one window"
    zoom.show_all()
    assert zoom.window(maps) == MapWindow(range(40), range(40))


def test_numbers_on_the_bar():
    assert [words for _, words in ticks(AttentionChoice(logarithmic=False))] == [
        "0%",
        "25%",
        "50%",
        "75%",
        "100%",
    ]
    shares = [share for share, _ in ticks(AttentionChoice(logarithmic=True))]
    assert shares == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    last = ticks(AttentionChoice(logarithmic=True, high=0.5))[-1]
    assert last == (pytest.approx(1.0), "≥ 50%") and LOWEST == 1e-4


def test_the_last_colour_says_that_larger_values_have_it_too():
    for logarithmic in (False, True):
        words = [words for _, words in ticks(AttentionChoice(logarithmic=logarithmic, high=0.1))]
        assert words[-1] == "≥ 10%" and sum("≥" in one for one in words) == 1
    assert "≥" not in ticks(AttentionChoice())[-1][1]


def test_the_legend_names_the_groups_that_share_keys():
    layers = (SimpleNamespace(heads=9, kv_heads=3), SimpleNamespace(heads=8, kv_heads=8))
    maps = SimpleNamespace(layers=layers)
    assert list(grid.groups_of(AttentionChoice(), maps)) == [0, 1, 2]
    assert not grid.groups_of(AttentionChoice(layer=1), maps), "each head has keys of its own"
    assert list(grid.groups_of(AttentionChoice(group=2), maps)) == [2]


def test_tokens_that_cannot_be_seen_have_a_sign():
    assert [visible(t) for t in (" ", "\n", "", " sky", "\t")] == ["␣", "⏎", "␣", "sky", "→"]
    assert visible("\xa0") == "U+00A0"
    assert len(visible("x" * 50)) == 12 and visible("<|endoftext|>", 40) == "<|endoftext|>"


def test_rows_that_a_cell_does_not_show_are_told():
    cell = Cell(0, 0, 0, 0, 64, 64, fresh=False)
    cell.grow(30)
    assert cell.missing == ((0, 30),)
    while cell.take(8, range(10, 30)) is not None:
        pass
    assert cell.missing == ((0, 10),), "the queries of these are gone"
    cell.shrink(5)
    assert cell.missing == ((0, 5),)
    cell.redo()
    assert cell.missing == ()


def test_what_is_not_computed_is_hatched_below_the_diagonal():
    lines = list(hatching(100.0, range(100), ((20, 40), (60, 61)), 7.0))
    assert len(lines) > 5
    for left, low, right, high in lines:
        assert 20 <= high <= low <= 40, "one row of a pixel has no line"
        assert left >= 0 and right <= high + 1e-6, "nothing above the diagonal"
        assert low - high == pytest.approx(right - left)
    assert list(hatching(100.0, range(50, 150), ((0, 20),), 7.0)) == [], "out of the window"


def test_what_is_not_computed_is_hatched_across_a_map_that_is_not_causal():
    lines = list(hatching(100.0, range(50), ((10, 20),), 7.0, causal=False))
    assert min(left for left, *_ in lines) == 0 and max(right for *_, right, _ in lines) == 100
    for left, low, right, high in lines:
        assert 20 <= high <= low <= 40 and 0 <= left <= right <= 100
        assert low - high == pytest.approx(right - left)


def test_what_the_pointer_says_of_a_pair():
    assert value_words(True, 0.123, False) == "12.3%"
    assert value_words(True, None, False) == "…"
    assert value_words(False, None, False) == "A token cannot look at what comes later."
    assert "not kept" in value_words(True, None, True)


@pytest.mark.parametrize("name", NAMES)
def test_near_nothing_is_the_paper_in_both_themes(name):
    for light in (False, True):
        lightness = srgb_to_lab(table(name, light)[:, :3] / 255.0)[:, 0]
        assert (lightness[0] > lightness[-1]) == light
        rgba = faded(name, light)
        assert rgba[0, 3] == 0 and (rgba[FADE:, 3] == 255).all()
        assert (np.diff(rgba[:, 3].astype(int)) >= 0).all()


ROWS = AttentionRows(3, "from", (0.5, 0.1, 0.3, 0.1))


def test_the_largest_weights_of_a_row_come_first():
    assert largest(ROWS, AttentionChoice(), 2) == [(0, 0.5), (2, 0.3)]
    without = largest(ROWS, AttentionChoice(exclude_first=True), 2)
    assert without == [(2, pytest.approx(0.6)), (1, pytest.approx(0.2))]


def test_what_is_read_again_for_maps_is_read_afresh():
    from llm_lite.desktop.features.program.act import act

    messages = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
    state = AppState(model=MODEL, executor=EXECUTOR, tree=ConversationTree(messages))
    _, (command,) = act(ReadAgain(), state, 0.0)
    assert command.afresh and command.conversation == 0


def test_rows_are_asked_one_head_after_the_other():
    from llm_lite.desktop.features.program.act import act
    from llm_lite.desktop.features.program.apply import apply

    def asking(state, row, head):
        (asks,) = HEAD_ROWS.wanted(state, ReadAttentionRows(row, "from", "heads", (head,)))
        state, (command,) = act(asks, state, 0.0)
        found = replace(ROWS, position=row)
        return apply(Ended(), apply(found, state, 0.0, command), 0.0, command)

    state = asking(with_cached(AppState(model=MODEL), ("a", "b")), 1, (0, 1))
    found = replace(ROWS, position=1)
    assert heads.rows_of_heads(state, 1) == {(0, 1): found}
    state = asking(state, 1, (2, 3))
    assert heads.rows_of_heads(state, 1) == {(0, 1): found, (2, 3): found}
    cross = replace(state, attention=replace(state.attention, part="cross"))
    assert heads.rows_of_heads(cross, 1) == {}, "of another part"
    assert heads.rows_of_heads(asking(state, 0, (0, 1)), 1) == {}, "of another token"
    more = replace(state, cached=decoded(state.cached, [(5, "c")], 1, 3))
    assert HEAD_ROWS.answer(more) == HEAD_ROWS.answer(state), "what follows changes nothing"
    assert HEAD_ROWS.answer(with_cached(more, ("a",))) is None, "its token is gone"


def test_rows_of_a_cell_come_newest_first_and_each_once():
    cell = Cell(0, 0, 0, 0, 64, 64, fresh=False)
    taken = []
    for length in (3, 10, 11):
        cell.grow(length)
        taken.append(cell.take(4, range(length)))
    assert taken == [(0, 3), (6, 4), (10, 1)]
    cell.put_back(10, 1)
    rest = []
    while (part := cell.take(4, range(4, 11))) is not None:
        rest.append(part)
    assert rest == [(10, 1), (4, 2)]  # rows before 4 have lost their queries
    assert cell.shrink(7) == 7 and cell.seen == 7 and cell.todo == []


class NoRows:
    """Maps of a text whose queries are not kept, as after a change of the executor."""

    problem, pending, length, vanished = "", False, 40, 0
    rows, ring_rows = range(40, 40), 128
    memory = {"queries": 64 << 20, "maps": 0, "copies": 0}  # noqa: RUF012
    layers = (AttentionLayer("q", "k", 9, 3, head_dim=8, scale=1.0, window=0),) * 2

    def use(self, look):
        pass

    def begin(self, source, busy):
        pass

    def asks(self, view):
        pass


def test_without_queries_a_sentence_stands_where_maps_would_be_blank(headless, monkeypatch):
    said = []
    monkeypatch.setattr(unread, "wrapped", lambda ui, words, *rest, **named: said.append(words))
    messages = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
    state = AppState(model=MODEL, executor=EXECUTOR, tree=ConversationTree(messages))
    one = headless(with_cached(state, owners=(0,) * 20 + (1,) * 20))
    one.ui.maps = NoRows()
    choice = replace(one.state.attention, locked=((0, 1),))
    one.program.do(SetAttention(choice))
    one.driver.click("tab.attention")
    one.driver.click("tab.head")
    one.driver.frames(2)
    assert set(said) == {unread.QUERIES.format(n=40)}
    assert one.driver.shows("head.read")
    one.driver.click("attention.read")
    assert one.did(ReadAgain) == [ReadAgain()], "all queries are made again"
    assert not one.driver.shows("attention.0.0") and not one.driver.shows("head.0.1")


class NoText(NoRows):
    """Maps of an empty cache."""

    problem, length, rows = "Maps begin with the second token.", 0, range(0)


def test_an_opened_conversation_is_read_before_it_has_maps(headless, monkeypatch):
    drawn = []
    monkeypatch.setattr(grid, "wrapped", lambda ui, words, *rest, **named: drawn.append(words))
    messages = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
    one = headless(AppState(model=MODEL, executor=EXECUTOR))
    one.ui.maps = NoText()
    drawn.clear()
    one.driver.click("tab.attention")
    assert set(drawn) == {NoText.problem, grid.EMPTY} and not one.driver.shows("attention.read")
    monkeypatch.setattr(unread, "wrapped", lambda ui, words, *rest, **named: drawn.append(words))
    drawn.clear()
    one.program.state = replace(one.state, tree=ConversationTree(messages))
    one.driver.frames(2)
    assert set(drawn) == {unread.NOTHING}
    one.driver.click("attention.read")
    assert one.did(ReadAgain) == [ReadAgain()]


def test_while_a_title_has_the_cache_nobody_is_told_to_say_something(headless, monkeypatch):
    drawn = []
    monkeypatch.setattr(grid, "wrapped", lambda ui, words, *rest, **named: drawn.append(words))
    messages = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
    state = AppState(model=MODEL, executor=EXECUTOR, tree=ConversationTree(messages))
    one = headless(with_cached(state, owners=(0,) * 20 + (1,) * 20))
    one.ui.maps = NoText()
    drawn.clear()
    one.driver.click("tab.attention")
    assert set(drawn) == {heads.USED, grid.EMPTY}


class SomeRows(NoRows):
    """Maps that are there, each without a picture."""

    rows = range(40)
    memory = {"queries": 64 << 20, "maps": 0, "copies": 0}  # noqa: RUF012

    def thumbnail(self, layer, head):
        return MapPicture(0, (0.0, 0.0), (1.0, 1.0), 1, 0)

    def picture(self, name, layer, head, rows, columns, side):
        return self.thumbnail(layer, head)

    def value(self, name, row, column):
        return None


class LastRow(SomeRows):
    """Maps of a text that came from the cache of prefixes: only its last query was computed."""

    rows = range(39, 40)


class LastRows(SomeRows):
    """Maps of a text that is longer than the ring of queries."""

    rows, ring_rows = range(8, 40), 32


@pytest.mark.parametrize("maps", [SomeRows, LastRow, LastRows, NoRows])
def test_a_text_without_its_queries_is_read_again_from_every_view(headless, maps):
    """Not where reading it again would bring no more."""
    messages = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
    state = AppState(
        model=MODEL, executor=EXECUTOR, tree=ConversationTree(messages), xray=XRay(shown=True)
    )
    one = headless(with_cached(state, owners=(0,) * 20 + (1,) * 20), size=(1600, 1000))
    one.ui.maps = maps()
    one.driver.click("tab.attention")
    helps = maps in (LastRow, NoRows)
    assert one.driver.shows("attention.read") == one.driver.shows("xray.read") == helps
    if helps:
        one.driver.click("xray.read")
        assert one.did(ReadAgain) == [ReadAgain()]


class Scored(SomeRows):
    """Maps whose scores are of the rows that have queries; `pending`: more are computed."""

    rows, ring_rows, scored_rows = range(30, 40), 128, 180

    def scores(self, of_all=False):
        return {name: np.zeros(18) for name, _ in grid.ORDERS[1:]}


@pytest.mark.parametrize(("scored", "pending", "waits"), [
    (180, False, False), (90, True, True), (90, False, True), (0, False, True),
])  # fmt: skip
def test_no_frame_waits_for_scores_that_never_come(headless, monkeypatch, scored, pending, waits):
    """Rows whose queries are gone have none; what is not computed for long, neither."""
    one = headless(with_cached(AppState(model=MODEL, executor=EXECUTOR), used=40))
    maps = one.ui.maps = Scored()
    maps.scored_rows, maps.pending = scored, pending
    one.driver.click("tab.attention")
    one.program.do(SetAttention(replace(one.state.attention, order=grid.ORDERS[1][0])))
    one.driver.frames(3)
    assert (one.ui.redraw_at < np.inf) == waits
    monkeypatch.setattr(grid, "LAST_SCORES", 0.0)
    one.driver.frames(2)
    assert (one.ui.redraw_at < np.inf) == pending


def test_columns_of_the_grid_are_numbered_and_no_head_is_a_click_from_one(headless):
    one = headless(with_cached(AppState(model=MODEL, executor=EXECUTOR), used=40))
    one.ui.maps = SomeRows()
    one.driver.click("tab.attention")
    one.driver.click("tab.head")
    one.driver.frames(2)
    numbers, first = one.driver.rect("attention.numbers"), one.driver.rect("attention.0.0")
    assert numbers[0] == first[0] and numbers[3] <= first[1] + 1
    assert one.driver.rect("attention.key")[3] <= numbers[1] + 1
    one.driver.click("head.example")
    one.driver.frames(2)
    assert one.state.attention.locked == ((1, 0),)


@pytest.mark.parametrize("wide", [9, 14, 20, 40])
def test_filters_never_lie_under_the_buttons_beside_them(headless, wide):
    """In a column of so many text sizes filters stand below."""
    sides = Sides(sizes=Sizes(list_width=10.0, inspector_width=wide))
    state = with_cached(AppState(model=MODEL, executor=EXECUTOR), used=40)
    one = headless(replace(state, layouts=Layouts("inspect", "inspect", sides, sides, sides)))
    one.ui.maps = SomeRows()
    one.driver.frames(5)
    names = ("order", "layer", "group", "look.open", "large")
    rects = [one.driver.rect(f"attention.{name}") for name in names]
    view = one.driver.rect("view.attention")
    for number, (x0, y0, x1, y1) in enumerate(rects):
        assert view[0] <= x0 and x1 <= view[2]
        for u0, v0, u1, v1 in rects[:number]:
            assert x0 >= u1 or u0 >= x1 or y0 >= v1 or v0 >= y1
