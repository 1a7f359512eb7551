"""Two runs: what they answer, how far they are apart, and that the chat's cache survives."""

import math

import numpy as np
import pytest

from llm_lite.core.engine.comparison import same
from llm_lite.core.messages import (
    Cancel,
    ChatMessage,
    CommandProgress,
    CompareRuns,
    Generate,
    GenerationFinished,
    GenerationStarted,
    RunFinished,
    RunReady,
    RunsForced,
    RunToken,
)
from llm_lite.core.records import replace
from tests.core.engine_client import GREEDY, HELLO
from tests.runners import BACKENDS, exact, running

OTHER = (ChatMessage("user", "Something else"),)


def compare(client, a, b, sampling=GREEDY, messages=HELLO):
    before = len(client.events)
    handle = client.send(CompareRuns(messages, (a, b), sampling))
    problem = client.end_of(handle)
    events = client.events[before:]
    tokens = [
        [e.token for e in events if isinstance(e, RunToken) and e.run == run] for run in (0, 1)
    ]
    forced = [f for e in events if isinstance(e, RunsForced) for f in e.tokens]
    return problem, tokens, forced, events


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_runs_say_the_same_and_do_not_diverge(client, tiny_llama, device, backend):
    client.engine.device_lost(device)
    client.load(tiny_llama)
    alone = client.ask()[1]
    problem, (a, b), forced, events = compare(client, exact(), exact(backend))
    assert problem == "" and a == b == alone
    assert len(forced) == len(a)
    assert all(0 <= f.kl < 1e-8 for f in forced)
    for f in forced:
        assert f.probabilities[0] == pytest.approx(f.probabilities[1], abs=1e-4)
        assert f.alternatives[0][0].probability == f.probabilities[0], "greedy: the likeliest"
        assert len(f.alternatives[0]) == len(f.alternatives[1]) == 5
    ready = {e.run: e for e in events if isinstance(e, RunReady)}
    assert ready[0].shared and not ready[1].shared
    assert ready[1].executor.backend == backend and ready[0].weight_bytes > 0
    assert ready[0].cache_bytes == ready[1].cache_bytes > 0, "of a token, whoever has the cache"
    told = [e.stats for e in events if isinstance(e, RunFinished)]
    assert all(s.new_tokens == 12 and s.decode_tok_s > 0 and s.ttft_ms > 0 for s in told)


def test_divergence_is_that_of_a_fresh_computation(client, tiny_llama):
    """Of A's text, whatever B said itself."""
    client.load(tiny_llama)
    _, (a, b), forced, events = compare(client, exact(mode="fp16"), exact(mode="int4"))
    assert a != b, "the two must part, or this test shows nothing"
    client.send(Generate(HELLO, GREEDY))
    prompt = [t.id for t in client.until(GenerationStarted).prompt]
    client.until(GenerationFinished)
    rows = []
    for mode in ("fp16", "int4"):
        with running(tiny_llama, exact(mode=mode), every_output=True) as runner:
            logits = runner.session.logits([*prompt, *a[:-1]])[len(prompt) - 1 :].astype(float)
        rows.append(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
    p, q = rows
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    np.testing.assert_allclose([f.kl for f in forced], kl, rtol=1e-3, atol=1e-7)
    index = np.arange(len(a))
    for found, row in ((0, p), (1, q)):
        chosen = [f.probabilities[found] for f in forced]
        np.testing.assert_allclose(chosen, np.exp(row[index, a]), rtol=1e-3)
        best = [f.alternatives[found][0].token for f in forced]
        assert best == row.argmax(axis=1).tolist()
    runs = [e.run for e in events if isinstance(e, RunToken)]
    assert runs[:6] == [0, 1, 0, 1, 0, 1], "a token of each in turn"


def test_one_seed_for_both(client, tiny_llama):
    client.load(tiny_llama)
    warm = replace(GREEDY, temperature=1.0)
    _, (a, b), *_ = compare(client, exact(), exact(), warm)
    assert a == b
    _, (c, _), *_ = compare(client, exact(), exact(), replace(warm, seed=99))
    assert c != a


def test_the_chat_finds_its_cache_again(client, tiny_llama):
    client.load(tiny_llama)
    client.ask()
    _, _, _, events = compare(client, exact(), exact(mode="fp16"), messages=OTHER)
    assert any(e.shared for e in events if isinstance(e, RunReady))
    client.send(Generate(HELLO, GREEDY))
    started = client.until(GenerationStarted)
    assert started.reused_tokens == started.prompt_tokens - 1
    client.until(GenerationFinished)


def test_stop_keeps_what_was_said_and_compares_it(client, tiny_llama):
    client.load(tiny_llama)
    long = replace(GREEDY, max_new_tokens=100)
    handle = client.send(CompareRuns(HELLO, (exact(), exact(mode="fp16")), long))
    client.until(RunToken)
    client.send(Cancel(handle.command))
    assert client.end_of(handle) == ""
    count = sum(e.run == 0 for e in client.of(RunToken))
    assert 0 < count < 100
    assert sum(len(e.tokens) for e in client.of(RunsForced)) == count
    assert {e.stop_reason for e in client.of(RunFinished)} == {"stopped"}
    assert client.of(CommandProgress)


def test_problems_are_sentences(client, tiny_llama):
    assert "no model is loaded" in compare(client, exact(), exact())[0]
    client.load(tiny_llama)
    problem, tokens, *_ = compare(
        client, exact(), exact(), messages=(ChatMessage("user", "a" * 300),)
    )
    assert "the context holds 128" in problem and tokens == [[], []]
    assert client.ask()[0].stop_reason == "length"


def test_which_options_are_the_chats():
    chat = exact(context=8192)
    assert same(exact(context=40, query_budget=0), chat)
    assert not same(exact(mode="int8"), chat) and not same(exact("cpu"), chat)
    assert math.isfinite(chat.context)
