"""Answers, one after another and read without one, through the engine."""

import threading
import time

import pytest

from llm_lite.core.errors import CancelledError
from llm_lite.core.messages import (
    CacheStatus,
    Cancel,
    ChatMessage,
    ConversationRead,
    Generate,
    GenerationFinished,
    Logged,
    PrefillProgress,
    Read,
    Reconfigure,
    TokenDecoded,
)
from llm_lite.core.records import replace
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.runners import exact


def test_a_second_turn_reuses_the_first(client, tiny_llama):
    client.load(tiny_llama)
    first, tokens = client.ask()
    text = "".join(e.text for e in client.of(TokenDecoded))
    turns = (*HELLO, ChatMessage("assistant", text, tuple(tokens)), ChatMessage("user", "And?"))
    second, _ = client.ask(turns)
    assert first.stats.reused_tokens == 0
    assert second.stats.reused_tokens == first.stats.context_used


def test_continue_goes_on_where_it_ended(client, tiny_llama):
    client.load(tiny_llama)
    _, whole = client.ask()
    half = replace(GREEDY, max_new_tokens=5)
    _, first = client.ask(sampling=half)
    turns = (*HELLO, ChatMessage("assistant", "any", tuple(first)))
    rest = replace(GREEDY, max_new_tokens=7)
    _, second = client.ask(turns, rest, continue_last=True)
    assert first + second == whole


def test_another_branch_is_read_without_an_answer(client, tiny_llama):
    client.load(tiny_llama)
    _, tokens = client.ask()
    text = "".join(e.text for e in client.of(TokenDecoded))
    client.ask((ChatMessage("user", "Something else entirely"),))
    branch = (*HELLO, ChatMessage("assistant", text, tuple(tokens)))
    read = client.send(Read(branch))
    done = read.result(PATIENCE)
    client.take()
    assert client.of(ConversationRead, read) == [done]
    assert [t.id for t in done.prompt if t.message == 1] == list(tokens)
    assert client.of(PrefillProgress, read)[-1] is client.of(PrefillProgress)[-1]
    assert client.engine.attention().tokens() == tuple(t.id for t in done.prompt)
    finished, _ = client.ask((*branch, ChatMessage("user", "And?")))
    assert finished.stats.reused_tokens == len(done.prompt), "a question finds it in the cache"


def test_what_is_read_afresh_has_all_its_queries(client, tiny_llama):
    client.load(tiny_llama)
    _, tokens = client.ask()
    first = client.of(TokenDecoded)[0]
    assert first.ttft_ms == client.of(GenerationFinished)[0].stats.ttft_ms > 0
    assert [e.ttft_ms for e in client.of(TokenDecoded)[1:]] == [0.0] * (len(tokens) - 1)
    client.ask((ChatMessage("user", "Something else entirely"),))
    branch = (*HELLO, ChatMessage("assistant", "", tuple(tokens)))
    for afresh in (False, True):
        client.send(Read(branch, afresh=afresh))
        client.until(ConversationRead)
        client.until(CacheStatus)
    reused = client.of(CacheStatus)[-1].reused
    source = client.engine.attention()
    assert (reused, source.rows) == (0, range(source.length))


def test_reading_that_is_cancelled_ends_for_an_answer(client, tiny_llama, hook):
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
    read = client.send(Read(HELLO))
    assert begun.wait(PATIENCE)
    client.send(Cancel(read.command))
    finished, _ = client.ask()
    (done,) = client.of(ConversationRead)
    assert done.prompt == () and done.total > 1 and client.end_of(read) == ""
    assert finished.stop_reason == "length"


def test_what_cannot_be_read_is_a_sentence(client, tiny_llama):
    assert "no model is loaded" in client.end_of(client.send(Read(HELLO)))
    client.load(tiny_llama, exact(context=8))
    read = client.send(Read((ChatMessage("user", "so much to say " * 5),)))
    assert "the context holds 8" in client.end_of(read)
    assert not client.of(ConversationRead)


def test_raw_prompts_and_a_full_context(client, tiny_llama):
    client.load(tiny_llama, exact(context=16))
    turns = (ChatMessage("user", "on the"),)
    finished, tokens = client.ask(turns, replace(GREEDY, max_new_tokens=99), raw=True)
    assert finished.stop_reason == "context"
    assert "16 tokens is full" in finished.message
    assert len(tokens) == 16 - finished.stats.prompt_tokens + 1
    problem = client.refusal((ChatMessage("user", "xyz" * 9),), raw=True)
    assert "27 tokens, but the context holds 16" in problem
    assert not client.of(TokenDecoded, client.handles[-1])


@pytest.mark.parametrize(("step", "expected"), [(1, 0), (4, 3)])
def test_stop_while_it_prefills_and_decodes(client, tiny_llama, hook, step, expected):
    client.load(tiny_llama)
    whole = client.ask()[1]
    hook.steps.clear()
    reached = hook.block_step(step)
    answer = client.send(Reconfigure(exact()), Generate(HELLO, GREEDY))  # with an empty cache
    assert reached.wait(PATIENCE)
    client.send(Cancel(answer.command))
    finished = client.until(GenerationFinished)
    assert hook.heard, "the step was asked to stop"
    assert client.of(GenerationFinished, answer) == [finished]
    assert (finished.stop_reason, finished.message) == ("stopped", "")
    assert finished.stats.new_tokens == expected
    assert client.ask()[1] == whole, "what was stopped left nothing behind"


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
    problem = client.refusal()
    assert "logits of token" in problem and "not finite numbers" in problem
    assert not client.of(TokenDecoded)
