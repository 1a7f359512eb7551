"""Frames that follow the engine or input: views in turn, and pictures that are kept."""

import ctypes

import pytest
from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.app import layout
from llm_lite.desktop.app.pacing import SETTLING, TURNS
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.program.model import SetFontSize, SetTheme
from llm_lite.desktop.features.program.state import LogLine
from llm_lite.desktop.features.registry import VIEWS
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.tiled import tiled


class Following:
    """Every view side by side; `frame` draws one and counts which views were asked."""

    def __init__(self, one, monkeypatch):
        self.one, self.asked = one, []
        for view in INSPECTED:
            monkeypatch.setattr(view, "draw", self._noted(view))

    def _noted(self, view):
        draw = view.draw

        def noted(state, ui):
            self.asked.append(view.name)
            return draw(state, ui)

        return noted

    def frame(self, *, following=True):
        self.asked.clear()
        imgui.new_frame()
        self.one.program.paint(following=following)
        imgui.render()
        return list(self.asked)

    def whole(self):
        return self.frame(following=False)


@pytest.fixture
def following(headless, monkeypatch):
    class Open:  # a frozen View cannot be patched
        def __init__(self, view):
            for name in ("name", "title", "icon", "place", "draw", "turn", "window"):
                setattr(self, name, getattr(view, name))

    opened = tuple(Open(view) for view in VIEWS)
    monkeypatch.setattr("tests.desktop.app.test_turns.VIEWS", opened)
    shown = [view for view in opened if view.place != "beside"]
    monkeypatch.setattr("tests.desktop.app.test_turns.INSPECTED", shown)
    monkeypatch.setattr("llm_lite.desktop.app.interface.VIEWS", opened)
    monkeypatch.setattr(layout, "build_layout", tiled)

    def make(size=(2400, 1500)):
        one = headless(size=size)
        one.program.start(ScriptedEngine(0.0))
        one.program.do(Send("Why is the sky blue?"))
        one.driver.wait("an answer", lambda s: s.messages and not s.busy)
        one.driver.click("chat.input")
        one.driver.leave()
        one.driver.frames(4)
        return Following(one, monkeypatch)

    return make


def picture():
    """What the frame paints, list by list: its vertices, its indices, where it is cut off."""
    return {
        f"{at}.{one._owner_name}": (
            _bytes(one.vtx_buffer, imgui.VERTEX_SIZE),
            _bytes(one.idx_buffer, imgui.INDEX_SIZE),
            [(c.clip_rect.x, c.clip_rect.y, c.clip_rect.z, c.clip_rect.w) for c in one.cmd_buffer],
        )
        for at, one in enumerate(imgui.get_draw_data().cmd_lists)
    }


INSPECTED = [view for view in VIEWS if view.place != "beside"]  # two runs are not shown
SHOWN = [view.name for view in INSPECTED]


def _bytes(buffer, size):
    return ctypes.string_at(buffer.data_address(), size * buffer.size())


def frame_in_turn(one):
    imgui.new_frame()
    one.program.paint(following=True)
    imgui.render()


def log(one, text):
    lines = (*one.state.log, LogLine("info", text, 0.0))
    one.program.state = replace(one.state, log=lines)


def test_each_view_has_its_turn(following):
    one = following()
    assert one.whole() == SHOWN
    frames = [one.frame() for _ in range(2 * TURNS)]
    for view in INSPECTED:
        drawn = sum(view.name in frame for frame in frames)
        assert drawn == (2 * TURNS if view.turn is None else 2), view.name
    assert frames[:TURNS] == frames[TURNS:]


def test_nothing_changes_in_a_frame_without_news(following):
    """Every list, every vertex, in the same order."""
    one = following()
    one.whole()
    want = picture()
    assert len(want) > len(VIEWS), "children too"
    for _ in range(TURNS):
        one.frame()
        got = picture()
        assert list(got) == list(want)
        for name, painted in want.items():
            assert got[name] == painted, name


def test_news_is_shown_in_turn(following):
    one = following()
    one.whole()
    before = picture()
    log(one.one, "something new")
    seen = []
    for _ in range(TURNS):
        names = one.frame()
        seen.append(("log" in names, picture() != before))
    assert sum(drawn for drawn, _ in seen) == 1
    turn = [drawn for drawn, _ in seen].index(True)
    assert [other for _, other in seen] == [at >= turn for at in range(TURNS)]
    got = picture()
    one.whole()
    assert picture() == got


def test_the_view_under_the_pointer_is_drawn_in_each(following):
    one = following()
    one.one.driver.point("view.log")
    for _ in range(TURNS):
        assert "log" in one.frame()


def test_the_view_that_the_pointer_left_is_drawn_once_more(following):
    one = following()
    one.one.driver.point("view.log")
    imgui.get_io().add_mouse_pos_event(-1e6, -1e6)
    drawn = ["log" in one.frame() for _ in range(TURNS + 1)]
    assert drawn[0]
    assert sum(drawn) <= 2


def test_the_view_with_the_keyboard_is_drawn_in_each(following):
    one = following()
    one.one.driver.click("view.steer")
    one.one.driver.leave()
    for _ in range(TURNS):
        assert "steer" in one.frame()


def test_a_click_reaches_a_view_that_rested(following):
    """It came after the decision that the frame only follows the engine."""
    one = following()
    one.whole()
    x0, y0, x1, y1 = one.one.driver.rect("view.performance")
    imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
    imgui.get_io().add_mouse_button_event(0, True)
    assert "performance" in one.frame()


def test_a_drag_draws_everything(following):
    """Of the line between two views, which both have another size in every frame."""
    one = following()
    one.whole()
    x0, _, x1, y1 = one.one.driver.rect("view.chat")
    imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, y1)
    one.frame()
    imgui.get_io().add_mouse_button_event(0, True)
    for step in range(1, 5):
        one.frame()
        imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, y1 + 10 * step)
        assert one.frame() == SHOWN
        got = picture()
        imgui.new_frame()
        one.one.program.paint()
        imgui.render()
        assert picture() == got, "as if no view had rested"
    assert one.one.driver.rect("view.chat")[3] > y1 + 20
    imgui.get_io().add_mouse_button_event(0, False)
    for _ in range(SETTLING):
        assert one.frame() == SHOWN
    assert one.frame() != SHOWN


def test_a_click_is_drawn_in_turn(following):
    """The view under the pointer at once, the others while it settles."""
    one = following()
    one.one.driver.point("view.log")
    one.whole()
    drawn = []
    for down in (True, False):
        imgui.get_io().add_mouse_button_event(0, down)
        drawn.append(one.frame())
    drawn += [one.frame() for _ in range(TURNS - 2)]
    assert all("log" in names and names != SHOWN for names in drawn)
    assert set().union(*drawn) == set(SHOWN)


@pytest.mark.parametrize("turn", range(TURNS))
def test_another_tab_is_drawn_at_once(headless, turn):
    """Though the views of its place have other turns than this frame."""
    one = headless()
    for _ in range(turn):
        frame_in_turn(one)
    x0, y0, x1, y1 = one.driver.rect("tab.lens")
    imgui.get_io().add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
    for down in (True, False):
        frame_in_turn(one)
        imgui.get_io().add_mouse_button_event(0, down)
    frame_in_turn(one)
    assert one.driver.shows("view.lens") and not one.driver.shows("view.attention")
    got = picture()
    imgui.new_frame()
    one.program.paint()
    imgui.render()
    assert picture() == got


def test_an_open_popup_draws_everything(following):
    one = following()
    one.one.driver.click("rail.sampler")
    assert one.frame() == SHOWN
    one.one.driver.press(imgui.Key.escape)
    one.frame()
    assert one.frame() != SHOWN


def test_the_large_view_is_drawn_in_each(following):
    one = following()
    choice = replace(one.one.state.attention, large=True)
    one.one.program.do(SetAttention(choice))
    one.whole()
    for _ in range(TURNS):
        assert "attention" in one.frame()


@pytest.mark.parametrize("change", ["size", "theme", "font", "glyphs"])
def test_what_every_picture_relies_on(following, change):
    one = following()
    one.whole()
    one.frame()
    if change == "size":
        imgui.get_io().display_size = ImVec2(2300, 1400)
    elif change == "theme":
        one.one.program.do(SetTheme("light"))
    elif change == "font":
        one.one.program.do(SetFontSize(17))
    else:
        atlas = imgui.get_io().fonts.tex_data.unique_id
        for start in range(0xAC00, 0xD000, 700):
            log(one.one, "".join(map(chr, range(start, start + 700))))
            one.whole()
            if imgui.get_io().fonts.tex_data.unique_id != atlas:
                break
        else:
            pytest.fail("the atlas never grew")
    assert one.frame() == SHOWN
    rests = [one.frame() != SHOWN for _ in range(3 * SETTLING)]
    assert not rests[0] and rests[-1]


def test_names_of_what_rests_are_kept(following):
    one = following()
    one.whole()
    want = dict(one.one.ui.rects)
    for _ in range(TURNS):
        one.frame()
        assert dict(one.one.ui.rects) == want


def test_a_view_outside_the_dockspace(following):
    one = following()
    window = imgui.internal.find_window_by_name(next(v.window for v in VIEWS if v.name == "log"))
    imgui.internal.dock_context_queue_undock_window(imgui.get_current_context(), window)
    for _ in range(4):
        one.whole()
    want = picture()
    for _ in range(TURNS):
        one.frame()
        assert picture() == want


def test_no_node_that_is_gone_is_written_to(following, monkeypatch):
    """Dear ImGui's pointer to the central node leads into freed memory until it draws the dockspace
    after a panel has left it."""
    one, dock = following(), imgui.internal
    ask = dock.dock_builder_get_central_node

    def asked(root):
        node = ask(root)
        assert dock.dock_builder_get_node(node.id_) is not None
        return node

    monkeypatch.setattr(dock, "dock_builder_get_central_node", asked)
    log = dock.find_window_by_name(next(v.window for v in VIEWS if v.name == "log"))
    dock.dock_context_queue_undock_window(imgui.get_current_context(), log)
    for _ in range(3):
        one.whole()
        chat = dock.find_window_by_name(VIEWS[0].window)
        assert chat.dock_node.is_no_tab_bar()


def test_a_tab_that_is_hidden_is_not_drawn(headless, monkeypatch):
    one = headless()
    one.driver.click("tab.lens")
    one.driver.leave()
    for _ in range(TURNS):
        frame_in_turn(one)
        assert one.driver.shows("view.lens")
        assert not one.driver.shows("view.attention")
