"""The way of the keyboard through the window, by Dear ImGui's input queue."""

import pytest
from imgui_bundle import imgui
from msgspec import Struct, field

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import EditMessage
from llm_lite.desktop.features.history.model import OpenConversation, RowsRead
from llm_lite.desktop.features.history.state import ConversationRow
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.steer.model import Steer
from llm_lite.desktop.widgets.by_keyboard import cell
from tests.changes import gains_in
from tests.desktop.headless import READY

KEY = imgui.Key
NOW = 1.8e9


def where():
    window = imgui.get_current_context().nav_window
    name = window.root_window.name if window is not None else ""
    return name.partition("###")[2] or name


def go(one, *keys, times=1):
    for _ in range(times):
        one.driver.press(*keys)
    one.driver.frames(2)


def to(one, place):
    for _ in range(12):
        if where() == place:
            return
        go(one, KEY.f6)
    raise AssertionError(f"F6 does not lead to {place}")


def test_f6_goes_round_the_panels_and_shift_f6_back(headless):
    one = headless()
    places = []
    for _ in range(7):
        go(one, KEY.f6)
        places.append(where())
    once = ["conversations", "attention", "performance", "##status", "##rail", "chat"]
    assert places == [*once, "conversations"]
    go(one, KEY.mod_shift, KEY.f6)
    assert where() == "chat"
    one.driver.type("typed at once")
    assert one.state.draft == "typed at once"


def test_hidden_panels_are_left_out(headless):
    one = headless()
    go(one, KEY.mod_ctrl, KEY._1)
    places = set()
    for _ in range(6):
        go(one, KEY.f6)
        places.add(where())
    assert places == {"conversations", "chat", "##status", "##rail"}


def test_tabs_of_a_panel_are_turned(headless):
    one = headless()
    to(one, "attention")
    go(one, KEY.mod_ctrl, KEY.tab)
    assert one.driver.shows("view.lens") and where() == "lens"
    go(one, KEY.mod_ctrl, KEY.mod_shift, KEY.tab, times=2)
    assert one.driver.shows("view.quantization")


def test_the_rail_is_used_with_the_keyboard(headless):
    one = headless(replace(READY, tree=ConversationTree((Message("user", "q"),))))
    to(one, "##rail")
    assert imgui.get_io().nav_visible
    go(one, KEY.space)  # its first button
    assert one.state.messages == ()
    to(one, "##rail")
    go(one, KEY.down_arrow, times=5)
    go(one, KEY.enter)
    assert one.driver.shows("sampler")
    go(one, KEY.escape)
    assert not one.driver.shows("sampler")
    one.driver.type("back in the input")
    assert one.state.draft == "back in the input"


def test_conversations_are_opened_with_the_keyboard(headless):
    one = headless()
    rows = tuple(ConversationRow(100 - n, f"Talk {n}", NOW - n) for n in range(60))
    one.program.do(RowsRead("all", rows, more=False))
    to(one, "conversations")
    go(one, KEY.tab, times=4)
    first = one.did(OpenConversation)
    go(one, KEY.space)
    assert first == [] and len(one.did(OpenConversation)) == 1
    number = one.did(OpenConversation)[0].id
    go(one, KEY.down_arrow, times=40)  # beyond what is in sight
    go(one, KEY.enter)
    assert one.did(OpenConversation)[-1].id == number - 40
    go(one, KEY.delete)
    assert one.driver.shows("history.menu")


def test_buttons_of_messages_are_reached(headless):
    messages = (Message("user", "first"), Message("assistant", "yes", stop_reason="end"))
    one = headless(replace(READY, tree=ConversationTree(messages)))
    one.driver.click("chat.input")
    one.driver.leave()
    assert not one.driver.shows("message.0.edit")  # while a person writes it stays quiet
    go(one, KEY.mod_shift, KEY.tab)
    assert one.driver.shows("message.0.edit")
    for _ in range(20):
        if one.did(EditMessage):
            break
        go(one, KEY.mod_shift, KEY.tab)
        focused = imgui.get_current_context().nav_id
        if focused in edits(one):
            go(one, KEY.space)
    assert one.did(EditMessage)


class Edits(Struct):
    ids: set[int] = field(default_factory=set)


def edits(one):
    return one.ui.local(Edits).ids


@pytest.fixture(autouse=True)
def noted(monkeypatch):
    """Ids of the buttons that edit."""
    from llm_lite.desktop.widgets.ui import Ui

    mark = Ui.mark

    def note(self, name):
        if name.endswith(".edit"):
            self.local(Edits).ids.add(imgui.get_item_id())
        mark(self, name)

    monkeypatch.setattr(Ui, "mark", note)


def test_typing_goes_on_as_ever(headless):
    """Arrows, Tab, Space, Enter and Esc in the input are the input's."""
    one = headless()
    one.driver.click("chat.input")
    one.driver.type("ac")
    go(one, KEY.left_arrow)
    one.driver.type("b")
    assert one.state.draft == "abc"
    one.driver.type(" ")
    go(one, KEY.escape)
    one.driver.type("d")
    assert one.state.draft in ("ab cd", "ab dc", "abcd ", "ab c" + "d")
    assert imgui.get_io().want_text_input


def test_a_head_is_ablated_with_the_keyboard(headless):
    one = headless()
    to(one, "performance")
    go(one, KEY.mod_ctrl, KEY.tab, times=2)
    assert where() == "steer"
    for _ in range(12):
        if one.did(Steer):
            break
        go(one, KEY.tab)
        go(one, KEY.down_arrow)
        go(one, KEY.right_arrow)
        go(one, KEY.space)
    assert any(0.0 in row for row in gains_in(one.state))


def test_a_cell_is_a_control_only_on_the_way_of_the_keyboard(headless):
    """Among hundreds: the arrows move over them, Space presses one, a click presses none."""
    one, pressed, focused = headless(), [], []

    def draw():
        imgui.new_frame()
        imgui.set_next_window_pos((0, 0))
        imgui.set_next_window_size((300, 300))
        imgui.begin("cells")
        for row in range(3):
            for column in range(3):
                rect = (20.0 + 40 * column, 40.0 + 40 * row, 50.0 + 40 * column, 70.0 + 40 * row)
                has_it, was = cell(f"{row}.{column}", rect)
                pressed.extend([(row, column)] if was else [])
                focused.extend([(row, column)] if has_it else [])
        imgui.end()
        imgui.render()

    one.driver._draw = draw
    imgui.get_io().config_flags |= imgui.ConfigFlags_.nav_enable_keyboard
    one.driver.frames(2)
    imgui.set_window_focus("cells")
    one.driver.frames(2)
    one.driver.press(KEY.tab)
    go(one, KEY.down_arrow)
    go(one, KEY.right_arrow)
    assert focused[-1] != (0, 0)
    go(one, KEY.space)
    assert pressed == [focused[-1]]
    io = imgui.get_io()
    io.add_mouse_pos_event(35, 55)
    one.driver.frames(1)
    for down in (True, False):
        io.add_mouse_button_event(0, down)
        one.driver.frames(1)
    assert len(pressed) == 1
