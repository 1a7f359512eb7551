"""Answers, one after another and read without one, through the engine."""

import threading
import time

import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.messages import (
    CacheStatus,
    ChatMessage,
    ConversationRead,
    Generate,
    GenerationFinished,
    Logged,
    PrefillProgress,
    Read,
    Reconfigure,
    Stop,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.runners import exact


def test_a_second_turn_reuses_the_first(client, tiny_llama):
    client.load(tiny_llama)
    first, tokens = client.ask(1)
    text = "".join(e.text for e in client.of(TokenDecoded))
    turns = (*HELLO, ChatMessage("assistant", text, tuple(tokens)), ChatMessage("user", "And?"))
    second, _ = client.ask(2, turns)
    assert first.stats.reused_tokens == 0
    assert second.stats.reused_tokens == first.stats.context_used


def test_continue_goes_on_where_it_ended(client, tiny_llama):
    client.load(tiny_llama)
    _, whole = client.ask(1)
    half = replace(GREEDY, max_new_tokens=5)
    _, first = client.ask(2, sampling=half)
    turns = (*HELLO, ChatMessage("assistant", "any", tuple(first)))
    rest = replace(GREEDY, max_new_tokens=7)
    _, second = client.ask(3, turns, rest, continue_last=True)
    assert first + second == whole


def test_another_branch_is_read_without_an_answer(client, tiny_llama):
    client.load(tiny_llama)
    _, tokens = client.ask(1)
    client.ask(2, (ChatMessage("user", "Something else entirely"),))
    text = "".join(e.text for e in client.of(TokenDecoded) if e.request == 1)
    branch = (*HELLO, ChatMessage("assistant", text, tuple(tokens)))
    client.send(Read(3, branch))
    done = client.until(ConversationRead)
    assert (done.request, done.message) == (3, "")
    assert [t.id for t in done.prompt if t.message == 1] == list(tokens)
    assert client.of(PrefillProgress)[-1].request == 3
    assert client.engine.attention().tokens() == tuple(t.id for t in done.prompt)
    finished, _ = client.ask(4, (*branch, ChatMessage("user", "And?")))
    assert finished.stats.reused_tokens == len(done.prompt), "a question finds it in the cache"


def test_what_is_read_afresh_has_all_its_queries(client, tiny_llama):
    client.load(tiny_llama)
    _, tokens = client.ask(1)
    first = client.of(TokenDecoded)[0]
    assert first.ttft_ms == client.of(GenerationFinished)[0].stats.ttft_ms > 0
    assert [e.ttft_ms for e in client.of(TokenDecoded)[1:]] == [0.0] * (len(tokens) - 1)
    client.ask(2, (ChatMessage("user", "Something else entirely"),))
    branch = (*HELLO, ChatMessage("assistant", "", tuple(tokens)))
    for request, afresh in ((3, False), (4, True)):
        client.send(Read(request, branch, afresh=afresh))
        client.until(ConversationRead)
        client.until(CacheStatus)
    reused = client.of(CacheStatus)[-1].reused
    source = client.engine.attention()
    assert (reused, source.rows) == (0, range(source.length))


def test_reading_ends_for_an_answer_and_for_stop(client, tiny_llama, hook):
    client.load(tiny_llama)
    begun = threading.Event()

    def slowly(step, stop):
        begun.set()
        deadline = time.monotonic() + PATIENCE
        while not stop() and time.monotonic() < deadline:
            time.sleep(0.002)
        hook.at_step = lambda step, stop: None
        raise CancelledError("stopped")

    hook.at_step = slowly
    client.send(Read(1, HELLO))
    assert begun.wait(PATIENCE)
    client.send(Stop())
    finished, _ = client.ask(2)
    (done,) = client.of(ConversationRead)
    assert (done.prompt, done.message) == ((), "")
    assert finished.stop_reason == "length"


def test_what_cannot_be_read_is_a_sentence(client, tiny_llama):
    client.send(Read(1, HELLO))
    assert "no model is loaded" in client.until(ConversationRead).message
    client.load(tiny_llama, exact(context=8))
    client.send(Read(2, (ChatMessage("user", "so much to say " * 5),)))
    assert "the context holds 8" in client.until(ConversationRead).message


def test_raw_prompts_and_a_full_context(client, tiny_llama):
    client.load(tiny_llama, exact(context=16))
    turns = (ChatMessage("user", "on the"),)
    finished, tokens = client.ask(1, turns, replace(GREEDY, max_new_tokens=99), raw=True)
    assert finished.stop_reason == "context"
    assert "16 tokens is full" in finished.message
    assert len(tokens) == 16 - finished.stats.prompt_tokens + 1
    finished, tokens = client.ask(2, (ChatMessage("user", "xyz" * 9),), raw=True)
    assert (finished.stop_reason, tokens) == ("error", [])
    assert "27 tokens, but the context holds 16" in finished.message


@pytest.mark.parametrize(("step", "expected"), [(1, 0), (4, 3)])
def test_stop_while_it_prefills_and_decodes(client, tiny_llama, hook, step, expected):
    client.load(tiny_llama)
    whole = client.ask(1)[1]
    hook.steps.clear()
    reached = hook.block_step(step)
    client.send(Reconfigure(exact()), Generate(2, HELLO, GREEDY))  # with an empty cache
    assert reached.wait(PATIENCE)
    client.send(Stop())
    finished = client.until(GenerationFinished)
    assert hook.heard, "the step was asked to stop"
    assert (finished.request, finished.stop_reason, finished.message) == (2, "stopped", "")
    assert finished.stats.new_tokens == expected
    assert client.ask(3)[1] == whole, "what was stopped left nothing behind"


def test_no_second_gigantic_answer_from_nonsense_weights(client, tmp_path):
    """NaN weights: warned of when they are loaded, a sentence when they are used."""
    import numpy as np

    from tests.make_gguf import TinyLlama, build_gguf, llama_metadata, llama_tensors, quantized

    size = TinyLlama(layers=1)
    bad = np.ones(size.width, np.float32)
    bad[3] = np.nan
    tensors = llama_tensors(size) | {"output_norm.weight": quantized("f32", bad)}
    path = tmp_path / "nan.gguf"
    path.write_bytes(build_gguf(llama_metadata(size), tensors))
    client.load(path)
    (warning,) = (e.text for e in client.of(Logged) if e.level == "warning")
    assert str(path) in warning
    assert "output_norm.weight" in warning
    finished, tokens = client.ask()
    assert (finished.stop_reason, tokens) == ("error", [])
    assert "logits of token" in finished.message
    assert "not finite numbers" in finished.message
