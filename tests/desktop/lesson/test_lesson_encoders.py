"""The lesson on encoders and encoder-decoders: every number that it shows is the reference's."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.engine import Engine
from llm_lite.core.history import ConversationTree
from llm_lite.core.inspect.lesson.collecting import part
from llm_lite.core.messages import ModelLoaded, TokenFollowed
from llm_lite.core.messages.inspecting.lesson import DenseShape, FollowToken, Pooled
from llm_lite.core.questions.tracing import traced
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.model import ENCODED, SIMILARITIES, ChooseEncoding
from llm_lite.desktop.features.lesson.formulas import _pooling
from llm_lite.desktop.features.lesson.model import (
    TRACE,
    CompareWith,
    GoToStep,
    ShowLesson,
    lesson_page,
    question,
)
from llm_lite.desktop.features.lesson.scene import ShownNumbers
from llm_lite.desktop.features.lesson.state import LessonState
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.model import OpenModel
from llm_lite.desktop.features.program.state import AppState, Message
from tests.core.inspect.lesson.test_encoders import encoder_case, encoding, translating
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.encoding import as_encoder
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.translating import as_translator
from tests.desktop.headless import READY, Headless
from tests.desktop.lesson_expected import Expected, compare
from tests.encoder_checks import started
from tests.fixtures.seq2seq import marian, t5
from tests.lesson_reference import whole_encoder, whole_target
from tests.runners import exact
from tests.seq2seq_checks import write_case as write_pair

BESIDE = "the cat sat on 12"
ATTENDING = ("queries", "scores", "softmax", "values", "output")


@contextmanager
def showing(trace):
    """The page of the lesson with a trace, as the engine gives it."""
    count = trace.position + 1
    state = replace(READY, tree=ConversationTree((Message("user", "text"),)), less_motion=True)
    known = LessonState(shown=True, position=trace.position, compared_text=BESIDE)
    state = with_cached(replace(state, lesson=known), trace.texts or ("a",) * count)
    app = Headless(with_answer(state, TRACE, question(state), TokenFollowed(trace)))
    try:
        yield app
    finally:
        app.close()


def compare_all(app, expected):
    """Every number of every step, inside its picture."""
    for step, name in enumerate(lesson_page(app.state).steps):
        app.program.do(GoToStep(step))
        app.driver.frames(3)
        assert lesson_page(app.state).step_name == name
        expected.lesson = lesson_page(app.state)
        found = dict(app.ui.local(ShownNumbers).texts)
        assert found, name
        left, top, right, bottom = app.ui.rects["lesson.picture"]
        for number, text in found.items():
            compare(number, text, expected)
            x0, y0, x1, y1 = app.ui.rects["lesson.number." + ".".join(map(str, number))]
            assert left <= x0 and x1 <= right and top <= y0 and y1 <= bottom, (name, number)
        assert 500 < imgui.get_draw_data().total_vtx_count < 20_000


@pytest.mark.parametrize(("family", "case"), [("bert", "masked"), ("roberta", "masked")])
def test_an_encoder_with_a_masked_token_head(family, case, tmp_path):
    path, tokens = encoder_case(family, case, tmp_path)
    with encoding(path, tokens) as runner:
        trace = traced(runner, FollowToken(6, 1, 1))
    with showing(trace) as app:
        assert lesson_page(app.state).steps == (
            "tokens", "position", *ATTENDING, "norm", "neurons", "residual", "filling",
        )  # fmt: skip
        whole = whole_encoder(path, tuple(tokens))
        compare_all(app, Expected(path, lesson_page(app.state), tokens, whole=whole))


def test_an_encoder_of_sentences(tmp_path):
    path, tokens = encoder_case("bert", "mean", tmp_path)
    with encoding(path, tokens) as runner:
        trace = traced(runner, FollowToken(6, 0, 0, beside=BESIDE))
        other = runner.embed([BESIDE])[0]
    with showing(trace) as app:
        assert lesson_page(app.state).steps[-1] == "pooling"
        whole = whole_encoder(path, tuple(tokens))
        expected = Expected(path, lesson_page(app.state), tokens, whole=whole, beside=other)
        compare_all(app, expected)
        assert app.ui.local(ShownNumbers).texts.keys() >= {("similarity",), ("vector", 0)}


@pytest.mark.parametrize(
    ("family", "case"), [(t5.FAMILY, "plain"), (t5.FAMILY, "gated"), (marian.FAMILY, "plain")]
)
def test_an_encoder_decoder(family, case, tmp_path):
    with translating(family, case, tmp_path) as (runner, path, source, target):
        trace = traced(runner, FollowToken(len(target) - 1, 1, 1))
    with showing(trace) as app:
        steps = lesson_page(app.state).steps
        before, behind = (("norm",), ()) if family is t5.FAMILY else (("position",), ("norm",))
        attending = ATTENDING
        if family is t5.FAMILY:
            attending = (*ATTENDING[:2], "position", *ATTENDING[2:])
        last = ("cross", "neurons", "residual", "choosing", "cache")
        assert steps == ("source", "tokens", *before, *attending, *behind, *last)
        whole = whole_target(path, source, target)
        compare_all(app, Expected(path, lesson_page(app.state), target, whole=whole, source=source))


def test_the_formula_of_a_texts_vector_has_every_step():
    """Pooling, a dense layer with tanh, the division by the length, and the cosine of unit
    vectors."""
    how = Pooled(("cls", "mean"), (), 7, True, part(np.ones(31, np.float32)), 5.6)
    plain = replace(how, names=("mean",), normalized=False)
    mean = r"\frac{1}{7} \sum_{j=1}^{7} x_j"
    whole = (r"\cos = \frac{e \cdot e'}{|e| \, |e'|}",)
    assert _pooling(SimpleNamespace(pooled=plain)) == (f"e = {mean}", *whole)
    layer = DenseShape(31, 96, is_tanh=True, has_bias=True)
    assert _pooling(SimpleNamespace(pooled=replace(how, dense=(layer,)))) == (
        f"e = [x_1, {mean}]",
        r"e \leftarrow \tanh(W e + b)",
        r"W: 31 \times 96",
        r"e \leftarrow \frac{e}{|e|}",
        r"\cos = e \cdot e'",
    )


@pytest.mark.parametrize("case", ["masked", "mean"])
def test_the_window_follows_a_token_of_an_encoders_text(case, tmp_path):
    """With the real engine: a sentence, a token of it, another text."""
    path, _ = encoder_case("bert", case, tmp_path)
    app = Headless(AppState(options=exact("cpu"), less_motion=True))
    try:
        app.program.start(Engine(None, lambda: None))
        app.program.do(OpenModel(str(path)))
        app.driver.wait("the model", lambda s: s.model is not None and s.load is None)
        app.program.do(ShowLesson(True))
        app.driver.wait("the example", lambda s: lesson_page(s).trace is not None)
        app.driver.click("lesson.own")
        app.driver.frames(2)
        app.driver.click("lesson.draft")
        app.driver.type("the cat sat on")
        app.driver.click("lesson.run")
        app.driver.wait("the trace", lambda s: lesson_page(s).trace and not TRACE.waiting(s))
        trace = lesson_page(app.state).trace
        assert lesson_page(app.state).token_texts[trace.position] == "on"
        app.driver.frames(2)
        app.driver.click(f"lesson.token.{trace.position - 2}")
        app.program.do(CompareWith(BESIDE))
        position = trace.position - 2
        app.driver.wait("the other", lambda s: is_traced(s, position))
        tokens = app.program.engine.attention().tokens()
        runner = started(path, "numpy")
        beside = runner.embed([BESIDE])[0]
        runner.close()
        whole = whole_encoder(path, tokens)
        expected = Expected(path, lesson_page(app.state), tokens, whole=whole, beside=beside)
        compare_all(app, expected)
        assert lesson_page(app.state).step_name == ("filling" if case == "masked" else "pooling")
    finally:
        app.close()


@pytest.mark.parametrize(("family", "case"), [(t5.FAMILY, "plain"), (marian.FAMILY, "plain")])
def test_the_window_follows_a_token_of_a_target(family, case, tmp_path):
    """With the real engine: an example, a source of one's own, a token of its target, and the
    way from a share of attention to its map."""
    path = write_pair(family, case, tmp_path)
    app = Headless(AppState(options=exact("cpu", context=24), less_motion=True))
    try:
        app.program.start(Engine(None, lambda: None))
        app.program.do(OpenModel(str(path)))
        app.driver.wait("the model", lambda s: s.model is not None and s.load is None)
        app.program.do(ShowLesson(True))
        app.driver.frames(2)
        app.driver.click("lesson.example.0")
        app.driver.wait("the example", lambda s: lesson_page(s).trace and not TRACE.waiting(s))
        first = app.state.translating.result
        app.driver.click("lesson.own")
        app.driver.frames(2)
        app.driver.click("lesson.draft")
        app.driver.type("Is it late?")
        app.driver.click("lesson.run")
        app.driver.wait(
            "the other target",
            lambda s: (
                s.translating.result not in (None, first) and lesson_page(s).trace is not None
            ),
        )
        assert app.state.translating.asked == "Is it late?"
        app.driver.wait("the trace", lambda s: lesson_page(s).trace and not TRACE.waiting(s))
        app.driver.frames(2)
        position = lesson_page(app.state).trace.position - 1
        app.driver.click(f"lesson.token.{position}")
        app.driver.wait("the token", lambda s: followed_there(s, position))
        source, target = (app.program.engine.attention(p).tokens() for p in ("encoder", "decoder"))
        assert len(target) == app.state.context_used == len(app.state.translating.tokens)
        whole = whole_target(path, source, target)
        compare_all(
            app,
            Expected(path, lesson_page(app.state), target, 24, whole=whole, source=source),
        )
        check_way_to_a_map(app)
    finally:
        app.close()


def test_of_pairs_the_first_sentence_is_followed_and_the_second_compared(tmp_path):
    """As the table of Pairs has it: each sentence by itself."""
    path, _ = encoder_case("bert", "mean", tmp_path)
    app = Headless(AppState(options=exact("cpu"), less_motion=True))
    try:
        app.program.start(Engine(None, lambda: None))
        app.program.do(OpenModel(str(path)))
        app.driver.wait("the model", lambda s: s.model is not None and s.load is None)
        sentences = ("the cat sat", "a dog", "it was late")
        choice = replace(app.state.encoding, mode="pairs", sentences=sentences, pair=(1, 2))
        app.program.do(ChooseEncoding(choice))
        app.driver.wait("the table", lambda s: SIMILARITIES.answer(s) and ENCODED.answer(s))
        assert any(token.segment for token in ENCODED.answer(app.state).tokens), "both together"
        app.program.do(ShowLesson(True))
        app.driver.wait("the trace", lambda s: lesson_page(s).trace and not TRACE.waiting(s))
        lesson = lesson_page(app.state)
        assert "".join(lesson.token_texts[1:-1]).replace("##", "") == "adog"
        app.program.do(GoToStep(len(lesson.steps) - 1))
        app.driver.frames(2)
        table = SIMILARITIES.answer(app.state).similarities
        assert lesson.trace.pooled.similarity == pytest.approx(table[1][2], abs=1e-6)
        assert app.state.encoding.sentences == sentences
        assert "sentence 2 by itself" in app.state.notices[-1].text
    finally:
        app.close()


@pytest.mark.parametrize(
    ("model", "last", "count"),
    [
        (as_encoder(MODEL, mask_token=""), ("pooling",), 11),
        (as_translator(MODEL), ("choosing", "cache"), 14),
    ],
)
def test_steps_are_the_models_own_before_there_is_a_trace(model, last, count):
    state = apply(ModelLoaded(model, EXECUTOR, 0.1), READY, 0.0)
    steps = lesson_page(state).steps
    assert steps[-len(last) :] == last and len(steps) == count
    app = Headless(replace(state, lesson=replace(state.lesson, shown=True, typing=True)))
    try:
        app.driver.frames(2)
        shown = [name for name in app.ui.rects if name.startswith("lesson.step.")]
        assert len(shown) == count
    finally:
        app.close()


def followed_there(state, position):
    trace = lesson_page(state).trace
    return trace and TRACE.waiting(state) is None and trace.position == position


def check_way_to_a_map(app):
    """Of the source for cross-attention, and of the target before."""
    steps = lesson_page(app.state).steps
    for name, of in (("cross", "cross"), ("softmax", "decoder")):
        app.program.do(ShowLesson(True))
        app.program.do(GoToStep(steps.index(name)))
        app.driver.frames(2)
        app.driver.click("lesson.source")
        trace, choice = lesson_page(app.state).trace, app.state.attention
        assert not app.state.lesson.shown and choice.part == of
        assert choice.row == trace.position and (trace.layer, trace.head) in choice.locked


def is_traced(state, position):
    known = TRACE.answered(state)
    asked = known is not None and known.question.beside == BESIDE
    return asked and TRACE.waiting(state) is None and known.answer.trace.position == position


def test_another_text_is_asked_for():
    state, _ = act(CompareWith("  a text "), READY, 0.0)
    assert state.lesson.compared_text == "a text"
    lesson = replace(state.lesson, shown=True)
    state = replace(state, tree=ConversationTree((Message("user", "a"),)), lesson=lesson)
    state = with_cached(state, ("a",))
    assert question(state).beside == "a text"
