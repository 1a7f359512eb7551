"""The lesson walked through on real models: every number that it shows is the reference's."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import Generate, ModelLoaded
from llm_lite.core.messages.inspecting.lesson import TEMPERATURES
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.chat.model import Regenerate, Send, SetSystemPrompt
from llm_lite.desktop.features.lesson.animation import Animation
from llm_lite.desktop.features.lesson.formulas import formula
from llm_lite.desktop.features.lesson.model import (
    TRACE,
    DrawAgain,
    FollowPosition,
    GoToStep,
    OpenLayer,
    RunSentence,
    SetLessonSampling,
    ShowLesson,
    ShowScaled,
    ShowWhy,
    lesson_page,
)
from llm_lite.desktop.features.lesson.numbers import angle, token_shares
from llm_lite.desktop.features.lesson.scene import ShownNumbers
from llm_lite.desktop.features.lesson.state import STEPS
from llm_lite.desktop.features.lesson.step_texts import explanation, texts_of
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.model import OpenModel, SetLanguage, SetSwitch
from llm_lite.desktop.features.program.state import AppState, Counted
from llm_lite.desktop.language.catalogues import catalogue
from llm_lite.desktop.language.translate import tr, use
from tests.desktop.headless import Headless
from tests.desktop.lesson_expected import Expected, compare
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import exact

SENTENCE = "The capital of France is"
MOST_VERTICES, MOST_NUMBERS = 20_000, 160  # of a frame


@contextmanager
def lesson(path, sentence, **options):
    """The real interface and engine, at the first step of the lesson."""
    state = AppState(options=exact("cpu", **options), less_motion=True)
    app = Headless(state)
    try:
        app.program.start(Engine(None, lambda: None))
        app.program.do(OpenModel(str(path)))
        app.driver.wait("the model", lambda s: s.model is not None and s.load is None)
        app.program.do(ShowLesson(True))
        app.program.do(RunSentence(sentence))
        app.driver.wait("the answer", lambda s: s.messages and not s.busy)
        traced(app)
        yield app
    finally:
        app.close()


@pytest.fixture
def tiny(tmp_path):
    return write_case(family_of("llama"), next(iter(family_of("llama").cases)), tmp_path)


def traced(app):
    app.driver.frames(2)
    app.driver.wait(
        "the trace", lambda s: lesson_page(s).trace is not None and not TRACE.waiting(s)
    )
    app.driver.frames(2)
    return lesson_page(app.state).trace


def shown(app):
    return dict(app.ui.local(ShownNumbers).texts)


def walk(app, path, context=0):
    """All steps; how many numbers were compared."""
    traced(app)
    return compare_all(app, expected_of(app, path, context))


def expected_of(app, path, context=0):
    tokens = app.program.engine.attention().tokens()
    return Expected(path, lesson_page(app.state), tokens, context)


def compare_all(app, expected):
    """Every number of every step; how many."""
    count = 0
    for step, name in enumerate(lesson_page(app.state).steps):
        app.program.do(GoToStep(step))
        app.driver.frames(3)
        expected.lesson = lesson_page(app.state)
        assert lesson_page(app.state).step_name == name
        found = shown(app)
        assert found, name
        for number, text in found.items():
            compare(number, text, expected)
        count += len(found)
    return count


def test_every_number_on_smollm2_is_the_references(smollm2):
    with lesson(smollm2, SENTENCE) as app:
        assert [app.state.positions[p] for p, _ in lesson_page(app.state).trace.tokens] == [
            "The", " capital", " of", " France", " is",
        ]  # fmt: skip
        assert walk(app, smollm2) > 150
        check_angles_and_shares(app, expected_of(app, smollm2))
        app.program.do(OpenLayer(29, 8))
        app.program.do(FollowPosition(3))
        app.program.do(SetLessonSampling(1.3, 0.6))
        app.program.do(DrawAgain())
        app.program.do(ShowScaled(False))
        assert walk(app, smollm2) > 140


def check_angles_and_shares(app, expected):
    """All pairs, and all temperatures that the slider has."""
    trace = lesson_page(app.state).trace
    for pair in range(32):
        apart = abs(angle(trace.opened.head, pair, trace) - expected.angle(pair))
        assert min(apart, 360 - apart) < 0.05
    ids = [token.id for token in trace.distribution.top]
    for temperature in TEMPERATURES:
        found = np.array(token_shares(trace.distribution, temperature))
        assert np.abs(found - expected.ref.probabilities(temperature)[ids]).max() < 1e-4


@pytest.mark.parametrize("family", ["gemma2", "gpt2", "qwen3"])
def test_every_number_on_other_architectures_is_the_references(family, tmp_path):
    known = family_of(family)
    case = next(iter(known.cases))
    path, context = write_case(known, case, tmp_path), known.context.get(case, 0)
    with lesson(path, "abc def", context=context) as app:
        app.program.do(OpenLayer(1, 1))
        assert walk(app, path, context) > 60
        assert bool(lesson_page(app.state).trace.place) == (family == "gpt2")


def test_both_languages_say_every_step(smollm2):
    with lesson(smollm2, SENTENCE) as app:
        known = lesson_page(app.state)
        try:
            use(catalogue("ko"))
            for shape in shapes_like(known.trace.shape):
                found = replace(known, trace=replace(known.trace, shape=shape))
                for step, name in enumerate(found.steps):
                    words = texts_of(name, shape)
                    for text in filter(
                        None, (words.title, words.explanation, words.why, words.legend)
                    ):
                        assert len(text) > 4 and re.search("[가-힣]", tr(text)), text
                    assert explanation(found.at_step(step), found.trace)
                    assert formula(found.at_step(step)) or name in ("pooling", "cross", "summary")
        finally:
            use(catalogue("en"))
        for language in ("ko", "en"):
            app.program.do(SetLanguage(language))
            app.program.do(ShowWhy(language == "ko"))
            walk_drawn(app)


def shapes_like(shape):
    """Of models that differ in what the lesson says."""
    yield shape
    yield replace(shape, positions="learned", norm="layer", gate="none")
    yield replace(shape, positions="none", norm="none")
    yield replace(shape, positions="bias")
    encoder = replace(shape, path="encoder", positions="learned", norm="layer", norm_behind=True)
    yield replace(encoder, segments=2, embedding_norm=True)
    yield replace(encoder, has_head=False)
    pair = replace(shape, path="encoder_decoder", positions="bias", scale=1.0, beams=4)
    yield pair
    yield replace(pair, positions="sines", norm="layer", norm_behind=True, curve="relu")


def walk_drawn(app):
    """Every step draws something, within its budget and its frame."""
    size = imgui.get_io().display_size
    for step in range(len(lesson_page(app.state).steps)):
        app.program.do(GoToStep(step))
        app.driver.frames(3)
        vertices = imgui.get_draw_data().total_vtx_count
        assert 1_000 < vertices < MOST_VERTICES, (lesson_page(app.state).step_name, vertices)
        assert len(shown(app)) <= MOST_NUMBERS
        left, top, right, bottom = app.ui.rects["lesson.picture"]
        for name, rect in app.ui.rects.items():
            if name.startswith("lesson.number."):
                inside = left <= rect[0] and rect[2] <= right and top <= rect[1]
                assert inside and rect[3] <= bottom, (
                    lesson_page(app.state).step_name,
                    name,
                    rect,
                )
        assert right <= size.x and bottom <= size.y


def test_the_picture_moves_by_the_clock_and_can_be_held(tiny):
    with lesson(tiny, "abc def") as app:
        moves = app.ui.local(Animation)
        assert moves.at == 1.0 and not moves.playing  # less motion: the end at once
        app.program.do(SetSwitch("less_motion", False))
        app.program.do(GoToStep(1))
        app.driver.frames(1)
        assert moves.playing and moves.at < 0.5
        assert app.ui.redraw_at <= app.ui.now  # the next frame follows at once
        app.driver.frames(2)
        before = moves.at
        app.driver.press(imgui.Key.space)
        held = moves.at
        assert held >= before and not moves.playing
        app.driver.frames(3)
        assert moves.at == held
        app.driver.press(imgui.Key.space)
        assert moves.playing


def test_the_cell_under_the_pointer_is_told(tiny):
    with lesson(tiny, "abc def") as app:
        trace = lesson_page(app.state).trace
        x0, y0, x1, y1 = app.ui.rects["lesson.strip.row"]
        count = min(64, len(trace.row.values))
        for index in (0, 17, count - 1):
            app.driver.point_at(x0 + (index + 0.5) * (x1 - x0) / count, (y0 + y1) / 2)
            told = shown(app)[("row", index)]
            assert float(told.replace("−", "-")) == round(trace.row.values[index], 3)


def test_a_sentence_is_read_as_it_is_and_the_settings_stay(tiny):
    with lesson(tiny, "abc def") as app:
        before = app.state.sampling, app.state.system_prompt
        told = replace(app.state, system_prompt="Be kind.")
        after, commands = act(RunSentence("  ghi jkl "), told, 0.0)
        generate = commands[-1]
        assert isinstance(generate, Generate) and generate.raw
        assert after.running.asked is generate
        assert [message.content for message in generate.messages] == ["ghi jkl"]
        assert generate.sampling.max_new_tokens < 10
        assert (after.sampling, after.system_prompt) == (before[0], "Be kind.")
        assert after.chat == told.chat + 1  # the conversation that was there is kept
        assert lesson_page(after).trace is None and after.lesson.step == 0


def test_all_that_is_asked_of_a_sentence_is_without_a_template(tiny):
    """Its tokens are counted, read and answered again as they are, until it goes on as a chat."""
    with lesson(tiny, "abc def") as app:
        app.program.do(SetSystemPrompt("Be kind."))
        app.program.do(RunSentence("ghi jkl"))
        app.driver.wait("the answer", lambda s: not s.busy and s.context_used, pace=0)
        tokens = app.program.engine.attention().tokens()
        state = replace(app.state, count=Counted())
        _, (count,) = due(state)
        _, (read,) = act(ReadAgain(), state, 0.0)
        _, (again,) = act(Regenerate(1), state, 0.0)
        assert count.raw and read.raw and again.raw
        assert [m.role for m in (*count.messages, *again.messages)] == ["user", "assistant", "user"]
        app.program.do(ReadAgain())
        app.driver.wait("the reading", lambda s: s.reading is None, pace=0)
        whole = app.program.engine.attention().tokens()
        assert whole[: len(tokens)] == tokens
        app.program.state = replace(app.state, count=Counted())
        app.driver.wait("the count", lambda s: s.counted.tokens, pace=0)
        assert app.state.counted.tokens == len(whole)
        _, (chat,) = act(Send("more"), app.state, 0.0)
        assert not chat.raw
        assert [m.role for m in chat.messages] == ["system", "user", "assistant", "user"]


def test_another_model_forgets_the_trace(tiny):
    with lesson(tiny, "abc def") as app:
        app.program.do(GoToStep(4))
        loaded = ModelLoaded(app.state.model, app.state.executor, 0.1)
        state = apply(loaded, app.state, 0.0)
        assert lesson_page(state).trace is None and state.lesson.step == 4 and state.lesson.shown


def test_a_person_can_choose_token_layer_and_head_in_the_page(tiny):
    with lesson(tiny, "abc def") as app:
        first = lesson_page(app.state).trace
        app.driver.click(f"lesson.token.{first.position - 1}")
        trace = traced(app)
        assert trace.position == first.position - 1
        app.program.do(GoToStep(STEPS.index("queries")))
        app.driver.frames(3)
        other = (trace.head + 1) % trace.shape.heads
        app.driver.click(f"lesson.open.{other}")
        assert traced(app).head == other
        app.program.do(GoToStep(STEPS.index("residual")))
        app.driver.frames(3)
        x0, y0, _, y1 = app.ui.rects["lesson.picture"]
        app.driver.point_at(x0 + 30, (y0 + y1) / 2)
        app.driver.press_button(0)
        assert traced(app).layer == 0


def test_there_is_a_way_in_without_a_conversation(tiny):
    with lesson(tiny, "abc def") as app:
        app.driver.click("lesson.own")
        app.driver.frames(3)
        app.driver.click("lesson.draft")
        app.driver.type("xyz")
        app.driver.click("lesson.run")
        app.driver.wait("the answer", lambda s: not s.busy and s.messages[0].text == "xyz")
        assert "".join(app.state.positions[p] for p, _ in traced(app).tokens).endswith("xyz")


def test_arrows_step_and_escape_leaves(tiny):
    with lesson(tiny, "abc def") as app:
        app.driver.leave()
        app.driver.press(imgui.Key.right_arrow)
        app.driver.press(imgui.Key.right_arrow)
        assert app.state.lesson.step == 2
        app.driver.press(imgui.Key.left_arrow)
        assert app.state.lesson.step == 1
        app.driver.press(imgui.Key.escape)
        assert not app.state.lesson.shown and app.state.lesson.step == 1
