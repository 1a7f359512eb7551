"""A view that raises costs only itself: planted defects of every sort."""

import pytest
from imgui_bundle import imgui, implot

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import LoadStarted, Logged
from llm_lite.core.records import replace
from llm_lite.desktop.app import program
from llm_lite.desktop.features.chat.model import NewChat
from llm_lite.desktop.features.library import models
from llm_lite.desktop.features.program.guard import attempt
from llm_lite.desktop.features.program.notices import ReportDefect
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.features.registry import VIEWS
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.headless import READY
from tools.tour.input_driver import InputDriverError


@pytest.fixture
def headless(headless):
    def make(*state, **options):
        one = headless(*state, **options)
        one.driver.tolerant = True
        return one

    return make


LOG = next(view for view in VIEWS if view.name == "log")


def in_child(ui):
    imgui.begin_child("inner")
    imgui.push_id("x")
    imgui.push_style_color(imgui.Col_.text, (1.0, 0.0, 0.0, 1.0))
    imgui.push_font(ui.fonts["mono"], 12.0)


def in_table(ui):
    imgui.begin_group()
    imgui.begin_disabled(True)
    imgui.begin_table("t", 2, imgui.TableFlags_.scroll_y)
    imgui.table_next_row()
    imgui.table_next_column()


def in_plot(ui):
    assert implot.begin_plot("p", (200, 100))


def in_tooltip(ui):
    imgui.begin_tooltip()


def in_popup(ui):
    imgui.open_popup("p")
    imgui.begin_popup("p")


def in_ours(ui):
    with ui.font("bold"), ui.colored(text="error"), ui.styled(item_spacing=(1.0, 1.0)):
        imgui.begin_child("deep")
        raise ValueError("planted within")


def nowhere(ui):
    pass


@pytest.mark.parametrize(
    "begin", [nowhere, in_child, in_table, in_plot, in_tooltip, in_popup, in_ours]
)
def test_what_a_view_began_is_ended_and_the_others_are_drawn(headless, monkeypatch, begin):
    one = headless(replace(READY, tree=ConversationTree((Message("user", "hello"),))))

    def broken(state, ui):
        begin(ui)
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "planted")

    one.driver.click("tab.log")
    monkeypatch.setattr(type(LOG), "draw", property(lambda view: _draw(view, broken)))
    for _ in range(4):
        one.driver.frames(2)
        one.program.state = replace(one.state)  # tried again
    assert one.driver.shows("failed")
    assert one.driver.shows("chat.input") and one.driver.shows("status.executor")
    (defect,) = one.did(ReportDefect)
    assert "planted" in defect.text
    assert defect.part == "log"
    assert "planted" in one.state.log[-1].text
    assert "The log has the details" in one.state.notices[-1].text
    monkeypatch.undo()
    one.program.state = replace(one.state)
    one.driver.frames(2)
    assert not one.driver.shows("failed") and one.driver.shows("log.copy"), "the state is another"
    one.driver.click("chat.input")
    one.driver.type("and on")
    assert one.state.draft == "and on"
    assert one.state.messages == (Message("user", "hello"),)


_OWN = {view.name: view.draw for view in VIEWS}


def _draw(view, broken):
    return broken if view.name == "log" else _OWN[view.name]


def test_a_view_that_failed_is_left_until_the_state_changes(headless, monkeypatch):
    one, tried = headless(), []

    def broken(state, ui):
        tried.append(state)
        raise KeyError("planted")

    one.driver.click("tab.log")
    monkeypatch.setattr(type(LOG), "draw", property(lambda view: _draw(view, broken)))
    one.driver.frames(10)
    assert len(tried) == 2, "once, and once more for what was then told of it"


def test_a_panel_that_raises_is_closed(headless, monkeypatch):
    one = headless()
    monkeypatch.setattr(models, "_draw_model", lambda state, ui: 1 / 0)
    one.driver.click("chat.model")
    one.driver.frames(4)
    assert not one.driver.shows("models")
    assert one.did(ReportDefect)[0].part == "rail"
    one.driver.click("rail.settings")
    assert one.driver.shows("settings")


def test_a_lost_device_is_no_defect_of_a_view(headless):
    headless()

    def lost():
        imgui.begin_child("inner")
        raise DeviceLostError("it is gone")

    imgui.new_frame()
    with pytest.raises(DeviceLostError):
        attempt(lost)
    imgui.render()


def test_an_event_that_cannot_be_folded_costs_only_itself(headless, monkeypatch):
    one, engine = headless(), ScriptedEngine(0.0)
    one.program.start(engine)

    def broken(event, state, now):
        raise IndexError("planted")

    monkeypatch.setattr("llm_lite.desktop.features.program.loading.Load", broken)
    for event in (Logged("info", "before", 0.0), LoadStarted("x"), Logged("info", "after", 0.0)):
        engine.report(event)
    one.driver.frames(2)
    texts = [line.text for line in one.state.log]
    assert texts[0] == "before" and texts[-1] == "after"
    assert "LoadStarted" in texts[1] and "Traceback" in texts[1]


def test_an_action_that_cannot_be_done_changes_nothing(headless, monkeypatch):
    one, act = headless(), program.act

    def broken(action, state, now):
        if isinstance(action, NewChat):
            raise RuntimeError("planted")
        return act(action, state, now)

    monkeypatch.setattr(program, "act", broken)
    one.program.state = replace(one.state, tree=ConversationTree((Message("user", "kept"),)))
    one.program.do(NewChat())
    assert one.state.messages == (Message("user", "kept"),)
    assert "planted" in one.state.log[-1].text


def test_the_driver_does_not_overlook_a_defect(headless, monkeypatch):
    one = headless()
    one.driver.tolerant = False
    monkeypatch.setattr(models, "_draw_model", lambda state, ui: 1 / 0)
    with pytest.raises(InputDriverError, match="ZeroDivisionError"):
        one.driver.click("chat.model")
