"""Another model or executor while clients are answered; the end of serving, and of the program."""

import threading

import pytest

from llm_lite.core.errors import (
    DeviceLostError,
    FileChangedError,
    GoneError,
    RequestError,
    UnavailableError,
)
from llm_lite.core.messages import (
    ChatMessage,
    CompareRuns,
    ExecutorChanged,
    FollowToken,
    LoadModel,
    ModelLoaded,
    Reconfigure,
    SamplingOptions,
    ServingChanged,
    StopServing,
)
from tests.children import PATIENCE
from tests.core.serving.clients import Asked, is_of_clients, serve
from tests.core.serving.test_scheduling import LONG
from tests.encoder_checks import write_case
from tests.encoder_families import family_of
from tests.make_gguf import write_tiny_llama
from tests.runners import exact


def test_another_model_ends_answers_and_is_served(client, served_model, tmp_path, hook):
    other = write_tiny_llama(tmp_path / "other.gguf", context=256, seed=9)
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    reached = hook.block_step(len(hook.steps) + 5)
    running = Asked(service, tokens=(5, 6), sampling=LONG, response="r")
    waiting = Asked(service, tokens=(5, 7), sampling=LONG)
    assert reached.wait(PATIENCE)
    client.send(LoadModel(str(other), exact()))
    hook.heard = True
    for asked in (running, waiting):
        assert "model was changed" in asked.end().problem
    client.until(ModelLoaded)
    changed = client.until(ServingChanged)
    assert (changed.is_on, changed.status.model) == (True, "Tiny llama 9")
    assert client.engine.service() is service
    assert service.model.name == "Tiny llama 9"
    assert service.status().context == 256
    with pytest.raises(GoneError):
        service.answer_tokens("r")
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12


def test_an_encoder_ends_serving_and_says_why(client, served_model, tmp_path, hook):
    client.load(served_model, exact())
    service = serve(client)
    reached = hook.block_step(len(hook.steps) + 5)
    asked = Asked(service, tokens=(5, 6), sampling=LONG)
    assert reached.wait(PATIENCE)
    path = write_case(family_of("bert"), "several", tmp_path / "encoder")
    client.send(LoadModel(str(path), exact()))
    hook.heard = True
    assert "model was changed" in asked.end().problem
    changed = client.until(ServingChanged)
    assert not changed.is_on and "is an encoder, which writes no text" in changed.problem


def test_another_executor_goes_on_with_the_answers(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    alone = Asked(service, tokens=(5, 6), sampling=LONG).tokens()
    service = serve(client, parallel=2)
    reached = hook.block_step(len(hook.steps) + 20)
    asked = Asked(service, tokens=(5, 6), sampling=LONG)
    assert reached.wait(PATIENCE)
    client.send(Reconfigure(exact(context=384)))
    hook.heard = True
    client.until(ExecutorChanged)
    assert asked.tokens() == alone
    assert service.status().context == 384
    assert service.status().finished == 1


def test_a_shorter_context_ends_what_is_longer(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    reached = hook.block_step(len(hook.steps) + 20)
    asked = Asked(service, tokens=tuple(range(5, 200)), sampling=LONG)
    assert reached.wait(PATIENCE)
    client.send(Reconfigure(exact(context=140)))
    hook.heard = True
    assert asked.finished().stop_reason == "context"
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12


def test_a_lost_device_takes_nothing_along(client, served_model, hook):
    client.load(served_model, exact("numpy"))
    service = serve(client, parallel=2)
    alone = Asked(service, tokens=(5, 6), sampling=LONG).tokens()
    count = len(hook.steps)

    def lose(step, stop):
        if len(hook.steps) == count + 30:
            raise DeviceLostError("the device was lost")

    hook.at_step = lose
    asked = Asked(service, tokens=(9, 5, 6), sampling=LONG)
    again = Asked(service, tokens=(5, 6), sampling=LONG)
    assert {one.finished().stop_reason for one in (asked, again)} <= {"length", "end"}
    assert again.tokens() == alone


def test_a_defect_ends_what_runs_and_no_more(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)

    def fail(step, stop):
        if len(step.segments) == 2:
            hook.at_step = lambda step, stop: None
            raise ZeroDivisionError("of a test")

    hook.at_step = fail
    several = [Asked(service, tokens=(5, n), sampling=LONG) for n in (6, 7)]
    for asked in several:
        assert "ZeroDivisionError" in asked.end().problem
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12
    assert service.status().pages_used == 0


def test_the_end_of_serving_ends_everything(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    reached = hook.block_step(len(hook.steps) + 5)
    several = [Asked(service, tokens=(5, n), sampling=LONG) for n in (6, 7)]
    assert reached.wait(PATIENCE)
    problems = []

    def embed():
        try:
            service.embed([(5, 6)])
        except RequestError as error:
            problems.append(str(error))

    thread = threading.Thread(target=embed)
    client.send(StopServing())
    thread.start()
    hook.heard = True
    for asked in several:
        assert "serving has ended" in asked.end().problem
    thread.join(PATIENCE)
    assert problems in ([], ["serving has ended"])
    assert not client.until(ServingChanged).is_on
    assert client.engine.service() is None
    assert client.ask()[0].stop_reason == "length"


def test_a_file_that_was_touched_is_told_before_an_answer_is_asked_for(client, tmp_path):
    path = write_tiny_llama(tmp_path / "model.gguf", context=256, seed=3)
    client.load(path, exact())
    service = serve(client, parallel=1)
    service.check()
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12
    path.touch()
    with pytest.raises(FileChangedError, match="written again; load the model again"):
        service.check()
    assert "written again" in Asked(service, tokens=(5, 6)).end().problem
    client.load(path, exact())
    assert client.until(ServingChanged).is_on
    service.check()
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12


DOORS = {
    "submit": lambda service: Asked(service, tokens=(5, 6)),
    "embed": lambda service: service.embed([(5, 6)]),
    "tokenize": lambda service: service.tokenize("a"),
    "token_texts": lambda service: service.token_texts([5]),
    "detokenize": lambda service: service.detokenize([5]),
    "prompt_tokens": lambda service: service.prompt_tokens([ChatMessage("user", "a")]),
    "answer_tokens": lambda service: service.answer_tokens("r"),
    "trace": lambda service: service.ask("r", FollowToken(0, 0, 0)).trace,
    "model": lambda service: service.model,
    "executor": lambda service: service.executor,
    "check": lambda service: service.check(),
}


def test_between_two_models_every_door_says_when_to_ask_again(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=1)
    client.send(StopServing())
    assert not client.until(ServingChanged).is_on
    for name, ask in DOORS.items():
        with pytest.raises(UnavailableError) as told:
            ask(service)
        assert told.value.seconds > 0, name


def test_nothing_is_imported_before_somebody_serves():
    import subprocess
    import sys

    code = (
        "import sys; from llm_lite.core.engine.engine import Engine; e = Engine(None); e.close();"
        "print([m for m in sys.modules if 'core.serving' in m])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_clients_are_answered_while_another_executor_is_prepared(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    asked = Asked(service, tokens=(5, 6), sampling=LONG)
    reached, go_on = hook.block_make()
    client.send(Reconfigure(exact(context=384)))
    assert reached.wait(PATIENCE)
    asked.finished()
    go_on.set()
    client.until(ExecutorChanged)
    assert len(Asked(service, tokens=(5, 6)).tokens()) == 12


def test_clients_are_answered_between_the_steps_of_a_comparison(client, served_model, hook):
    client.load(served_model, exact())
    service = serve(client, parallel=2)
    count = len(hook.steps)
    reached = hook.block_step(count + 3)
    sampling = SamplingOptions(temperature=0.0, max_new_tokens=20)
    runs = (exact(), exact(keys="fp16"))
    handle = client.send(CompareRuns((ChatMessage("user", "Hello"),), runs, sampling))
    assert reached.wait(PATIENCE)
    asked = Asked(service, tokens=(5, 6))
    hook.heard = True
    assert client.end_of(handle) == ""
    assert len(asked.tokens()) == 12
    kinds = [is_of_clients(step) for step in hook.steps[count:]]
    assert kinds.index(True) < len(kinds) - 1 - kinds[::-1].index(False), "in turns"
