import dataclasses
import threading
import time
from random import Random

import pytest

from core import backends
from core.engine import Engine
from core.errors import CancelledError, DeviceLostError, OutOfDeviceMemoryError
from core.messages import (
    CacheStatus,
    CancelLoad,
    ChatMessage,
    CompareGains,
    ConversationRead,
    ExecutorChanged,
    GainsEffect,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Inspect,
    LensResult,
    LoadFailed,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    Look,
    Looked,
    ModelLoaded,
    PrefillProgress,
    Read,
    Reconfigure,
    SamplingOptions,
    SetGains,
    Stop,
    TokenDecoded,
)
from core.tokenizer import Tokenizer
from tests.make_gguf import tokenizer_metadata
from tests.runners import BACKENDS, exact

PATIENCE = 20  # seconds until a test gives up
GREEDY = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=12)
HELLO = (ChatMessage("user", "Hello there"),)


class Client:
    """An engine, and all that it ever said."""

    def __init__(self, device=None):
        self.events = []
        self.woken = 0
        self.engine = Engine(device, self._wake)
        self._seen = 0

    def _wake(self):
        self.woken += 1

    def send(self, *commands):
        for command in commands:
            self.engine.send(command)

    def until(self, kind):
        """The next event of a kind; those before it are kept in `events`."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            while self._seen < len(self.events):
                event = self.events[self._seen]
                self._seen += 1
                if isinstance(event, kind):
                    return event
            self.events += self.engine.wait(0.05)
        raise AssertionError(f"no {kind.__name__} came; there were {self.events}")

    def load(self, path, options=None):
        self.send(LoadModel(str(path), options or exact()))
        return self.until(ModelLoaded)

    def ask(self, request=1, messages=HELLO, sampling=GREEDY, **changes):
        """The end of an answer and its tokens."""
        before = len(self.events)
        self.send(Generate(request, messages, sampling, **changes))
        finished = self.until(GenerationFinished)
        assert finished.request == request
        tokens = [e.token for e in self.events[before:] if isinstance(e, TokenDecoded)]
        return finished, tokens

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def client():
    before = threading.active_count()
    client = Client()
    yield client
    assert client.engine.close(), "the engine's thread did not end"
    client.events += client.engine.poll()
    assert client.woken == len(client.events), "wake is called for every event"
    assert threading.active_count() == before


class Hook:
    """Stands before every step of executors made for one backend, and before their making."""

    def __init__(self, monkeypatch, backend="numpy"):
        self.steps = []
        self.at_step = lambda step, stop: None
        self.at_make = lambda progress: None
        self.at_close = lambda: None
        make = backends.make_executor

        def make_hooked(choice, model, build, weights, threads, progress):
            if choice.backend != backend:
                return make(choice, model, build, weights, threads, progress)
            self.at_make(progress)
            inner = dataclasses.replace(choice, backend="numpy")
            return self._hooked(make(inner, model, build, weights, threads, progress))

        monkeypatch.setattr(backends, "make_executor", make_hooked)

    def _hooked(self, executor):
        run, close = executor.run, executor.close

        def hooked_run(step, should_stop=None):
            self.steps.append(step)
            self.at_step(step, should_stop)
            return run(step, should_stop)

        def hooked_close():
            close()
            self.at_close()

        executor.run, executor.close = hooked_run, hooked_close
        return executor

    def block_step(self, number):
        """An event set when the step of this number is reached, which waits to be stopped."""
        reached = threading.Event()

        def wait(step, should_stop):
            if len(self.steps) == number:
                reached.set()
                deadline = time.monotonic() + PATIENCE
                while not should_stop() and time.monotonic() < deadline:
                    time.sleep(0.001)

        self.at_step = wait
        return reached

    def block_make(self):
        """An event set when an executor is being made, and one that lets it go on."""
        reached, go_on = threading.Event(), threading.Event()

        def wait(progress):
            reached.set()
            deadline = time.monotonic() + PATIENCE
            while not go_on.is_set() and time.monotonic() < deadline:
                time.sleep(0.001)
                progress(0.5)

        self.at_make = wait
        return reached, go_on


@pytest.fixture
def hook(monkeypatch):
    return Hook(monkeypatch)


@pytest.mark.parametrize("backend", BACKENDS)
def test_load_and_answer_in_order(client, device, tiny_llama, backend):
    client.engine.device_lost(device)  # "use that one from now on"
    loaded = client.load(tiny_llama, exact(backend))
    kinds = [type(e) for e in client.events if not isinstance(e, Logged | CacheStatus)]
    assert kinds == [LoadStarted, *[LoadProgress] * (len(kinds) - 2), ModelLoaded]
    fractions = [e.fraction for e in client.of(LoadProgress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert (loaded.executor.backend, loaded.executor.activations) == (backend, "a32")
    assert (loaded.model.vocabulary, loaded.model.context, loaded.model.layers) == (300, 128, 2)

    finished, tokens = client.ask(7)
    mark = client.events.index(client.of(GenerationStarted)[0])
    kinds = [type(e) for e in client.events[mark:] if not isinstance(e, Logged | CacheStatus)]
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
    half = dataclasses.replace(GREEDY, max_new_tokens=5)
    _, first = client.ask(2, sampling=half)
    turns = (*HELLO, ChatMessage("assistant", "any", tuple(first)))
    rest = dataclasses.replace(GREEDY, max_new_tokens=7)
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
    finished, tokens = client.ask(
        1, turns, dataclasses.replace(GREEDY, max_new_tokens=99), raw=True
    )
    assert finished.stop_reason == "context"
    assert "16 tokens is full" in finished.message
    assert len(tokens) == 16 - finished.stats.prompt_tokens + 1
    finished, tokens = client.ask(2, (ChatMessage("user", "xyz" * 9),), raw=True)
    assert (finished.stop_reason, tokens) == ("error", [])
    assert "27 tokens, but the context holds 16" in finished.message


def test_nothing_is_loaded(client):
    finished, _ = client.ask(1)
    assert finished == GenerationFinished(
        1, "error", GenerationStats(), "no model is loaded: open one first"
    )
    client.send(Reconfigure(exact()))
    assert client.ask(2)[0].stop_reason == "error"


@pytest.mark.parametrize(("step", "expected"), [(1, 0), (4, 3)])
def test_stop_while_it_prefills_and_decodes(client, tiny_llama, hook, step, expected):
    client.load(tiny_llama)
    whole = client.ask(1)[1]
    hook.steps.clear()
    reached = hook.block_step(step)
    client.send(Reconfigure(exact()), Generate(2, HELLO, GREEDY))  # with an empty cache
    assert reached.wait(PATIENCE)
    started = time.monotonic()
    client.send(Stop())
    finished = client.until(GenerationFinished)
    assert time.monotonic() - started < 1
    assert (finished.request, finished.stop_reason, finished.message) == (2, "stopped", "")
    assert finished.stats.new_tokens == expected
    assert client.ask(3)[1] == whole, "what was stopped left nothing behind"


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


def test_cancelling_a_load_keeps_the_model(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached, _ = hook.block_make()
    client.send(LoadModel(str(tiny_llama), exact()))
    assert reached.wait(PATIENCE)
    client.send(CancelLoad())
    failed = client.until(LoadFailed)
    assert failed.cancelled
    assert client.ask()[0].stop_reason == "length"


def test_a_load_that_fails_keeps_the_model(client, tiny_llama, tmp_path):
    client.load(tiny_llama)
    missing = tmp_path / "missing.gguf"
    client.send(LoadModel(str(missing), exact()))
    failed = client.until(LoadFailed)
    assert (failed.source, failed.cancelled) == (str(missing), False)
    assert failed.message == f"{missing}: no such file"
    assert client.ask()[0].stop_reason == "length"


def test_reconfigure_runs_the_same_model_otherwise(client, tiny_llama):
    client.load(tiny_llama)
    before = client.ask(1)[1]
    client.send(Reconfigure(exact(mode="fp32", context=40)))
    changed = client.until(ExecutorChanged)
    assert (changed.executor.mode, changed.model.context) == ("fp32", 40)
    assert client.ask(2)[1] == before, "the same numbers, decoded beforehand"
    client.send(Reconfigure(exact(context=129)))
    failed = client.until(LoadFailed)
    assert "at most 128 tokens" in failed.message
    assert client.ask(3)[1] == before
    assert client.ask(4)[0].stats.context_used < 40


def test_reconfigure_after_the_file_was_deleted(client, tiny_llama, tmp_path):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_llama.read_bytes())
    client.load(copy)
    copy.unlink()
    client.send(Reconfigure(exact(mode="int8")))
    assert client.until(ExecutorChanged).model.file_bytes == tiny_llama.stat().st_size
    assert client.ask()[0].stop_reason == "length"


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
    started = time.monotonic()
    assert client.engine.close()
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("seed", range(12))
def test_every_command_is_answered_once_whatever_the_order(client, tiny_llama, tmp_path, seed):
    """Random commands at random moments, none of them waited for."""
    random = Random(seed)
    missing = str(tmp_path / "missing.gguf")
    client.load(tiny_llama)
    sent = {LoadStarted: 1, GenerationFinished: 0, ConversationRead: 0}
    sent |= {LensResult: 0, GainsEffect: 0}
    asides = {
        "look": lambda number: Inspect(random.randrange(60), number),
        "compare": CompareGains,
        "steer": lambda _: SetGains(((random.random(),) * 4,) * 2),
        "see": lambda number: Look(
            number,
            random.randrange(60),
            random.choice(("from", "to")),
            random.choice(("heads", "layer-mean", "rollout")),
            ((0, random.randrange(5)), (1, 2)),
            random.randrange(3),
        ),
    }
    last_look = None
    for number in range(40):
        if random.random() < 0.3:
            time.sleep(random.random() * 0.03)
        kind = random.choice(
            ("load", "missing", "change", "ask", "ask", "read", "stop", "cancel", *asides)
        )
        if kind in ("load", "missing"):
            client.send(LoadModel(missing if kind == "missing" else str(tiny_llama), exact()))
        elif kind == "change":
            client.send(Reconfigure(exact(context=random.choice((40, 128, 999)))))
        elif kind == "ask":
            client.send(Generate(number, HELLO, GREEDY))
            sent[GenerationFinished] += 1
        elif kind == "read":
            client.send(Read(number, HELLO))
            sent[ConversationRead] += 1
        elif kind in asides:
            client.send(asides[kind](number))
            last_look = number if kind == "see" else last_look
            sent[LensResult] += kind == "look"
            sent[GainsEffect] += kind == "compare"
        else:
            client.send(Stop() if kind == "stop" else CancelLoad())
        sent[LoadStarted] += kind in ("load", "missing", "change")
    deadline = time.monotonic() + PATIENCE

    def waiting():
        looks = [event.request for event in client.of(Looked)]
        return _ended(client) != sent or last_look not in (None, *looks)

    while waiting() and time.monotonic() < deadline:
        client.events += client.engine.wait(0.05)
    assert _ended(client) == sent
    finished = [e.request for e in client.of(GenerationFinished)]
    assert len(finished) == len(set(finished))
    seen = [e.request for e in client.of(Looked)]
    assert seen == sorted(set(seen))
    assert last_look in (*seen[-1:], None), "a later look takes the place of one that waits"
    for event in client.of(GenerationFinished):
        ends = ("length", "stopped", "end")  # with other gains it may end by itself
        assert event.stop_reason in ends or "still being written" in event.message
    assert not [e.text for e in client.of(Logged) if "internal error" in e.text]
    client._seen = len(client.events)
    assert client.ask(1000, gains=((1.0,) * 4,) * 2)[0].stop_reason == "length"


def _ended(client):
    loads = (ModelLoaded, LoadFailed, ExecutorChanged)
    return {
        LoadStarted: sum(len(client.of(kind)) for kind in loads),
        **{
            k: len(client.of(k))
            for k in (GenerationFinished, ConversationRead, LensResult, GainsEffect)
        },
    }


def test_a_defect_ends_the_answer_and_not_the_engine(client, tiny_llama, hook):
    client.load(tiny_llama)

    def fail(step, stop):
        raise RuntimeError("planted")

    hook.at_step = fail
    finished, _ = client.ask(1)
    assert finished.stop_reason == "error"
    assert "planted" in finished.message
    (logged,) = (e for e in client.of(Logged) if e.level == "error")
    assert "Traceback" in logged.text
    hook.at_step = lambda step, stop: None
    assert client.ask(2)[0].stop_reason == "length"


def test_a_defect_while_loading_keeps_the_model(client, tiny_llama, hook):
    client.load(tiny_llama)

    def fail(progress):
        raise RuntimeError("planted")

    hook.at_make = fail
    client.send(LoadModel(str(tiny_llama), exact()))
    assert "planted" in client.until(LoadFailed).message
    client.send(Reconfigure(exact()))
    assert "planted" in client.until(LoadFailed).message
    assert client.ask()[0].stop_reason == "length"


def test_too_little_memory_is_a_sentence(client, tiny_llama, hook):
    def fail(progress):
        raise MemoryError

    hook.at_make = fail
    client.send(LoadModel(str(tiny_llama), exact()))
    assert "not enough memory" in client.until(LoadFailed).message


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
    assert "not numbers" in finished.message


# A Vulkan device that fails: the C++ executor takes over.


class FakeDevice:
    class Info:
        name, index, kind, memory_bytes = "Fake GPU", 0, "discrete", 1 << 33

    info = Info()
    closed = 0

    def close(self):
        self.closed += 1


@pytest.fixture
def gpu(monkeypatch):
    device = FakeDevice()
    choose = backends.choose

    def choose_fake(options, shared):
        if options.backend == "vulkan":
            return backends.Choice("vulkan", "", device, owns_device=True)
        return choose(options, shared)

    monkeypatch.setattr(backends, "choose", choose_fake)
    hook = Hook(monkeypatch, "vulkan")
    hook.device = device
    return hook


ERRORS = [DeviceLostError("the device was lost"), OutOfDeviceMemoryError("no memory is left")]


def failing_at(number, error):
    count = 0

    def fail(step, stop):
        nonlocal count
        count += 1
        if count == number:
            raise error

    return fail


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("step", [1, 2, 7], ids=["prefill", "first decode", "decode"])
@pytest.mark.parametrize("closes", [True, False])
def test_the_answer_goes_on_when_the_device_fails(client, tiny_llama, gpu, error, step, closes):
    client.load(tiny_llama)
    expected = client.ask(1)[1]
    client.load(tiny_llama, exact("vulkan"))
    gpu.at_step = failing_at(step, error)
    if not closes:
        gpu.at_close = lambda: (_ for _ in ()).throw(DeviceLostError("not even that"))
    finished, tokens = client.ask(2)
    assert (finished.stop_reason, tokens) == ("length", expected)
    assert finished.stats.new_tokens == len(expected)
    (changed,) = client.of(ExecutorChanged)
    assert changed.executor.backend == "cpu"
    assert str(error) in changed.executor.reason
    starts = [e for e in client.of(GenerationStarted) if e.request == 2]
    assert len(starts) == 1, "one answer, whoever writes it"
    assert client.ask(3)[1] == expected, "and it stays with the C++ executor"
    assert len(client.of(ExecutorChanged)) == 1
    assert not closes or gpu.device.closed == 1


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_a_device_that_cannot_hold_the_model(client, tiny_llama, gpu, error):
    def fail(progress):
        raise error

    gpu.at_make = fail
    loaded = client.load(tiny_llama, exact("vulkan"))
    assert loaded.executor.backend == "cpu"
    assert str(error) in loaded.executor.reason
    assert client.ask()[0].stop_reason == "length"
    assert gpu.device.closed == 1


def test_when_nothing_can_take_over(client, tiny_llama, gpu, monkeypatch):
    client.load(tiny_llama, exact("vulkan"))
    make = backends.make_executor

    def no_cpu(choice, *rest):
        if choice.backend == "cpu":
            raise MemoryError
        return make(choice, *rest)

    monkeypatch.setattr(backends, "make_executor", no_cpu)
    gpu.at_step = failing_at(1, ERRORS[0])
    finished, _ = client.ask(1)
    assert finished.stop_reason == "error"
    assert "not enough memory" in finished.message
    assert client.ask(2)[0].stop_reason == "length", "the executor is still there"
