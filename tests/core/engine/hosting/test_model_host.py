"""The model in use and what runs it, put in place and replaced."""

from types import MappingProxyType

import pytest

from llm_lite.core.errors import DeviceLostError, NotFiniteError, OutOfDeviceMemoryError
from llm_lite.core.generation.speculation import draft_model
from llm_lite.core.loading import backends
from llm_lite.core.messages import (
    ExecutorChanged,
    GenerationStarted,
    LoadModel,
    Logged,
    Reconfigure,
)
from llm_lite.core.records import replace
from tests.core.engine_client import PATIENCE, Hook
from tests.runners import exact


def test_cancelling_a_load_keeps_the_model(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached, _ = hook.block_make()
    client.send(LoadModel(str(tiny_llama), exact()))
    assert reached.wait(PATIENCE)
    client.cancel_loads()
    failed = client.failed_load()
    assert failed.unwanted
    assert client.ask()[0].stop_reason == "length"


def test_a_load_that_fails_keeps_the_model(client, tiny_llama, tmp_path):
    client.load(tiny_llama)
    missing = tmp_path / "missing.gguf"
    client.send(LoadModel(str(missing), exact()))
    failed = client.failed_load()
    assert failed.failure == f"{missing}: no such file"
    assert client.ask()[0].stop_reason == "length"


def test_reconfigure_runs_the_same_model_otherwise(client, tiny_llama):
    client.load(tiny_llama)
    before = client.ask()[1]
    client.send(Reconfigure(exact(mode="fp32", context=40)))
    changed = client.until(ExecutorChanged)
    assert (changed.executor.mode, changed.model.context) == ("fp32", 40)
    assert client.ask()[1] == before, "the same numbers, decoded beforehand"
    client.send(Reconfigure(exact(context=129)))
    failed = client.failed_load()
    assert "at most 128 tokens" in failed.problem
    assert client.ask()[1] == before
    assert client.ask()[0].stats.context_used < 40


def test_reconfigure_after_the_file_was_deleted(client, tiny_llama, tmp_path):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(tiny_llama.read_bytes())
    client.load(copy)
    copy.unlink()
    client.send(Reconfigure(exact(mode="int8")))
    assert client.until(ExecutorChanged).model.file_bytes == tiny_llama.stat().st_size
    assert client.ask()[0].stop_reason == "length"


def test_a_defect_while_loading_keeps_the_model(client, tiny_llama, hook):
    client.load(tiny_llama)

    def fail(progress):
        raise RuntimeError("planted")

    hook.at_make = fail
    client.send(LoadModel(str(tiny_llama), exact()))
    assert "RuntimeError" in client.failed_load().problem
    client.send(Reconfigure(exact()))
    assert "RuntimeError" in client.failed_load().problem
    assert sum("planted" in line.text for line in client.of(Logged)) == 2
    assert client.ask()[0].stop_reason == "length"


def test_too_little_memory_is_a_sentence(client, tiny_llama, hook):
    def fail(progress):
        raise MemoryError

    hook.at_make = fail
    client.send(LoadModel(str(tiny_llama), exact()))
    assert "not enough memory" in client.failed_load().problem


# A Vulkan device that fails: the C++ executor takes over.


class FakeDevice:
    class Info:
        name, index, kind, memory_bytes = "Fake GPU", 0, "discrete", 1 << 33
        max_storage_buffer_range, max_workgroup_invocations, max_shared_memory = (
            1 << 30,
            1024,
            1 << 15,
        )
        subgroup_size, matrices = 32, ()
        features = MappingProxyType({"integer_dot_accelerated": False, "subgroup_arithmetic": True})

    info = Info()
    closed = 0

    def close(self):
        self.closed += 1


@pytest.fixture
def gpu(monkeypatch):
    device = FakeDevice()
    choose = backends.choose

    def choose_fake(options, shared, shape=None):
        if options.backend == "vulkan":
            return backends.ExecutorChoice("vulkan", "", device, owns_device=True)
        return choose(options, shared, shape)

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
    expected = client.ask()[1]
    client.load(tiny_llama, exact("vulkan"))
    gpu.at_step = failing_at(step, error)
    if not closes:
        gpu.at_close = lambda: (_ for _ in ()).throw(DeviceLostError("not even that"))
    finished, tokens = client.ask()
    assert (finished.stop_reason, tokens) == ("length", expected)
    assert finished.stats.new_tokens == len(expected)
    (changed,) = client.of(ExecutorChanged)
    assert changed.executor.backend == "cpu"
    assert str(error) in changed.executor.reason
    starts = client.of(GenerationStarted, client.handles[-1])
    assert len(starts) == 1, "one answer, whoever writes it"
    assert client.ask()[1] == expected, "and it stays with the C++ executor"
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
    assert "not enough memory" in client.refusal()
    assert client.ask()[0].stop_reason == "length", "the executor is still there"


def test_the_answer_goes_on_without_a_draft_model_that_is_gone(client, tiny_llama, gpu, tmp_path):
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(tiny_llama.read_bytes())
    client.load(tiny_llama)
    expected = client.ask()[1]
    drafting = exact("vulkan", speculate="lookup", draft_model=str(draft))
    assert client.load(tiny_llama, drafting).executor.draft is not None
    draft.unlink()
    gpu.at_step = failing_at(2, ERRORS[0])
    finished, tokens = client.ask()
    assert (finished.stop_reason, tokens) == ("length", expected)
    (changed,) = client.of(ExecutorChanged)
    assert (changed.executor.backend, changed.executor.draft) == ("cpu", None)
    assert changed.options.draft_model == "", "the next change does not look for it either"
    said = [line.text for line in client.of(Logged) if line.level == "warning"]
    assert sum("go on without the draft model" in text for text in said) == 1
    client.send(Reconfigure(exact(mode="fp32")))
    client.until(ExecutorChanged)


def test_a_draft_model_that_fails_is_said_once(client, tiny_llama, monkeypatch):
    monkeypatch.setattr(draft_model, "LEAST_CHANCE", 0.0)
    client.load(tiny_llama, exact("cpu", speculate="off"))
    expected = client.ask()[1]
    client.load(tiny_llama, exact("cpu", speculate="lookup", draft_model=str(tiny_llama)))

    def overflow(step, stop=None):
        raise NotFiniteError("values overflow")

    client.engine._host.runner.draft.session.executor.run = overflow
    for _ in range(2):
        finished, tokens = client.ask()
        assert (finished.stop_reason, tokens) == ("length", expected)
    said = [line.text for line in client.of(Logged) if line.level == "warning"]
    assert said == ["draft model: values overflow; answers go on without its drafts"]


def test_a_change_that_does_not_find_the_draft_model(client, tiny_llama, tmp_path, hook):
    """It fails and what is in use stays; where that was closed to make room, it comes back without
    the draft model."""
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(tiny_llama.read_bytes())
    drafting = exact(speculate="lookup", draft_model=str(draft))
    client.load(tiny_llama, drafting)
    expected = client.ask()[1]
    draft.unlink()
    client.send(Reconfigure(replace(drafting, mode="fp32")))
    failed = client.failed_load().problem
    assert failed.startswith("draft model: ") and str(draft) in failed
    assert client.ask()[1] == expected
    assert client.engine._host.runner.draft is not None

    def fail(progress):
        if client.engine._host.options.draft_model and client.engine._host.loaded is not None:
            raise OutOfDeviceMemoryError("no memory is left")

    hook.at_make = fail
    client.send(Reconfigure(replace(drafting, mode="fp32")))
    assert client.until(ExecutorChanged).options.draft_model == ""
    assert client.failed_load().problem.startswith("draft model: ")
    assert client.ask()[1] == expected
