"""Which executor is chosen, and what is said of it."""

from types import SimpleNamespace

import pytest

import llm_lite.core.gpu.device
from llm_lite.core.errors import DeviceError, UnfitModelError
from llm_lite.core.loading import backends
from llm_lite.core.messages import EngineOptions
from llm_lite.core.models.model import ModelShape
from llm_lite.core.records import replace

SHAPE = ModelShape(
    layers=3,
    heads=4,
    kv_heads=2,
    head_dim=8,
    width=32,
    feed_forward=64,
    vocabulary=300,
    trained_context=1000,
)


def found(index, kind, *, usable=True):
    name = f"{kind} {index}"
    return SimpleNamespace(index=index, kind=kind, usable=usable, name=name)


class Machine:
    """Devices as the driver would list them; opening one may fail."""

    def __init__(self):
        self.infos = []
        self.problem = None

    def open(self, index):
        if self.problem:
            raise DeviceError(self.problem)
        for info in self.infos:
            if index in (None, info.index):
                return SimpleNamespace(info=info)
        raise DeviceError(f"there is no device {index}")


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(llm_lite.core.gpu.device, "list_devices", lambda: machine.infos)
    monkeypatch.setattr(llm_lite.core.gpu.device, "Device", machine)
    return machine


def choose(shared=None, shape=None, **options):
    return backends.choose(EngineOptions(**options), shared, shape)


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_what_was_asked_for_needs_no_reason(machine, backend):
    machine.infos = [found(0, "discrete")]
    assert choose(backend=backend) == backends.ExecutorChoice(backend, "")


def test_auto_without_a_device(machine):
    assert choose() == backends.ExecutorChoice("cpu", "no usable Vulkan device was found")
    machine.infos = [found(0, "discrete", usable=False)]
    assert choose().reason == "no usable Vulkan device was found"


def test_a_device_that_is_not_there(machine):
    machine.infos = [found(0, "discrete")]
    assert choose(device=99) == backends.ExecutorChoice(
        "cpu", "there is no Vulkan device 99: 1 were found"
    )


def test_auto_leaves_software_to_the_processor(machine):
    machine.infos = [found(0, "software")]
    choice = choose()
    assert choice.backend == "cpu"
    assert "only software (software 0)" in choice.reason


def test_auto_takes_the_first_hardware(machine):
    machine.infos = [found(0, "software"), found(1, "integrated"), found(2, "discrete")]
    choice = choose()
    assert (choice.backend, choice.device.info.index, choice.owns_device) == ("vulkan", 1, True)
    assert choose(device=2).device.info.index == 2
    assert choose(device=0).backend == "cpu"


def test_auto_prefers_the_device_that_draws(machine):
    machine.infos = [found(0, "discrete"), found(1, "integrated")]
    shared = SimpleNamespace(info=machine.infos[1])
    choice = choose(shared)
    assert (choice.backend, choice.device, choice.owns_device) == ("vulkan", shared, False)
    other = choose(shared, device=0)
    assert (other.device.info.index, other.owns_device) == (0, True)


def test_auto_says_why_a_device_cannot_be_opened(machine):
    machine.infos, machine.problem = [found(0, "discrete")], "it is on fire"
    choice = choose()
    assert choice.backend == "cpu"
    assert "it is on fire" in choice.reason


def test_vulkan_may_be_insisted_upon(machine):
    machine.infos = [found(0, "software")]
    assert choose(backend="vulkan").device.info.kind == "software"
    with pytest.raises(DeviceError, match="no device 3"):
        choose(backend="vulkan", device=3)
    shared = SimpleNamespace(info=machine.infos[0])
    assert not choose(shared, backend="vulkan").owns_device


def test_a_model_whose_heads_are_odd_runs_on_the_processor(machine):
    """One that insists on a device is refused before anything is opened."""
    machine.infos = [found(0, "discrete")]
    odd = replace(SHAPE, head_dim=9)
    choice = choose(shape=odd)
    assert (choice.backend, choice.device) == ("cpu", None)
    assert choice.reason == "attention heads of 9 values: on Vulkan their number must be even"
    machine.problem = "it was opened"
    with pytest.raises(UnfitModelError, match="heads of 9 values") as refused:
        choose(shape=odd, backend="vulkan")
    assert backends.fallback(refused.value, "vulkan") == choice
    assert choose(shape=replace(SHAPE, head_dim=8)).reason.endswith("it was opened")


@pytest.mark.parametrize("backend", ["vulkan", "cpu", "numpy"])
@pytest.mark.parametrize("every_output", [False, True])
def test_how_a_program_is_built(backend, every_output):
    options = EngineOptions(keys="fp32", values="fp32", activations="a8")
    build = backends.build_options(
        backends.ExecutorChoice(backend, ""), options, SHAPE, context=99, every_output=every_output
    )
    assert (build.context, build.integer_activations) == (99, True)
    assert (build.k_dtype, build.v_dtype, build.q_dtype) == ("f32", "f32", "f32")
    sizes = [bucket.max_tokens for bucket in build.buckets]
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 1, "a decoded token needs no more than its own row"
    whole = [bucket.max_outputs == bucket.max_tokens for bucket in build.buckets]
    verified = build.pages.segments
    assert (verified > 1) == (not every_output), "drafted tokens are segments each"
    assert whole == [every_output or n in (1, verified) for n in sizes]


def test_a_discrete_device_takes_larger_steps():
    def largest(kind, **changes):
        choice = backends.ExecutorChoice(
            "vulkan", "", SimpleNamespace(info=SimpleNamespace(kind=kind))
        )
        options = EngineOptions(activations="a32", **changes)
        build = backends.build_options(choice, options, SHAPE, context=1000)
        return build.buckets[-1].max_tokens

    assert largest("discrete") == 2 * largest("integrated") == 2 * largest("software")
    position = backends.query_bytes(SHAPE, EngineOptions())
    assert largest("discrete", query_budget=200 * position) == largest("integrated"), "and has maps"
    assert largest("discrete", query_budget=0) == largest("discrete"), "nothing is to be kept"


@pytest.mark.parametrize("kv", ["fp16", "fp32"])
def test_as_many_queries_are_kept_as_the_budget_holds(kv):
    position = backends.query_bytes(SHAPE, EngineOptions(keys=kv, values=kv))
    assert position == 3 * 4 * 8 * {"fp16": 2, "fp32": 4}[kv]

    def rows(budget, context=1000):
        options = EngineOptions(keys=kv, values=kv, query_budget=budget)
        build = backends.build_options(
            backends.ExecutorChoice("cpu", ""), options, SHAPE, context=context
        )
        return build.query_rows, backends.query_note(build, SHAPE, options)

    assert rows(500 * position) == (384, ""), "in whole pages"
    assert rows(5000 * position) == (1000, "")
    assert rows(5000 * position, context=99) == (99, "")  # no step is larger than the cache
    few, note = rows(127 * position)
    assert few == 0
    assert "no attention maps" in note
    assert "128 tokens of a step" in note
    for nothing in (0, -1):
        few, note = rows(nothing)
        assert few == 0
        assert "their memory budget is 0" in note


def test_activations():
    assert backends.activations(backends.ExecutorChoice("numpy", ""), "auto") == "a32"
    for backend in ("numpy", "cpu", "vulkan"):
        choice = backends.ExecutorChoice(backend, "")
        assert backends.activations(choice, "a8") == "a8"
        assert backends.activations(choice, "a32") == "a32"
