"""The window in another language: everything is drawn, at once, and changes while it runs."""

import gettext

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import LoadModel
from llm_lite.desktop.app.settings import parse, remember, restore
from llm_lite.desktop.features.program.model import SetLanguage
from llm_lite.desktop.features.program.notices import defects
from llm_lite.desktop.features.program.rail import PANELS
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.language.translate import number, use
from tests.desktop.cache_view import QUESTION, say
from tests.desktop.engine.engine import ScriptedEngine


class Bracketed(gettext.NullTranslations):
    """A language that nobody speaks: each text in brackets, longer than in English."""

    def __init__(self):
        super().__init__()
        self.said = set()

    def gettext(self, message):
        self.said.add(message)
        return f"⟦{message}⟧"

    def ngettext(self, msgid1, msgid2, n):
        self.said.add(msgid1)
        return f"⟦{msgid1 if n == 1 else msgid2}⟧"


@pytest.fixture(autouse=True)
def english():
    yield
    use(gettext.NullTranslations())


@pytest.fixture
def talked(headless):
    """A window in which something was asked and answered, with room for every view."""
    one, engine = headless(AppState(), size=(1800, 1400)), ScriptedEngine(0.0)
    one.program.start(engine)
    engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    say(one, QUESTION)
    return one


def _drawn(one):
    """The text of the widgets in one frame; what is painted into draw lists is not among it."""
    imgui.new_frame()
    imgui.log_to_clipboard(-1)
    one.done += one.program.paint()
    imgui.log_finish()
    imgui.render()
    return imgui.get_clipboard_text()


def _visit(one, look):
    """Every view and every panel, one after the other; `look` is called at each."""
    for view in VIEWS:
        if view.place not in ("middle", "left") and f"tab.{view.name}" in one.ui.rects:
            one.driver.click(f"tab.{view.name}")
            one.driver.leave()
            look(view.name)
    for panel in PANELS:
        one.driver.click(panel.opener)
        one.driver.frames(2)
        look(panel.name)
        one.driver.press(imgui.Key.escape)
        one.driver.frames(2)


def test_every_view_is_drawn_in_a_language_of_brackets(talked):
    """Values are put into texts that are longer and others than in English."""
    language = Bracketed()
    use(language)
    _visit(talked, lambda name: None)
    assert defects(talked.state) == ()
    assert len(language.said) > 200  # texts of the views that are there
    left = [text for text in language.said if text.startswith("⟦")]
    assert left == []  # translated twice


def test_the_language_changes_while_the_window_runs(talked):
    one = talked
    one.driver.click("rail.settings")
    one.driver.frames(2)
    assert "Text size" in _drawn(one)
    one.program.do(SetLanguage("ko"))
    shown = _drawn(one)
    assert "글자 크기" in shown and "테마" in shown
    assert "Text size" not in shown and "Theme" not in shown
    one.program.do(SetLanguage("en"))
    assert "Text size" in _drawn(one)


def test_it_is_chosen_in_the_settings_by_its_own_name(talked):
    one = talked
    one.driver.click("rail.settings")
    one.driver.frames(2)
    one.driver.click("settings.language")
    one.driver.frames(2)
    assert "한국어" in _drawn(one)
    one.driver.click("settings.language.ko")
    one.driver.frames(2)
    assert one.state.language == "ko"
    assert imgui.internal.find_window_by_name("###log").name == "로그###log"


def test_nothing_stays_in_the_language_of_before(headless):
    """What is kept from frame to frame with texts in it is made again: a window that changed
    says what one says that began so."""

    def drawn(began, then):
        one, engine = headless(AppState(language=began), size=(1800, 1400)), ScriptedEngine(0.0)
        one.program.start(engine)
        engine.submit(LoadModel(None))
        one.driver.wait("the model", lambda s: s.model is not None)
        say(one, QUESTION)
        found = {}
        _visit(one, lambda name: None)
        one.program.do(SetLanguage(then))
        _visit(one, lambda name: found.update({name: sorted(_drawn(one).splitlines())}))
        return found

    changed, began = drawn("en", "ko"), drawn("ko", "ko")
    for name, lines in began.items():
        words = [line for line in lines if not any(char.isdigit() for char in line)]
        assert [line for line in changed[name] if not any(c.isdigit() for c in line)] == words, name


def test_pictures_that_rest_are_drawn_again(talked):
    """Views that keep their picture while others are drawn rely on the language."""
    before = talked.program.interface._relies_on(talked.state)
    talked.program.do(SetLanguage("ko"))
    talked.driver.frames()
    assert talked.program.interface._relies_on(talked.state) != before


def test_the_choice_is_remembered():
    state = restore(Settings(language="ko"), AppState())
    assert state.language == "ko"
    assert remember(AppState(language="en"), Settings()).language == "en"
    assert Settings().language == "system"


@pytest.mark.parametrize("wrong", ["xx", "", 7, None, "../ko"])
def test_a_language_that_is_not_there_is_named_and_the_system_s_is_used(wrong):
    problems = []
    assert parse({"language": wrong}, Settings(), problems).language == "system"
    assert len(problems) == 1 and problems[0].startswith(
        "settings: language: expected one of system"
    )


def test_each_use_has_its_number():
    before = number()
    use(gettext.NullTranslations())
    assert number() == before + 1
