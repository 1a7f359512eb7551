"""The lesson of a model some of whose layers have a recurrent state."""

import pytest

from llm_lite.core.messages import FollowToken
from llm_lite.core.records import replace
from llm_lite.desktop.features.lesson.formulas import formula
from llm_lite.desktop.features.lesson.model import opened_layer
from llm_lite.desktop.features.lesson.state import LessonPage
from llm_lite.desktop.features.lesson.step_texts import (
    DECODER,
    GATED_OUTPUT,
    RECURRENT,
    explanation,
    texts_of,
)
from llm_lite.desktop.features.program.state import AppState
from tests.desktop.engine.lesson import SHAPE, trace
from tests.desktop.engine.model import MODEL

RECURRENT_MODEL = replace(MODEL, layers=8, recurrent_layers=(0, 1, 2, 4, 5, 6))
RECURRENT_SHAPE = replace(SHAPE, output_gate=True, state_layers=6, state_values=123456)


@pytest.mark.parametrize(
    ("chosen", "opened"), [(None, 7), (0, 3), (3, 3), (4, 3), (6, 7), (7, 7), (99, 7)]
)
def test_only_layers_that_attend_are_opened(chosen, opened):
    state = AppState(model=RECURRENT_MODEL)
    state = replace(state, lesson=replace(state.lesson, layer=chosen))
    assert opened_layer(state) == opened
    assert opened_layer(AppState()) == 0


def test_texts_tell_of_states_and_of_gates():
    for name in RECURRENT:
        assert texts_of(name, RECURRENT_SHAPE) is RECURRENT[name] is not texts_of(name, SHAPE)
    assert texts_of("output", RECURRENT_SHAPE) is GATED_OUTPUT
    assert texts_of("output", SHAPE) is DECODER["output"]
    followed = replace(trace(FollowToken(4, 3, 0)), shape=RECURRENT_SHAPE)
    lesson = LessonPage().with_trace(followed, ())
    cache, output = (replace(lesson, step=lesson.steps.index(one)) for one in ("cache", "output"))
    assert "The 6 others have a state instead of a cache: 123,456" in explanation(cache, followed)
    assert r"g \odot" in formula(output)[0]
    plain = replace(output, trace=replace(followed, shape=SHAPE))
    assert r"\odot" not in formula(plain)[0]
