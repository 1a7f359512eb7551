"""Who begins to serve, or ends it, changes the executor under the chat, and nothing else of it."""

import numpy as np
import pytest

from llm_lite.core.engine import dispatcher
from llm_lite.core.errors import DeviceLostError, OutOfDeviceMemoryError, RequestError
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import (
    AnalyzeTensors,
    ChatMessage,
    ExecutorChanged,
    LoadModel,
    Reconfigure,
    SamplingOptions,
    ServingChanged,
    SetInterventions,
    StartServing,
    StopServing,
)
from llm_lite.core.plan.step import PAGE
from tests.changes import scales
from tests.children import PATIENCE
from tests.core.engine_client import Hook
from tests.core.serving.clients import Asked, serve
from tests.core.serving.test_served_gains import GAINS
from tests.families import family_of
from tests.family_checks import write_case
from tests.runners import BACKENDS, exact

SHORT = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=8)
STORY = (ChatMessage("user", "Tell me of " + "the sea and " * 40),)


def runner_of(client):
    return client.engine._host.runner


def seen_of(client):
    """What the chat holds: its tokens, from where on queries are kept, gains, and every map."""
    runner = runner_of(client)
    session, source = runner.session, runner.attention
    maps = []
    for layer in range(len(source.layers)):
        weights = np.zeros((2, len(source.rows), len(session.tokens())), np.float32)
        head_maps(source, layer, (0, 1), weights)
        maps.append(weights)
    return session.tokens(), source.rows, session.gains, np.array(maps)


def same(found, known):
    assert found[:3] == known[:3]
    return np.allclose(found[3], known[3], atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_conversation_gains_and_maps_stay(client, device, served_model, backend):
    client.engine.device_lost(device)
    client.load(served_model, exact(backend, speculate="off"))
    client.send(SetInterventions(scales(GAINS[1])))
    client.ask(STORY, SHORT)
    known = seen_of(client)
    serve(client, parallel=2)
    pages = runner_of(client).executor.program.pages
    assert same(seen_of(client), known)
    source = runner_of(client).attention
    if (keys := source.host_keys(0)) is not None:
        assert len(keys) == pages.ringed * PAGE, "what the window copies has no rows of clients"
    serve(client, parallel=5)
    more = runner_of(client).executor.program.pages
    assert more.pages > pages.pages and same(seen_of(client), known)
    assert client.ask(STORY, SHORT)[0].stats.reused_tokens > 60
    client.result(StopServing())
    assert not runner_of(client).has_client_room and same(seen_of(client), known)
    assert client.ask(STORY, SHORT)[0].stats.reused_tokens > 60
    assert not client.of(ExecutorChanged), "nothing that a person chose is another"


def test_each_executor_that_served_is_closed(client, served_model, monkeypatch):
    hook, open_now = Hook(monkeypatch), [0]

    def count(by):
        open_now[0] += by

    hook.at_make = lambda progress: count(1)
    hook.at_close = lambda: count(-1)
    client.load(served_model, exact("numpy"))
    for work in (lambda: serve(client), lambda: serve(client, parallel=2)):
        work()
        assert open_now[0] == 1
    client.send(Reconfigure(exact("numpy", context=256))).result(PATIENCE)
    assert len(Asked(client.engine.service(), tokens=(5, 6)).tokens()) == 12
    client.result(StopServing())
    assert open_now[0] == 1


def test_a_device_lost_while_room_is_made(client, device, served_model, monkeypatch):
    hook = Hook(monkeypatch, "vulkan")
    client.engine.device_lost(device)
    client.load(served_model, exact("vulkan"))
    said = client.ask(STORY, SHORT)[1]

    def lose(progress):
        raise DeviceLostError("the device was lost")

    hook.at_make = lose
    service = serve(client, parallel=2)
    assert client.of(ExecutorChanged) and runner_of(client).choice.backend == "cpu"
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12
    assert client.ask(STORY, SHORT)[1] == said


def test_no_memory_for_clients_leaves_the_chat_alone(client, served_model, monkeypatch):
    hook = Hook(monkeypatch)
    client.load(served_model, exact("numpy"))
    said = client.ask(STORY, SHORT)[1]
    before = runner_of(client)

    def fail(progress):
        raise OutOfDeviceMemoryError("a cache of 9 GiB was refused")

    hook.at_make = fail
    with pytest.raises(AssertionError, match="a cache of 9 GiB was refused"):
        serve(client, parallel=2)
    assert runner_of(client) is before and client.ask(STORY, SHORT)[1] == said


def test_room_of_before_is_freed_where_there_is_none_for_more(client, served_model):
    client.load(served_model, exact())
    serve(client, parallel=2)
    problem = client.end_of(client.send(StartServing(parallel=2, cache_budget=1000)))
    assert "serve with a smaller context" in problem
    assert client.engine.service() is None
    assert not runner_of(client).has_client_room


def test_no_executor_at_all_is_a_sentence(client, device, served_model, monkeypatch):
    hook = Hook(monkeypatch, "vulkan")
    client.engine.device_lost(device)
    client.load(served_model, exact("vulkan"))

    def lose(progress):
        raise DeviceLostError("the device was lost")

    def fail(*_):
        raise RequestError("there is no memory for the C++ executor")

    hook.at_make = lose
    monkeypatch.setattr(client.engine._host, "fall_back", fail)
    problem = client.end_of(client.send(StartServing()))
    assert problem == "there is no memory for the C++ executor"
    hook.at_make = lambda progress: None
    assert len(client.ask(STORY, SHORT)[1]) == 8


def test_another_executor_without_room_ends_serving(client, served_model, monkeypatch):
    hook = Hook(monkeypatch)
    client.load(served_model, exact("numpy"))
    serve(client, parallel=2)
    makes = []

    def fail_the_second(progress):
        makes.append(1)
        if len(makes) == 2:
            raise OutOfDeviceMemoryError("a cache of 9 GiB was refused")

    hook.at_make = fail_the_second
    client.send(Reconfigure(exact("numpy", context=256))).result(PATIENCE)
    changed = client.until(ServingChanged)
    while changed.is_on:
        changed = client.until(ServingChanged)
    assert "a cache of 9 GiB was refused" in changed.problem
    assert len(client.ask(STORY, SHORT)[1]) == 8


def test_no_task_loses_its_executor(client, served_model, monkeypatch):
    """A model that was just loaded gets the room of clients before a task begins with it."""
    client.load(served_model, exact("numpy"))
    service = serve(client, parallel=2)
    runners = []

    def run_task(command, context):
        runners.append(context.runner)
        context.between()
        runners.append(runner_of(client))
        return ""

    monkeypatch.setattr(dispatcher, "run_task", run_task)
    load = LoadModel(str(served_model), exact("numpy", context=256))
    client.send(load, AnalyzeTensors("int8"))
    client.handles[-1].result(PATIENCE)
    assert runners[0] is runners[1] and runners[0].executor.program.pages is not None
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12


def test_keys_that_a_ring_has_lost_are_not_taken_for_held(client, tmp_path):
    """A sliding layer has a longer ring where steps have room for clients."""
    family = family_of("gemma3")
    sizes = {"max_position_embeddings": 1024, "sliding_window": 124}
    path = write_case(family, next(iter(family.cases)), tmp_path, **sizes)
    client.load(path, exact(context=600, pool_budget=0))
    tokens = tuple(n * 7 % 240 + 3 for n in range(500))
    other = (*tokens[:300], *tokens[340:370])
    session = runner_of(client).session
    expected = session.prefill(other)
    session.clear()
    session.prefill(tokens)
    ring = min(layer.rows for layer in session.cache.layers)
    rows = [runner_of(client).attention.rows_of(n) for n in range(2)]
    serve(client, parallel=2)
    session = runner_of(client).session
    assert ring < min(layer.rows for layer in session.cache.layers) < len(tokens)
    assert [runner_of(client).attention.rows_of(n) for n in range(2)] == rows
    assert session.reusable(other) == 0 and session.reusable((*tokens, 5)) == len(tokens)
    np.testing.assert_allclose(session.prefill(other), expected, atol=1e-4)


def test_no_memory_for_a_move_leaves_the_conversation(client, served_model, monkeypatch):
    client.load(served_model, exact())
    said = client.ask(STORY, SHORT)[1]
    session, before = runner_of(client).session, runner_of(client)

    def fail():
        raise MemoryError

    monkeypatch.setattr(session, "copy_prefix", fail)
    problem = client.end_of(client.send(StartServing()))
    assert problem == "there is no memory to move the conversation"
    assert runner_of(client) is before and session.context_used
    assert client.ask(STORY, SHORT)[1] == said


def test_a_host_that_was_left_behind_makes_no_room(client, served_model):
    client.load(served_model, exact())
    serve(client, parallel=2)
    client.engine._host = client.engine._make_host(None)  # as where a load hangs
    client.load(served_model, exact())
    assert client.until(ServingChanged).is_on
    assert len(Asked(client.engine.service(), tokens=(5, 6)).tokens()) == 12
    assert runner_of(client).has_client_room


def test_a_device_lost_before_a_task_costs_it_nothing(client, device, served_model, monkeypatch):
    hook = Hook(monkeypatch, "vulkan")
    client.engine.device_lost(device)
    client.load(served_model, exact("vulkan"))
    service = serve(client, parallel=2)
    begin, reached = client.engine._dispatcher._task, hook.block_step(4)

    def lose(step, should_stop):
        raise DeviceLostError("the device was lost")

    def lose_then_begin(self, handle, command):
        hook.at_step = lose
        begin(handle, command)

    monkeypatch.setattr(dispatcher.Dispatcher, "_task", lose_then_begin)
    asked = Asked(service, tokens=tuple(range(5, 20)), sampling=SHORT)
    assert reached.wait(PATIENCE)
    task = client.send(AnalyzeTensors("int8"))
    hook.heard = True
    assert client.end_of(task) == ""
    assert len(asked.tokens()) == 8 and runner_of(client).choice.backend == "cpu"
