"""The lesson on encoders and encoder-decoders: every number that it shows is the reference's."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.lesson.following import followed
from llm_lite.core.messages.lesson import FollowToken
from llm_lite.desktop.actions.act import act
from llm_lite.desktop.actions.lesson.following import CompareWith, GoToStep
from llm_lite.desktop.actions.lesson.sentence import wanted_key
from llm_lite.desktop.state.lesson.lesson_state import LessonState
from llm_lite.desktop.state.state import Message
from llm_lite.desktop.views.lesson.scene import SHOWN
from tests.core.inspect.lesson.test_encoders import encoder_case, encoding, translating
from tests.desktop.headless import READY, Headless
from tests.desktop.lesson_expected import Expected, compare
from tests.fixtures.seq2seq import marian, t5
from tests.lesson_reference import whole_encoder, whole_target

BESIDE = "the cat sat on 12"
ATTENDING = ("queries", "scores", "softmax", "values", "output")


@contextmanager
def showing(trace):
    """The page of the lesson with a trace, as the engine gives it."""
    count = trace.position + 1
    state = replace(
        READY, messages=(Message("user", "text"),), context_used=count, positions=("a",) * count,
        owners=(0,) * count, less_motion=True,
    )  # fmt: skip
    known = LessonState(shown=True, position=trace.position, beside=BESIDE)
    known = known.with_trace(trace, trace.texts)
    state = replace(state, lesson=known)
    app = Headless(replace(state, lesson=replace(known, key=wanted_key(state))))
    try:
        yield app
    finally:
        app.close()


def compare_all(app, expected):
    """Every number of every step, inside its picture."""
    for step, name in enumerate(app.state.lesson.steps):
        app.program.do(GoToStep(step))
        app.driver.frames(3)
        assert app.state.lesson.name == name
        expected.lesson = app.state.lesson
        found = dict(app.ui.memory[SHOWN])
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
        trace = followed(runner, FollowToken(1, 6, 1, 1))
    with showing(trace) as app:
        assert app.state.lesson.steps == (
            "tokens", "position", *ATTENDING, "norm", "neurons", "residual", "filling",
        )  # fmt: skip
        whole = whole_encoder(path, tuple(tokens))
        compare_all(app, Expected(path, app.state.lesson, tokens, whole=whole))


def test_an_encoder_of_sentences(tmp_path):
    path, tokens = encoder_case("bert", "mean", tmp_path)
    with encoding(path, tokens) as runner:
        trace = followed(runner, FollowToken(1, 6, 0, 0, beside=BESIDE))
        other = runner.embed([BESIDE])[0]
    with showing(trace) as app:
        assert app.state.lesson.steps[-1] == "pooling"
        whole = whole_encoder(path, tuple(tokens))
        expected = Expected(path, app.state.lesson, tokens, whole=whole, beside=other)
        compare_all(app, expected)
        assert app.ui.memory[SHOWN].keys() >= {("similarity",), ("vector", 0)}


@pytest.mark.parametrize(
    ("family", "case"), [(t5.FAMILY, "plain"), (t5.FAMILY, "gated"), (marian.FAMILY, "plain")]
)
def test_an_encoder_decoder(family, case, tmp_path):
    with translating(family, case, tmp_path) as (runner, path, source, target):
        trace = followed(runner, FollowToken(1, len(target) - 1, 1, 1))
    with showing(trace) as app:
        steps = app.state.lesson.steps
        before, behind = (("norm",), ()) if family is t5.FAMILY else (("position",), ("norm",))
        attending = ATTENDING
        if family is t5.FAMILY:
            attending = (*ATTENDING[:2], "position", *ATTENDING[2:])
        last = ("cross", "neurons", "residual", "choosing", "cache")
        assert steps == ("source", "tokens", *before, *attending, *behind, *last)
        whole = whole_target(path, source, target)
        compare_all(app, Expected(path, app.state.lesson, target, whole=whole, source=source))


def test_another_text_is_asked_for():
    state, _ = act(CompareWith("  a text "), READY, 0.0)
    assert state.lesson.beside == "a text"
    lesson = replace(state.lesson, shown=True)
    state = replace(
        state, messages=(Message("user", "a"),), context_used=1, positions=("a",), owners=(0,),
        lesson=lesson,
    )  # fmt: skip
    assert wanted_key(state).beside == "a text"
