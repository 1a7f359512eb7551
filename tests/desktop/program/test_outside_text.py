"""Whatever a file, a model or an engine says, every view draws it."""

from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from imgui_bundle import imgui

from llm_lite.core.messages import Logged, ModelLoaded, OtherTarget, TargetFinished, TokenDecoded
from llm_lite.core.messages.interventions import Interventions, Replace, Scale, Shift
from llm_lite.core.messages.runs import AnswerRun
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.model import ENCODED, SIMILARITIES
from llm_lite.desktop.features.encoder.state import EncodingMode
from llm_lite.desktop.features.layouts.state import Layouts
from llm_lite.desktop.features.program import status_bar
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.asking import NOTHING
from llm_lite.desktop.features.program.guard import Failed, attempt
from llm_lite.desktop.features.program.rail import PANELS
from llm_lite.desktop.features.program.state import AppState, Load
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.features.tokenizer.state import Stage
from llm_lite.desktop.language import incoming
from llm_lite.desktop.language.incoming import LOG_LINE, NAME, TOKEN, fit_to_show
from tests.desktop.cached import with_answer
from tests.desktop.engine.encoding import as_encoder
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.headless import READY
from tests.desktop.program.outside_text import after, sample_reports, told
from tests.tiers import thorough

BAD = "a\udcff\ud83d\x1b[2J\x00\n\u202eb"
PAGES = ("modes", "report", "tensors", "step")


@pytest.fixture(scope="module")
def reports():
    return sample_reports()


def looks(state):
    """The state as each page and mode of a view shows it."""
    held, pages = state.quantization, []
    for page in PAGES:
        choices = replace(held.choices, page=page)
        pages.append(replace(state, quantization=replace(held, choices=choices)))
    return (
        *pages,
        replace(state, xray=replace(state.xray, shown=True, at=3)),
        *(
            replace(state, tokenizer=replace(state.tokenizer, stage=stage))
            for stage in get_args(Stage)
        ),
        *(as_page(state, mode) for mode in get_args(EncodingMode)),
        replace(state, layouts=Layouts("compare"), load=Load(state.recent[0])),
    )


def as_page(state, mode):
    """With an encoder, whatever it answered, on one of its pages."""
    model, choice = (
        as_encoder(state.model),
        replace(state.encoding, mode=mode, sentences=("a", "b")),
    )
    page = replace(state, model=model, encoding=choice, xray=state.xray.fit(model))
    for slot in (ENCODED, SIMILARITIES):
        if (known := state.asks.get(slot, NOTHING).answered) is not None:
            page = with_answer(page, slot, known.question, known.answer)
    return page


def draw_everything(one, state):
    """All views and panels in one frame, each in a window of its own, with nothing that would
    catch what they raise."""
    imgui.new_frame()
    for part in (*VIEWS, *PANELS, status_bar):
        name = getattr(part, "name", "status")
        imgui.set_next_window_size((900, 1400))
        imgui.begin(f"{name}###all.{name}")
        part.draw(state, one.ui)
        imgui.end()
    one.program.interface._draw_notices(20.0, state, one.ui)
    imgui.render()


def test_every_kind_of_event_with_text_that_cannot_be_encoded(headless, reports):
    one = headless()
    state = after(told(reports, lambda: BAD), READY)
    assert state.model.path == BAD, "to open it by"
    assert "\\udcff" in repr(state.recent[0])
    for look in looks(state):
        draw_everything(one, look)


def test_without_the_door_the_same_text_is_no_utf_8(headless, reports, monkeypatch):
    monkeypatch.setattr("llm_lite.desktop.features.program.apply.fit_to_show", lambda event: event)
    monkeypatch.setattr("llm_lite.desktop.features.program.notices.fit_line", lambda text: text)
    state = after(told(reports, lambda: BAD), READY)
    one = headless()
    imgui.new_frame()
    imgui.begin("all")
    found = attempt(lambda: VIEWS[0].draw(state, one.ui))
    imgui.end()
    imgui.render()
    assert isinstance(found, Failed) and isinstance(found.error, UnicodeError | TypeError)


@pytest.mark.parametrize("examples", [8, thorough(25)])
def test_every_string_of_every_event(headless, reports, examples):
    one = headless()
    words = st.text(st.characters(), max_size=12) | st.sampled_from(
        ["", "##", "###", "%s%n", "\ud800" * 3, "{", "a\tb", "```\n", "|a|", BAD, "x" * 3000]
    )

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(words, min_size=1, max_size=8))
    def all_is_drawn(few):
        state = after(told(reports, Turn(few)), READY)
        for look in looks(state):
            draw_everything(one, look)

    all_is_drawn()


class Turn:
    """One text after the other, over and over."""

    def __init__(self, words):
        self.words, self.at = words, 0

    def __call__(self):
        self.at += 1
        return self.words[self.at % len(self.words)]


def test_text_of_a_megabyte_is_bounded_when_it_enters():
    huge = "x" * (1 << 20)
    model = replace(MODEL, name=huge, architecture=huge, stored_formats={huge: 1})
    state = apply(ModelLoaded(model, replace(EXECUTOR, reason=huge), 1.0), AppState(), 0.0)
    assert len(state.model.name) <= NAME
    assert all(len(key) <= 2000 for key in state.model.stored_formats)
    state = apply(Logged("error", f"/{huge}: no such file", 0.0), state, 0.0)
    assert len(state.log[-1].text) <= LOG_LINE
    assert state.log[-1].text.endswith(": no such file"), "its middle is left out"
    token = fit_to_show(TokenDecoded(3, huge, 0.5, 4))
    assert len(token.text) <= TOKEN


def test_a_long_target_stays_whole():
    """It is copied as text; what is drawn of it is its tokens."""
    text = "ein Wort\n" * 1000
    told = fit_to_show(TargetFinished(text=text, others=(OtherTarget(text, -1.0),)))
    assert told.text == text and told.others[0].text == text


def test_what_is_fit_stays_the_same_object(reports):
    for report in reports:
        assert fit_to_show(report.event) is report.event


def test_a_name_of_a_megabyte_does_not_hold_up_frames(headless, reports):
    """By what is measured, not by time: no text that Dear ImGui is given is longer than this."""
    one, longest = headless(), 0
    state = after(told(reports, lambda: "x" * (1 << 20)), READY)
    real = imgui.calc_text_size

    def measured(text, *rest, **named):
        nonlocal longest
        longest = max(longest, len(text))
        return real(text, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imgui, "calc_text_size", measured)
        for look in looks(state):
            draw_everything(one, look)
    assert longest <= 3 * incoming.LOG_LINE


def test_records_of_several_kinds_are_made_fit_each():
    changes = (Scale(BAD, 1.0), Shift("logits", (1.0,)), Replace(BAD, (), ()))
    shown = fit_to_show(AnswerRun(interventions=Interventions(changes)))
    names = [change.site for change in shown.interventions.changes]
    assert names[1] == "logits" and all(name.isprintable() for name in names)
    assert shown.interventions.changes[1] is changes[1]
    fit = fit_to_show(shown)
    assert fit is shown
