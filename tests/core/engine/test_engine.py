"""The engine's thread: commands in, events out, each answered once."""

import time
from random import Random

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.handles import CANCELLED, SUPERSEDED
from llm_lite.core.messages import (
    AttentionRows,
    CacheStatus,
    Cancel,
    ConversationRead,
    DraftsLearned,
    EffectRead,
    Ended,
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
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
    ReadEffect,
    Reconfigure,
    SetInterventions,
    TokenDecoded,
)
from llm_lite.core.text.tokenizer import Tokenizer
from tests.changes import scales
from tests.core.engine_client import GREEDY, HELLO, LOADS, PATIENCE, Client
from tests.make_gguf import tokenizer_metadata, write_tiny_llama
from tests.runners import BACKENDS, exact
from tests.tiers import thorough


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

    finished, tokens = client.ask()
    mark = client.events.index(client.of(GenerationStarted)[0])
    kinds = [type(e) for e in client.events[mark:] if not isinstance(e, beside)]
    order = (GenerationStarted, PrefillProgress, TokenDecoded, GenerationFinished)
    assert list(dict.fromkeys(kinds)) == list(order)
    assert kinds == sorted(kinds, key=order.index)
    assert client.of(order, client.handles[-1]) == client.of(order)
    assert (finished.stop_reason, len(tokens)) == ("length", GREEDY.max_new_tokens)
    tokenizer = Tokenizer.from_gguf(tokenizer_metadata(300), tiny_llama)
    text = "".join(e.text for e in client.of(TokenDecoded))
    assert tokenizer.decode(tokens).rstrip("\ufffd") == text.rstrip("\ufffd")
    stats = finished.stats
    assert stats.prompt_tokens == client.of(GenerationStarted)[0].prompt_tokens
    assert stats.context_used == stats.prompt_tokens + len(tokens) - 1
    assert min(stats.prefill_tok_s, stats.decode_tok_s, stats.ttft_ms, stats.peak_rss_bytes) > 0


def test_nothing_is_loaded(client):
    assert client.refusal() == "no model is loaded: open one first"
    client.send(Reconfigure(exact()))
    assert client.refusal() == "no model is loaded: open one first"
    assert not client.of(GenerationFinished)


def test_cancel_of_an_answer_that_waits(client, tiny_llama, hook):
    reached, go_on = hook.block_make()
    answer = client.send(LoadModel(str(tiny_llama), exact()), Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    client.send(Cancel(answer.command))
    go_on.set()
    assert client.end_of(answer) == CANCELLED
    assert client.of(Event, answer) == [Ended(CANCELLED, unwanted=True)]
    assert client.of(ModelLoaded)
    assert client.ask()[0].stop_reason == "length", "the cancellation is spent"


def test_a_second_answer_waits_while_one_is_written(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(3)
    first = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    second = client.send(Generate(HELLO, GREEDY))
    assert not (first.is_over or second.is_over)
    client.send(Cancel(first.command))
    assert second.result(PATIENCE).stop_reason == "length"
    client.take()
    finished = [r for r in client.reports if isinstance(r.event, GenerationFinished)]
    assert [report.event.stop_reason for report in finished] == ["stopped", "length"]
    assert finished[0].command is first.command and finished[1].command is second.command
    told = [r.command is second.command for r in client.reports if isinstance(r.command, Generate)]
    assert told == sorted(told), "one answer behind the other"


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
        client.send(Generate(HELLO, GREEDY), LoadModel(str(tiny_llama), exact()))
        assert reached.wait(PATIENCE)
    assert client.engine.close(PATIENCE / 2)  # what is under way lasts PATIENCE if left alone


def _random_requests(random):
    """By kind, a request that is served between two steps."""
    return {
        "lens": lambda: Inspect(random.randrange(60)),
        "compare": ReadEffect,
        "steer": lambda: SetInterventions(scales(((random.random(),) * 4,) * 2)),
        "see": lambda: ReadAttentionRows(
            random.randrange(60),
            random.choice(("from", "to")),
            random.choice(("heads", "layer-mean", "rollout")),
            ((0, random.randrange(5)), (1, 2)),
            random.randrange(3),
        ),
    }


@pytest.mark.parametrize("seed", [*range(4), *map(thorough, range(4, 12))])
def test_every_command_is_answered_once_whatever_the_order(client, tiny_llama, tmp_path, seed):
    """Random commands at random moments, none of them waited for, some cancelled."""
    random = Random(seed)
    missing = str(tmp_path / "missing.gguf")
    client.load(tiny_llama)
    loads = 1
    requests = _random_requests(random)
    handles = []
    for _ in range(40):
        if random.random() < 0.3:
            time.sleep(random.random() * 0.03)
        kind = random.choice(
            ("load", "missing", "change", "ask", "ask", "read", "cancel", "cancel loads", *requests)
        )
        if kind in ("load", "missing"):
            handles.append(
                client.send(LoadModel(missing if kind == "missing" else str(tiny_llama), exact()))
            )
        elif kind == "change":
            handles.append(client.send(Reconfigure(exact(context=random.choice((40, 128, 999))))))
        elif kind == "ask":
            handles.append(client.send(Generate(HELLO, GREEDY)))
        elif kind == "read":
            handles.append(client.send(Read(HELLO)))
        elif kind in requests:
            handles.append(client.send(requests[kind]()))
        elif kind == "cancel loads":
            client.cancel_loads()
        elif handles:
            handles.append(client.send(Cancel(random.choice(handles).command)))
        loads += kind in ("load", "missing", "change")
    deadline = time.monotonic() + PATIENCE
    while not all(handle.is_over for handle in handles) and time.monotonic() < deadline:
        client.take(0.05)
    client.take()
    ends = [report.command for report in client.reports if isinstance(report.event, Ended)]
    assert sum(isinstance(command, LOADS) for command in ends) == loads
    for handle in handles:
        _check_reports(client, handle)
    in_turn = [one.command for one in handles if isinstance(one.command, Generate | Read)]
    ended = [command for command in ends if isinstance(command, Generate | Read)]
    assert list(map(id, ended)) == list(map(id, in_turn))
    looks = [handle for handle in handles if isinstance(handle.command, ReadAttentionRows)]
    assert not any(SUPERSEDED in _problem(look) for look in looks[-1:])
    for event in client.of(GenerationFinished):
        # With other gains it may end by itself.
        assert event.stop_reason in ("length", "stopped", "end")
    assert not [e.text for e in client.of(Logged) if "internal error" in e.text]
    client._seen = len(client.events)
    assert client.ask(interventions=scales(((1.0,) * 4,) * 2))[0].stop_reason == "length"


RESULTS = {Inspect: LensResult, ReadEffect: EffectRead, ReadAttentionRows: AttentionRows}
LASTS = {Generate: GenerationFinished, Read: ConversationRead}


def _check_reports(client, handle):
    """A command ends once, with its last event; a request that was served has one result. An answer
    or a reading has all its events in order, or none where it was cancelled before it was begun."""
    events = client.of(Event, handle)
    assert [type(event) for event in events].count(Ended) == 1
    assert isinstance(events[-1], Ended) and events[-1].problem == _problem(handle)
    if type(handle.command) in RESULTS:
        served = [] if _problem(handle) else [RESULTS[type(handle.command)]]
        assert [type(event) for event in events[:-1]] == served
    if type(handle.command) in LASTS:
        kinds, last = [type(event) for event in events[:-1]], LASTS[type(handle.command)]
        if _problem(handle):
            assert handle.is_cancelled and events == [Ended(CANCELLED, unwanted=True)]
        else:
            assert kinds[-1] is last and last not in kinds[:-1]
            assert GenerationStarted not in kinds[1:]
            assert TokenDecoded not in kinds or kinds[0] is GenerationStarted


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
    assert "RuntimeError" in client.refusal()
    (logged,) = (e for e in client.of(Logged) if e.level == "error")
    assert "Traceback" in logged.text and "planted" in logged.text
    hook.at_step = lambda step, stop: None
    assert client.ask()[0].stop_reason == "length"


def test_an_unknown_pre_tokenizer_is_told_once_and_refuses_nothing(client, tmp_path):
    header = {"tokenizer.ggml.pre": "klingon"}
    client.load(write_tiny_llama(tmp_path / "klingon.gguf", header))
    for _ in range(2):
        finished, tokens = client.ask()
        assert finished.stop_reason in ("end", "length")
        assert tokens
    told = [e for e in client.of(Logged) if "'klingon'" in e.text]
    assert [e.level for e in told] == ["warning"]
