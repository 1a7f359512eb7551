"""A client of a server switches the weight mode while others are answered."""

import threading

import pytest

from llm_lite.core.errors import DoesNotFitError, FileError, RequestError
from llm_lite.core.loading import loader
from llm_lite.core.messages import (
    ExecutorChanged,
    Generate,
    GenerationFinished,
    LoadNeedsMemory,
    LoadStarted,
    ServingChanged,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.core.serving import drafts
from tests.children import PATIENCE
from tests.core.engine_client import GREEDY, HELLO
from tests.core.serving.clients import Asked, serve
from tests.core.serving.test_scheduling import LONG
from tests.runners import exact


class Making:
    """Runners are made when a test lets them: `begun` is set when one is on its way."""

    def __init__(self, monkeypatch):
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.problem, start = None, loader.start

        def slow(file, options, device, progress, **more):
            progress("converting weights", 0.3)
            self.begun.set()
            assert self.go_on.wait(PATIENCE)
            progress("converting weights", 0.6)
            if self.problem is not None and options.mode in ("int4", "int8"):
                raise self.problem
            return start(file, options, device, progress, **more)

        monkeypatch.setattr(loader, "start", slow)


@pytest.fixture
def served(client, served_model):
    client.load(served_model, exact(context=384))
    return serve(client, parallel=2)


@pytest.fixture
def making(served, monkeypatch):
    return Making(monkeypatch)


def test_answers_go_on_in_the_new_mode(client, hook, served):
    alone = Asked(served, tokens=(5, 6), sampling=LONG).tokens()
    reached = hook.block_step(len(hook.steps) + 20)
    asked = Asked(served, tokens=(7, 5, 6), sampling=LONG)
    assert reached.wait(PATIENCE)
    served.modes.request("int8", "a8")
    hook.heard = True
    changed = client.until(ExecutorChanged)
    assert (changed.executor.mode, changed.executor.activations) == ("int8", "a8")
    assert changed.options.context == 384, "all else stays"
    assert len(asked.tokens()) == len(alone)
    assert asked.finished().stop_reason in ("length", "end")
    assert (served.options.mode, served.executor.mode) == ("int8", "int8")
    last = served.modes.last
    assert (last.phase, last.mode, last.number) == ("done", "int8", 1)


def test_who_asks_while_the_executor_is_replaced_is_answered(client, served, monkeypatch):
    asked, make = [], drafts.Batch
    assert len(Asked(served, tokens=(5, 6)).tokens()) == 12
    done = served.status()

    def slow(*arguments):
        assert client.engine.service() is served
        now = served.status()
        assert (now.steps, now.step_seconds) == (done.steps, done.step_seconds), "counted once"
        asked.append(Asked(served, tokens=(5, 6)))
        return make(*arguments)

    monkeypatch.setattr(drafts, "Batch", slow)
    served.modes.request("int8", "auto")
    client.until(ServingChanged)
    assert len(asked[0].tokens()) == 12
    assert served.executor.mode == "int8"


def test_it_tells_how_far_it_is_and_is_one_at_a_time(client, served, making):
    served.modes.request("int8", "auto")
    assert making.begun.wait(PATIENCE)
    assert client.until(LoadStarted).mode == "int8"
    last = served.modes.last
    assert (last.phase, last.stage, last.fraction) == ("preparing", "converting weights", 0.3)
    with pytest.raises(RequestError, match="switched to int8"):
        served.modes.request("fp16", "auto")
    assert len(Asked(served, tokens=(5, 6)).tokens()) == 12, "meanwhile clients are answered"
    making.go_on.set()
    client.until(ServingChanged)
    assert served.modes.last.phase == "done"
    served.modes.request("fp16", "auto")
    client.until(ServingChanged)
    assert (served.executor.mode, served.modes.last.number) == ("fp16", 2)


@pytest.mark.parametrize("who", ["the client", "the window"])
def test_it_is_cancelled(client, served, making, who):
    before = served.executor
    served.modes.request("int8", "auto")
    assert making.begun.wait(PATIENCE)
    if who == "the client":
        served.modes.cancel()
    else:
        client.cancel_loads()
    making.go_on.set()
    assert client.failed_load().unwanted
    assert served.modes.last.phase == "cancelled"
    assert served.executor == before
    assert len(Asked(served, tokens=(5, 6)).tokens()) == 12


def test_a_mode_that_does_not_fit_is_a_sentence_and_no_question(client, served, making):
    sentence = "int8 weights need 9 GiB: mode int4 fits"
    making.problem = DoesNotFitError(sentence, None, ())
    making.go_on.set()
    served.modes.request("int8", "auto")
    assert client.failed_load().problem == sentence
    assert (served.modes.last.phase, served.modes.last.problem) == ("failed", sentence)
    assert not client.of(LoadNeedsMemory)
    client.until(ServingChanged)  # the mode before is there again
    assert len(Asked(served, tokens=(5, 6)).tokens()) == 12


def test_clients_hear_of_no_path(client, served, making):
    making.problem = FileError("/home/somebody/model.gguf", "it has changed")
    making.go_on.set()
    served.modes.request("int8", "auto")
    assert "somebody" in client.failed_load().problem
    assert served.modes.last.problem == "it has changed"


def test_the_answer_of_the_window_goes_on_too(client, served, making):
    long = replace(GREEDY, max_new_tokens=60)
    client.send(Generate(HELLO, long))
    client.until(TokenDecoded)
    making.go_on.set()
    served.modes.request("int8", "auto")
    client.until(ExecutorChanged)
    finished = client.of(GenerationFinished) or [client.until(GenerationFinished)]
    assert finished[0].stats.new_tokens == 60
