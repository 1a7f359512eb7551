"""A load that does not fit is refused before weights are read, with what would fit."""

import pytest

from llm_lite.core.errors import DoesNotFitError
from llm_lite.core.hub.fit import machine
from llm_lite.core.hub.fit.recommend import total
from llm_lite.core.loading import loader
from llm_lite.core.messages import (
    EngineOptions,
    ExecutorChanged,
    LoadModel,
    LoadNeedsMemory,
    ModelLoaded,
    Reconfigure,
)
from tests.runners import exact, running

MIB = 1 << 20


@pytest.fixture
def free(monkeypatch):
    """free(bytes): what the system says from now on."""

    def say(size):
        monkeypatch.setattr(machine, "available_bytes", lambda: size)

    return say


def refused(model, options):
    with pytest.raises(DoesNotFitError) as raised, running(model, options):
        pass
    return raised.value


def test_smaller_modes_and_contexts_are_named(smollm2, free):
    def ask(size, **changes):
        free(size * MIB)
        return refused(smollm2, EngineOptions(backend="cpu", **changes))

    both = ask(700, mode="fp32")
    assert [(fit.mode, fit.context) for fit in both.others][1] == ("as-stored", 8192)
    assert both.others[0].mode == "fp32" and 512 <= both.others[0].context < 8192
    assert all(fit.fits for fit in both.others) and not both.fit.fits
    assert str(both).endswith(f": {both.fit.instead}") and "would fit" in both.fit.instead
    assert "fp32 weights and a context of 8192 tokens need" in str(both)
    least = ask(260, mode="fp32")
    assert [fit.mode for fit in least.others] == ["int4"]
    assert least.others[0].context < 8192
    nothing = ask(60)
    assert nothing.others == () and "take a smaller model" in str(nothing)


def test_what_is_offered_can_be_loaded(smollm2, free):
    free(300 * MIB)
    offered = refused(smollm2, EngineOptions(backend="cpu", mode="fp16")).others[0]
    assert total(offered) < 300 * MIB
    options = EngineOptions(backend="cpu", mode=offered.mode, context=offered.context)
    with running(smollm2, options) as runner:
        assert runner.session.context == offered.context


def test_no_weight_is_touched_before(tiny_llama, free, monkeypatch):
    free(MIB)
    monkeypatch.setattr(loader, "converted", lambda *_: pytest.fail("weights were converted"))
    refused(tiny_llama, exact("cpu"))


def test_one_can_insist(tiny_llama, free):
    free(MIB)
    with running(tiny_llama, exact("cpu", force=True)) as runner:
        assert runner.session.context == 128


def test_the_engine_asks_and_keeps_the_model(client, tiny_llama, free):
    client.load(tiny_llama)
    free(MIB)
    client.send(LoadModel(str(tiny_llama), exact("cpu")))
    asked = client.until(LoadNeedsMemory)
    assert (asked.source, asked.options, asked.in_use) == (str(tiny_llama), exact("cpu"), False)
    assert not asked.fit.fits
    assert "need" in client.failed_load().problem
    assert client.ask()[0].stop_reason == "length", "with the model before"
    client.send(LoadModel(str(tiny_llama), exact("cpu", force=True)))
    client.until(ModelLoaded)


def test_a_change_that_does_not_fit_is_asked_about_too(client, tiny_llama, free):
    client.load(tiny_llama)
    free(MIB)
    client.send(Reconfigure(exact(context=100)))
    asked = client.until(LoadNeedsMemory)
    assert (asked.options, asked.in_use) == (exact(context=100), True)
    client.failed_load()
    assert client.ask()[0].stop_reason == "length", "as it was before"
    client.send(Reconfigure(exact(context=100, force=True)))
    assert client.until(ExecutorChanged).model.context == 100
