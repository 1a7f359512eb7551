"""The question before what does not fit is loaded."""

import pytest

from llm_lite.core.messages import (
    Ended,
    EngineOptions,
    LoadModel,
    LoadNeedsMemory,
    Reconfigure,
)
from llm_lite.core.messages.library import Fit, MemoryPart
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.apply import apply
from tests.desktop.headless import sent

OPTIONS = EngineOptions(context=8192)
GB = 10**9


def fit(size, mode="as-stored", context=8192):
    return Fit(mode, context, "cpu", (MemoryPart("weights", size, 0),), 4 * GB, None, None)


ASKED = LoadNeedsMemory(
    "large.gguf",
    OPTIONS,
    False,
    fit(9 * GB),
    (fit(3 * GB, context=2048), fit(2 * GB, mode="int4")),
)


@pytest.fixture
def asked(cache_view):
    def make(event=ASKED):
        one, engine = cache_view(view=(1400, 900))
        command = LoadModel("large.gguf")
        one.program.state = apply(event, replace(one.state, load=None), 0.0, command)
        one.program.state = apply(Ended("it does not fit"), one.state, 0.0, command)
        one.driver.frames(4)
        return one, engine

    return make


def loads(engine):
    return [command for command in sent(engine, LoadModel) if command.source == "large.gguf"]


def test_a_smaller_context_is_one_press(asked):
    one, engine = asked()
    assert one.state.notices == (), "the question says it"
    one.driver.click("memory.other.0")
    (command,) = loads(engine)
    assert command.options == replace(OPTIONS, context=2048)
    assert one.state.options.context == 2048 and one.state.memory_question is None


def test_so_is_a_smaller_mode(asked):
    one, engine = asked()
    one.driver.click("memory.other.1")
    assert [c.options.mode for c in loads(engine)] == ["int4"]


def test_to_load_anyway_is_said_of_this_load_only(asked):
    one, engine = asked()
    one.driver.click("memory.anyway")
    assert [c.options for c in loads(engine)] == [replace(OPTIONS, force=True)]
    assert not one.state.options.force


@pytest.mark.parametrize("others", [ASKED.others, ()])
def test_cancelling_loads_nothing(asked, others):
    one, engine = asked(replace(ASKED, others=others))
    assert one.driver.shows("memory.other.0") == bool(others)
    one.driver.click("memory.cancel")
    one.driver.frames(3)
    assert loads(engine) == [] and one.state.memory_question is None
    assert not one.driver.shows("memory.cancel")


def test_a_change_of_the_model_in_use_is_asked_about_as_well(asked):
    one, engine = asked(replace(ASKED, source=None, in_use=True))
    one.driver.click("memory.other.0")
    assert sent(engine, Reconfigure)[-1].options.context == 2048
