"""The page of the lesson: what its words and numbers say, and where they lead."""

from typing import get_args

from imgui_bundle import imgui

from llm_lite.core.messages import FollowToken, LoadModel
from llm_lite.desktop.features.chat.model import Regenerate, Send, SetDraft
from llm_lite.desktop.features.history.host import HistoryHost
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.lesson.glossary import meaning_of, operands_of, terms_in
from llm_lite.desktop.features.lesson.model import (
    GoToStep,
    RunSentence,
    ShowLesson,
    lesson_page,
)
from llm_lite.desktop.features.lesson.numbers import Number
from llm_lite.desktop.features.lesson.other_views import EXPLANATIONS, VIEWS_OF_STEPS
from llm_lite.desktop.features.lesson.state import StepName
from llm_lite.desktop.features.program.model import SetFontSize
from llm_lite.desktop.features.program.state import AppState
from tests.children import PATIENCE
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.lesson import test_lesson
from tests.desktop.lesson.test_lesson import SENTENCE, expected_of, lesson, shown, traced
from tests.desktop.lesson_expected import compare

tiny = test_lesson.tiny  # a fixture


def stand_still(app, name):
    """Draw until a part of the page, which scrolls to its step, stays where it is."""
    before = None
    while (place := app.driver.rect(name)) != before:
        before = place
        app.driver.frames(6)


def test_a_number_leads_to_the_view_that_shows_it(tiny):
    assert set(VIEWS_OF_STEPS) <= set(get_args(StepName))
    with lesson(tiny, "abc def") as app:
        trace = lesson_page(app.state).trace
        for name, clicked, view in (
            ("softmax", f"lesson.number.probability.{trace.position}", "head"),
            ("residual", "lesson.source", "lens"),
            ("cache", "lesson.number.position_bytes", "kv_cache"),
            ("sampling", "lesson.source", None),
        ):  # fmt: skip
            step = lesson_page(app.state).steps.index(name)
            app.program.do(ShowLesson(True))
            app.program.do(GoToStep(step))
            app.driver.leave()
            stand_still(app, clicked)
            app.driver.click(clicked)
            app.driver.frames(4)
            assert not app.state.lesson.shown
            assert app.state.attention.row == trace.position
            assert app.state.notices[-1].text == EXPLANATIONS[VIEWS_OF_STEPS[name]]
            app.driver.click("status.lesson")
            assert app.state.lesson.shown and app.state.lesson.step == step
            app.program.do(ShowLesson(False, can_return=True))
            app.driver.frames(3)
            if view is None:
                assert app.state.xray.shown and app.state.xray.at in (trace.position, None)
            else:
                assert app.driver.shows(f"view.{view}")
        assert (trace.layer, trace.head) in app.state.attention.locked


def test_every_number_says_what_it_is(tiny):
    """And one that another view does not show leads nowhere."""
    with lesson(tiny, "abc def") as app:
        known = lesson_page(app.state)
        for step in range(len(known.steps)):
            app.program.do(GoToStep(step))
            app.driver.frames(2)
            for name in shown(app):
                words = meaning_of(name, lesson_page(app.state))
                assert len(words) > 10 and "{" not in words, name
        app.program.do(GoToStep(0))
        app.driver.frames(2)
        app.driver.click("lesson.number.row.2")
        assert app.state.lesson.shown


def test_parts_of_a_number_are_the_references_too(tiny):
    """What a tooltip tells of a column: the number before, by what it is divided and multiplied."""
    with lesson(tiny, "abc def") as app:
        expected = expected_of(app, tiny)
        for name, strip in (("norm", "normed"), ("output", "after_attention")):
            app.program.do(GoToStep(lesson_page(app.state).steps.index(name)))
            app.driver.frames(3)
            expected.lesson = lesson_page(app.state)
            made = operands_of((strip, 3), lesson_page(app.state))
            numbers = [part for part in made if isinstance(part, Number)]
            assert len(numbers) >= 3
            for number in numbers:
                compare(number.name, number.text, expected)
            point_at_number(app, f"lesson.number.{strip}.3")
            assert shown(app).keys() >= {number.name for number in numbers}


def point_at_number(app, name):
    x0, y0, x1, y1 = app.ui.rects[name]
    app.driver.point_at((x0 + x1) / 2, (y0 + y1) / 2)


def test_words_are_explained_where_a_text_has_them_first(smollm2):
    found = {text[low:high]: term for text in EXPLAINED for low, high, term in terms_in(text)}
    assert found["tokens"] == "token" and found["key"] == "key" and "keyboard" not in found
    with lesson(smollm2, SENTENCE) as app:
        marked = set()
        for step, name in enumerate(lesson_page(app.state).steps):
            app.program.do(GoToStep(step))
            app.ui.rects.clear()
            app.driver.frames(3)
            here = {name for name in app.ui.rects if name.startswith("lesson.term.")}
            assert here, name
            marked |= here
        assert marked >= {f"lesson.term.{term}" for term in ("layer", "head", "KV cache", "logit")}


EXPLAINED = ("Tokens have a vector.", "The key of a keyboard; tokens")


def test_escape_closes_an_open_list_only(tiny):
    with lesson(tiny, "abc def") as app:
        app.program.do(GoToStep(1))
        app.driver.frames(3)
        app.driver.click("lesson.head")
        app.driver.press(imgui.Key.escape)
        app.driver.frames(2)
        assert app.state.lesson.shown and not imgui.is_popup_open("", imgui.PopupFlags_.any_popup)
        app.driver.leave()
        app.driver.press(imgui.Key.escape)
        assert not app.state.lesson.shown and app.driver.shows("status.lesson")


def test_the_drawn_token_can_be_gone_on_with(smollm2):
    with lesson(smollm2, SENTENCE) as app:
        app.program.do(GoToStep(lesson_page(app.state).step_number("cache") - 1))
        app.driver.frames(3)
        before = app.state.messages[0].text
        assert app.driver.shows("lesson.go_on")
        app.driver.click("lesson.go_on")
        app.driver.wait("the answer", lambda s: s.messages and not s.busy)
        text = app.state.messages[0].text
        assert text.startswith(before) and len(text) > len(before)
        assert traced(app) and app.state.lesson.step == 0


def test_stations_of_the_overview_lead_to_their_steps(tiny):
    with lesson(tiny, "abc def") as app:
        app.program.do(GoToStep(len(lesson_page(app.state).steps) - 1))
        app.driver.frames(3)
        assert lesson_page(app.state).step_name == "summary"
        stations = [name for name in app.ui.rects if name.startswith("lesson.station.norm")]
        app.driver.click(stations[0])
        assert lesson_page(app.state).step_name == "norm"


def test_a_page_that_does_not_fit_is_scrolled_and_the_way_on_stays(tiny):
    """The picture keeps its least size; it stands below the words where the page is narrow."""
    with lesson(tiny, "abc def") as app:
        app.driver.frames(2)
        left, top, _, _ = app.ui.rects["lesson.picture"]
        assert left > 400 and top < 200, "beside the words"
        imgui.get_io().display_size = imgui.ImVec2(700, 400)
        app.driver.frames(4)
        left, top, right, bottom = app.ui.rects["lesson.picture"]
        assert right - left > 400 and bottom - top > 250
        assert left < 100 and bottom > 400, "below the words, and it is scrolled"
        for name in ("lesson.next", "lesson.back", "lesson.close", "lesson.step.0"):
            x0, y0, x1, y1 = app.ui.rects[name]
            assert 0 <= x0 < x1 <= 700 and 0 <= y0 < y1 <= 400, name
        app.driver.click("lesson.next")
        assert app.state.lesson.step == 1


def test_with_the_largest_text_the_page_does_not_scroll_sideways(tiny):
    """The text of the picture shrinks to what the page has room for."""
    with lesson(tiny, "abc def") as app:
        app.program.do(SetFontSize(26.0))
        imgui.get_io().display_size = imgui.ImVec2(900, 600)
        for step in range(len(lesson_page(app.state).steps)):
            app.program.do(GoToStep(step))
            app.driver.frames(4)
            left, _, right, _ = app.ui.rects["lesson.picture"]
            assert app.ui.rail_width <= left and right <= 900
            numbers = [name for name in app.ui.rects if name.startswith("lesson.number.")]
            for name in numbers:
                x0, _, x1, _ = app.ui.rects[name]
                assert left <= x0 and x1 <= right, name
        assert app.ui.theme.text == 26.0, "of everything else it stays"


def test_a_conversation_is_followed_only_when_that_is_chosen(headless):
    """A token that nobody asked for would be shown as if it were the lesson's own."""
    one = headless(AppState())
    engine = ScriptedEngine(0.0)
    one.program.start(engine)
    engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("chat.input")
    one.driver.type("Why is the sky blue?")
    one.driver.press(imgui.Key.enter)
    one.driver.wait("the answer", lambda s: s.messages and not s.busy)
    one.driver.click("rail.lesson")
    one.driver.frames(3)
    assert one.state.lesson.typing and one.driver.shows("lesson.draft")
    assert not [command for command in engine.commands if isinstance(command, FollowToken)]
    one.driver.click("lesson.keep")
    one.driver.wait("the trace", lambda s: lesson_page(s).trace is not None)
    asked = next(c for c in engine.commands if isinstance(c, FollowToken))
    assert one.state.positions[asked.position] == "lue?", "the last word of the question"
    one.program.do(ShowLesson(False))
    one.program.do(ShowLesson(True))
    assert not one.state.lesson.typing, "it goes on where it was"


def test_its_sentence_is_not_kept_until_a_person_goes_on_with_it(headless, tmp_path):
    """But the draft of the conversation before is."""
    one = headless(AppState())
    engine, keeper = ScriptedEngine(0.0), HistoryHost(tmp_path / "history.db", lambda: None)
    one.program.start(engine)
    engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.program.use("history", keeper)
    one.program.do(Send("Why?"))
    one.driver.wait("the answer", lambda s: s.messages and not s.busy and s.history.open)
    before = one.state.history.open
    one.program.do(SetDraft("a draft"))
    one.program.do(RunSentence("Rain falls on the"))
    one.driver.wait("its end", lambda s: len(s.messages) == 2 and not s.busy)
    one.driver.wait("the list", lambda s: len(s.history.rows) == 1)
    assert one.state.is_sentence_only and one.state.history.open is None
    one.program.do(OpenConversation(before))
    one.driver.wait("it", lambda s: s.history.open == before)
    assert one.state.draft == "a draft"
    one.program.do(RunSentence("Rain falls on the"))
    one.driver.wait("its end", lambda s: len(s.messages) == 2 and not s.busy)
    one.program.do(Send("And then?"))
    one.driver.wait("the answer", lambda s: len(s.messages) == 4 and not s.busy)
    assert not one.state.is_sentence_only
    one.driver.wait("the list", lambda s: len(s.history.rows) == 2)
    one.program.do(Regenerate(1))
    one.driver.wait("another version", lambda s: s.messages[1].stop_reason and not s.busy)
    assert one.state.is_sentence_only
    assert keeper.recorder.has(one.state.messages[1].id), "what is kept goes on being kept"
    keeper.end()
    assert keeper.finish(PATIENCE)
