"""The whole way in a real window: X's key events, a daemon, the composer, and the picture."""

import os
import sys
import time

import pytest
from imgui_bundle import imgui

if sys.platform != "linux":
    pytest.skip("input methods by D-Bus are Linux's", allow_module_level=True)

from llm_lite.desktop.app.input_method.exchange import LIMIT
from llm_lite.desktop.app.input_method.input_method import instead_of_xim
from llm_lite.desktop.app.input_method.messages import NOTHING, Composition, Span
from llm_lite.desktop.app.input_method.overlay import _in_line
from llm_lite.desktop.features.chat.model import SetDraft
from llm_lite.desktop.features.commands.keys import focus_input
from llm_lite.desktop.features.history.model import ShowHistory
from llm_lite.desktop.features.history.view import SearchField, focus_search
from llm_lite.desktop.features.program.notices import ReportDefect
from tests.desktop import x11
from tests.desktop.app.input_method.fake_ibus import FakeIbus, commit, compose
from tests.desktop.app.test_app import app, ready, turn  # noqa: F401
from tests.desktop.headless import Headless


@pytest.fixture
def ibus(tmp_path, monkeypatch):
    one = FakeIbus(tmp_path)
    monkeypatch.setenv("IBUS_ADDRESS", one.address)
    monkeypatch.delenv("XMODIFIERS", raising=False)
    yield one
    one.close()


class Typist:
    """The program, connected to the fake daemon, with the composer in focus."""

    def __init__(self, program, display):
        self.program, self._display, self._time = ready(program), display, 1
        self.until(lambda: program._input_method._exchange.sends_keys)
        self._window = x11.mapped_window(display)

    @property
    def draft(self):
        return self.program.program.state.draft

    def until(self, happened):
        turn(self.program, lambda state: happened())

    def press(self, *names):
        strokes = [(name, down) for name in names for down in (True, False)]
        self._time += 1000
        x11.press_keys(self._display, self._window, *strokes, start=self._time)


@pytest.mark.vulkan
def test_keys_are_composed_and_committed(app, ibus, display):  # noqa: F811
    said = {ord("d"): ([compose("ㅇ", 1)], True), ord("k"): ([compose("", 0), commit("아")], True)}
    ibus.answer = lambda keyval, state: said.get(keyval, ([], False)) if state == 0 else ([], False)
    typist = Typist(app(), display)
    assert "XMODIFIERS" not in os.environ  # others that we start are to have their own way
    typist.press("d")
    typist.until(lambda: typist.program.program.interface.composition.text == "ㅇ")
    assert typist.draft == ""
    typist.press("k", "x")
    typist.until(lambda: typist.draft == "아x")
    assert typist.program.program.interface.composition.text == ""
    assert ibus.members().count("FocusIn") == 1 and "SetCursorLocation" in ibus.members()
    typist.press("BackSpace")
    typist.until(lambda: typist.draft == "아")


@pytest.mark.vulkan
def test_a_composition_goes_on_in_the_field_that_a_shortcut_opens(app, ibus, display):  # noqa: F811
    """Both come in one slow frame."""
    said = {ord("d"): ([compose("ㅇ", 1)], True), ord("k"): ([compose("", 0), commit("아")], True)}
    ibus.answer = lambda keyval, state: said.get(keyval, ([], False)) if state == 0 else ([], False)
    typist = Typist(app(), display)
    program = typist.program.program
    program.do(ShowHistory(True))
    typist.press("d")
    focus_search(program.interface.ui)  # as Ctrl+Shift+F
    typist.until(lambda: typist.program._input_method.composition.text == "ㅇ")
    typist.until(lambda: program.interface.ui.local(SearchField).active)
    typist.press("k")
    typist.until(lambda: program.state.history.query == "아")
    assert typist.draft == ""


@pytest.mark.vulkan
def test_a_daemon_that_hangs_and_then_dies(app, ibus, display):  # noqa: F811
    def answer(keyval, state):
        return ([compose("녕", 1)], True) if keyval == ord("d") else None

    ibus.answer = answer
    typist = Typist(app(), display)
    typist.press("d")
    typist.until(lambda: typist.program._input_method.composition.text == "녕")
    begun = time.monotonic()
    typist.press("a", "b")
    typist.until(lambda: typist.draft == "녕ab")
    assert time.monotonic() - begun >= LIMIT * 0.9
    typist.press("c")
    typist.until(lambda: typist.draft == "녕abc")
    ibus.close()
    state = typist.program.program
    typist.until(lambda: any("IBus" in line.text for line in state.state.log))
    assert not any("IBus" in notice.text for notice in state.state.notices)
    typist.press("e")
    typist.until(lambda: typist.draft == "녕abce")


def test_x_is_asked_for_no_input_method_while_the_window_is_made(monkeypatch):
    monkeypatch.setenv("XMODIFIERS", "@im=ibus")
    with instead_of_xim() as ours:
        assert ours and os.environ["XMODIFIERS"] == "@im=none"
    assert os.environ["XMODIFIERS"] == "@im=ibus"
    monkeypatch.setenv("XMODIFIERS", "@im=SCIM")
    with instead_of_xim() as ours:
        assert not ours and os.environ["XMODIFIERS"] == "@im=SCIM"


@pytest.fixture
def headless():
    one = Headless()
    focus_input(one.ui)
    one.driver.frames(4)
    yield one
    one.close()


def drawn_in_front(headless):
    """Vertices over all windows, in a frame."""
    imgui.new_frame()
    headless.done += headless.program.paint()
    count = imgui.get_foreground_draw_list().vtx_buffer.size()
    imgui.render()
    return count


@pytest.mark.parametrize("text", ["", "see the end", "one\ntwo " * 30, "한국어 " * 200])
def test_a_composition_is_drawn_over_its_caret(headless, text):
    headless.program.do(SetDraft(text))
    headless.driver.frames(3)
    assert drawn_in_front(headless) == 0
    for composition in (
        Composition("녕", 1),
        Composition("きょうは\nいい", 3, (Span(0, 3), Span(3, 4)), kept=True),
        Composition("x" * 1024, 1024),
    ):
        headless.program.interface.composition = composition
        assert drawn_in_front(headless) > 0
    headless.program.interface.composition = NOTHING
    assert drawn_in_front(headless) == 0
    assert headless.did(ReportDefect) == []


def test_a_composition_without_a_field_is_not_drawn(headless):
    imgui.internal.clear_active_id()
    headless.program.interface.composition = Composition("녕", 1)
    assert drawn_in_front(headless) == 0


def test_the_rest_of_a_line_ends_at_a_word(headless):
    imgui.new_frame()
    with headless.ui.font():
        room = imgui.calc_text_size("one two thr").x
        assert _in_line("one two three four", room) == "one two"
        assert _in_line("onetwothree", imgui.calc_text_size("onetw").x + 1) == "onetw"
        assert _in_line("one", 0.0) == ""
    imgui.render()
