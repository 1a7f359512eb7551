"""The engine's thread: commands in, events out, each answered once."""

import time
from random import Random

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.handles import SUPERSEDED
from llm_lite.core.messages import (
    AttentionRows,
    CacheStatus,
    CompareGains,
    ConversationRead,
    DraftsLearned,
    Ended,
    GainsEffect,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Inspect,
    LensResult,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    ModelLoaded,
    PrefillProgress,
    Read,
    ReadAttentionRows,
    Reconfigure,
    SetGains,
    Stop,
    TokenDecoded,
)
from llm_lite.core.text.tokenizer import Tokenizer
from tests.core.engine_client import GREEDY, HELLO, LOADS, PATIENCE, Client
from tests.make_gguf import tokenizer_metadata, write_tiny_llama
from tests.runners import BACKENDS, exact


@pytest.mark.parametrize("backend", BACKENDS)
def test_load_and_answer_in_order(client, device, tiny_llama, backend):
    client.engine.device_lost(device)  # "use that one from now on"
    loaded = client.load(tiny_llama, exact(backend))
    # The last one as soon as the engine is idle.
    beside = Ended | Logged | CacheStatus | DraftsLearned
    kinds = [type(e) for e in client.events if not isinstance(e, beside)]
    assert kinds == [LoadStarted, *[LoadProgress] * (len(kinds) - 2), ModelLoaded]
    fractions = [e.fraction for e in client.of(LoadProgress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert (loaded.executor.backend, loaded.executor.activations) == (backend, "a32")
    assert (loaded.model.vocabulary, loaded.model.context, loaded.model.layers) == (300, 128, 2)

    finished, tokens = client.ask(7)
    mark = client.events.index(client.of(GenerationStarted)[0])
    kinds = [type(e) for e in client.events[mark:] if not isinstance(e, beside)]
    order = (GenerationStarted, PrefillProgress, TokenDecoded, GenerationFinished)
    assert list(dict.fromkeys(kinds)) == list(order)
    assert kinds == sorted(kinds, key=order.index)
    assert {e.request for e in client.events if isinstance(e, order)} == {7}
    assert (finished.stop_reason, len(tokens)) == ("length", GREEDY.max_new_tokens)
    tokenizer = Tokenizer.from_gguf(tokenizer_metadata(300), tiny_llama)
    text = "".join(e.text for e in client.of(TokenDecoded))
    assert tokenizer.decode(tokens).rstrip("\ufffd") == text.rstrip("\ufffd")
    stats = finished.stats
    assert stats.prompt_tokens == client.of(GenerationStarted)[0].prompt_tokens
    assert stats.context_used == stats.prompt_tokens + len(tokens) - 1
    assert min(stats.prefill_tok_s, stats.decode_tok_s, stats.ttft_ms, stats.peak_rss_bytes) > 0


def test_nothing_is_loaded(client):
    finished, _ = client.ask(1)
    assert finished == GenerationFinished(
        1, "error", GenerationStats(), "no model is loaded: open one first"
    )
    client.send(Reconfigure(exact()))
    assert client.ask(2)[0].stop_reason == "error"


def test_stop_of_an_answer_that_waits(client, tiny_llama, hook):
    reached, go_on = hook.block_make()
    client.send(LoadModel(str(tiny_llama), exact()), Generate(1, HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    client.send(Stop())
    go_on.set()
    finished = client.until(GenerationFinished)
    assert (finished.stop_reason, finished.stats.new_tokens) == ("stopped", 0)
    assert client.of(ModelLoaded)
    assert client.ask(2)[0].stop_reason == "length", "the stop is spent"


def test_a_second_answer_is_refused_while_one_is_written(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(3)
    client.send(Generate(1, HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    client.send(Generate(2, HELLO, GREEDY))
    refused = client.until(GenerationFinished)
    assert (refused.request, refused.stop_reason) == (2, "error")
    assert "still being written" in refused.message
    client.send(Stop())
    first = client.until(GenerationFinished)
    assert (first.request, first.stop_reason) == (1, "stopped")
    assert client.ask(3)[0].stop_reason == "length"


@pytest.mark.parametrize("busy", ["loading", "generating", "waiting"])
def test_shutdown_is_quick(tiny_llama, hook, busy):
    client = Client()
    client.load(tiny_llama)
    if busy == "loading":
        reached, _ = hook.block_make()
        client.send(LoadModel(str(tiny_llama), exact()))
        assert reached.wait(PATIENCE)
    if busy == "generating":
        reached = hook.block_step(2)
        client.send(Generate(1, HELLO, GREEDY), LoadModel(str(tiny_llama), exact()))
        assert reached.wait(PATIENCE)
    assert client.engine.close(PATIENCE / 2)  # what is under way lasts PATIENCE if left alone


def _random_requests(random):
    """By kind, a request that is served between two steps."""
    return {
        "lens": lambda: Inspect(random.randrange(60)),
        "compare": CompareGains,
        "steer": lambda: SetGains(((random.random(),) * 4,) * 2),
        "see": lambda: ReadAttentionRows(
            random.randrange(60),
            random.choice(("from", "to")),
            random.choice(("heads", "layer-mean", "rollout")),
            ((0, random.randrange(5)), (1, 2)),
            random.randrange(3),
        ),
    }


@pytest.mark.parametrize("seed", range(12))
def test_every_command_is_answered_once_whatever_the_order(client, tiny_llama, tmp_path, seed):
    """Random commands at random moments, none of them waited for."""
    random = Random(seed)
    missing = str(tmp_path / "missing.gguf")
    client.load(tiny_llama)
    sent = {LoadStarted: 1, GenerationFinished: 0, ConversationRead: 0}
    requests = _random_requests(random)
    handles = []
    for number in range(40):
        if random.random() < 0.3:
            time.sleep(random.random() * 0.03)
        kind = random.choice(
            ("load", "missing", "change", "ask", "ask", "read", "stop", "cancel", *requests)
        )
        if kind in ("load", "missing"):
            handles.append(
                client.send(LoadModel(missing if kind == "missing" else str(tiny_llama), exact()))
            )
        elif kind == "change":
            handles.append(client.send(Reconfigure(exact(context=random.choice((40, 128, 999))))))
        elif kind == "ask":
            handles.append(client.send(Generate(number, HELLO, GREEDY)))
            sent[GenerationFinished] += 1
        elif kind == "read":
            handles.append(client.send(Read(number, HELLO)))
            sent[ConversationRead] += 1
        elif kind in requests:
            handles.append(client.send(requests[kind]()))
        elif kind == "stop":
            handles.append(client.send(Stop()))
        else:
            client.cancel_loads()
        sent[LoadStarted] += kind in ("load", "missing", "change")
    deadline = time.monotonic() + PATIENCE
    while not all(handle.is_over for handle in handles) and time.monotonic() < deadline:
        client.take(0.05)
    client.take()
    assert _ended(client) == sent
    for handle in handles:
        _check_reports(client, handle)
    finished = [e.request for e in client.of(GenerationFinished)]
    assert len(finished) == len(set(finished))
    looks = [handle for handle in handles if isinstance(handle.command, ReadAttentionRows)]
    assert not any(SUPERSEDED in _problem(look) for look in looks[-1:])
    for event in client.of(GenerationFinished):
        ends = ("length", "stopped", "end")  # with other gains it may end by itself
        assert event.stop_reason in ends or "still being written" in event.message
    assert not [e.text for e in client.of(Logged) if "internal error" in e.text]
    client._seen = len(client.events)
    assert client.ask(1000, gains=((1.0,) * 4,) * 2)[0].stop_reason == "length"


def _ended(client):
    loads = [r for r in client.reports if isinstance(r.command, LOADS)]
    return {
        LoadStarted: sum(isinstance(report.event, Ended) for report in loads),
        **{k: len(client.of(k)) for k in (GenerationFinished, ConversationRead)},
    }


RESULTS = {Inspect: LensResult, CompareGains: GainsEffect, ReadAttentionRows: AttentionRows}


def _check_reports(client, handle):
    """A command ends once, with its last event; a request that was served has one result."""
    events = [one.event for one in client.reports if one.command is handle.command]
    assert [type(event) for event in events].count(Ended) == 1
    assert isinstance(events[-1], Ended) and events[-1].problem == _problem(handle)
    if type(handle.command) in RESULTS:
        served = [] if _problem(handle) else [RESULTS[type(handle.command)]]
        assert [type(event) for event in events[:-1]] == served


def _problem(handle):
    try:
        handle.result(0)
    except RequestError as error:
        return str(error)
    return ""


def test_a_defect_ends_the_answer_and_not_the_engine(client, tiny_llama, hook):
    client.load(tiny_llama)

    def fail(step, stop):
        raise RuntimeError("planted")

    hook.at_step = fail
    finished, _ = client.ask(1)
    assert finished.stop_reason == "error"
    assert "RuntimeError" in finished.message
    (logged,) = (e for e in client.of(Logged) if e.level == "error")
    assert "Traceback" in logged.text and "planted" in logged.text
    hook.at_step = lambda step, stop: None
    assert client.ask(2)[0].stop_reason == "length"


def test_an_unknown_pre_tokenizer_is_told_once_and_refuses_nothing(client, tmp_path):
    header = {"tokenizer.ggml.pre": "klingon"}
    client.load(write_tiny_llama(tmp_path / "klingon.gguf", header))
    for request in (1, 2):
        finished, tokens = client.ask(request)
        assert finished.stop_reason in ("end", "length")
        assert tokens
    told = [e for e in client.of(Logged) if "'klingon'" in e.text]
    assert [e.level for e in told] == ["warning"]
