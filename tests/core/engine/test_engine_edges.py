"""Whatever ends a piece of the engine's work is told, and the engine goes on."""

import threading

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.messages import (
    Cancel,
    Generate,
    GenerationFinished,
    LoadModel,
    Logged,
    ModelLoaded,
    Read,
)
from llm_lite.core.text.chat_template import RENDERING, ChatTemplate
from llm_lite.core.text.sandbox.limits import Limits
from tests.core.engine.test_handles import stuck_load
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.runners import exact

ENDLESS = (
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    "{{ messages[0].content }}"
)


class PanicError(BaseException):
    """As native libraries throw them."""


@pytest.mark.parametrize("error", [PanicError("a panic"), ValueError("a defect"), SystemExit(3)])
def test_a_load_that_throws_is_told_and_the_old_model_stays(client, tiny_llama, monkeypatch, error):
    client.load(tiny_llama)
    _, before = client.ask()

    def broken(*_, **__):
        raise error

    monkeypatch.setattr(loader, "open_model", broken)
    client.send(LoadModel(str(tiny_llama), exact()))
    message = client.failed_load().problem
    assert message == f"an internal error ({type(error).__name__}); the log has the details"
    assert client.ask()[1] == before


@pytest.mark.parametrize("error", [PanicError("a panic"), ValueError("a defect")])
def test_an_answer_that_throws_leaves_nothing_behind(client, tiny_llama, hook, error):
    client.load(tiny_llama)
    _, before = client.ask()

    def broken(step, stop):
        if len(hook.steps) == 20:
            raise error

    hook.at_step = broken
    with pytest.raises(RequestError, match="internal error"):
        while True:
            client.ask()
    assert client.ask()[1] == before
    assert any("Traceback" in e.text for e in client.of(Logged))


def test_memory_that_is_not_there_is_a_sentence(client, tiny_llama, hook):
    client.load(tiny_llama)

    def starve(step, stop):
        raise MemoryError

    hook.at_step = starve
    assert "there is not enough memory" in client.refusal()
    hook.at_step = lambda step, stop: None
    assert client.ask()[0].stop_reason == "length"


def test_a_load_that_never_ends_can_be_cancelled(client, tiny_llama, monkeypatch):
    client.load(tiny_llama)
    _, before = client.ask()
    reached, go_on, ended = stuck_load(monkeypatch)
    client.send(LoadModel(str(tiny_llama), exact()))
    assert reached.wait(PATIENCE)
    client.cancel_loads()
    failed = client.failed_load()
    assert failed.unwanted
    assert client.ask()[1] == before, "the model that was there answers"
    count = len(client.of(ModelLoaded))
    go_on.set()
    assert ended.wait(PATIENCE)
    assert client.ask()[1] == before, "what came too late changes nothing"
    assert len(client.of(ModelLoaded)) == count
    assert len(client.failed_loads()) == 1
    client.load(tiny_llama)
    assert client.ask()[1] == before


def _slow(monkeypatch):
    monkeypatch.setattr(
        "llm_lite.core.text.chat_template.RENDERING", Limits(600.0, 600.0, RENDERING.memory_bytes)
    )
    rendering = threading.Event()
    call = ChatTemplate._call_sandbox

    def noted(self, *arguments, **options):
        rendering.set()
        return call(self, *arguments, **options)

    monkeypatch.setattr(ChatTemplate, "_call_sandbox", noted)
    return rendering


def _with_template(client, source, monkeypatch):
    """The template of the model that is loaded is another from now on."""
    runner = client.engine._host.runner
    monkeypatch.setattr(runner.model_file.template, "source", source)


def test_an_answer_whose_template_runs_on_can_be_stopped(client, tiny_llama, monkeypatch):
    client.load(tiny_llama)
    _with_template(client, ENDLESS, monkeypatch)
    rendering = _slow(monkeypatch)
    answer = client.send(Generate(HELLO, GREEDY))
    assert rendering.wait(PATIENCE)
    client.send(Cancel(answer.command))
    finished = client.until(GenerationFinished)
    assert (finished.stop_reason, finished.message) == ("stopped", "")


def test_an_engine_whose_template_runs_on_closes(client, tiny_llama, monkeypatch):
    client.load(tiny_llama)
    _with_template(client, ENDLESS, monkeypatch)
    rendering = _slow(monkeypatch)
    client.send(Read(HELLO))
    assert rendering.wait(PATIENCE)
    assert client.engine.close(timeout=PATIENCE)


def test_a_template_that_oversteps_is_a_sentence_and_the_engine_goes_on(
    client, tiny_llama, monkeypatch
):
    client.load(tiny_llama)
    with monkeypatch.context() as patched:
        _with_template(client, ENDLESS, patched)
        assert "the chat template fails: it takes more than" in client.refusal()
    assert client.ask()[0].stop_reason == "length"


def test_files_of_a_model_that_went_are_checked_no_more(client, tiny_llama):
    client.load(tiny_llama)
    before = client.engine._host._verification
    client.load(tiny_llama)
    assert client.engine._host._verification is not before


def test_what_the_system_refuses_between_two_commands_is_told(client, tiny_llama, monkeypatch):
    client.load(tiny_llama)

    def refused(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(client.engine._step_requests, "serve", refused)
    assert "No space left" in client.refusal()
    while not any("No space left" in e.text for e in client.of(Logged)):
        client.until(Logged)


def test_the_model_that_is_coming_has_its_name(client, tiny_llama, monkeypatch):
    """From its header on; nothing is coming once it is there, or has failed."""
    assert client.engine.coming() == ""
    seen, start = [], loader.start

    def watched(*arguments, **more):
        seen.append(client.engine.coming())
        return start(*arguments, **more)

    monkeypatch.setattr("llm_lite.core.loading.encoder_starting.loader.start", watched)
    loaded = client.load(tiny_llama)
    assert seen == [loaded.model.name]
    assert client.engine.coming() == ""
    client.send(LoadModel("no such file", exact()))
    client.failed_load()
    assert client.engine.coming() == ""
