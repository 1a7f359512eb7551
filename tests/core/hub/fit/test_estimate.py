"""What is estimated is what executors allocate."""

import json

import numpy as np
import pytest

from llm_lite.core import processor
from llm_lite.core.hub.fit.estimate import _tile_bytes, cpu_memory, estimate, left_by, vulkan_memory
from llm_lite.core.hub.fit.machine import Machine
from llm_lite.core.loading import backends
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.fitting import Fitting, described
from llm_lite.core.loading.sources import open_source
from llm_lite.core.messages import MODES, EngineOptions
from llm_lite.core.processor import emulated_isas
from llm_lite.core.records import replace
from tests.encoder_checks import write_case as write_encoder
from tests.encoder_families import family_of as encoder_family
from tests.families import family_of
from tests.family_checks import write_case as write_mixture
from tests.fixtures.seq2seq import marian
from tests.mixture_in_blocks import write_mixture_in_blocks
from tests.runners import exact, running
from tests.seq2seq_checks import write_case


@pytest.fixture(scope="module")
def source(tiny_llama):
    opened = open_source(tiny_llama)
    yield opened
    opened.close()


def planned(source, options, choice, machine):
    return Fitting(described(source), choice, machine).plan(options)


def memory_under(array):
    """The object that an array's bytes belong to."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def scratch_of(executor):
    """Of values between ops, and of threads."""
    own = executor._interpreter
    threads = executor.threads * own.worker_bytes + own.shared_bytes
    return np.asarray(executor._arena).nbytes + threads


@pytest.mark.parametrize("mode", MODES)
def test_on_the_processor(tiny_llama, source, mode):
    options = EngineOptions(backend="cpu", mode=mode, context=96)
    plan = planned(source, options, backends.ExecutorChoice("cpu", ""), Machine(None))
    found = cpu_memory(plan.programs, plan.loaded, True)
    with running(tiny_llama, options) as runner:
        executor = runner.executor
        states = {name: np.asarray(memory).nbytes for name, memory in executor._state.items()}
        weights = [weight.data for weight in executor._weights.values()]
        scratch = scratch_of(executor)
    caches = sum(size for name, size in states.items() if "_cache." in name)
    assert (found.cache, found.maps) == (caches, sum(states.values()) - caches)
    assert found.scratch == scratch
    rooms = {
        id(under): len(under) for under in map(memory_under, weights) if hasattr(under, "madvise")
    }
    copies = sum(array.nbytes for array in weights if not hasattr(memory_under(array), "madvise"))
    assert found.weights == pytest.approx(sum(rooms.values()) + copies, abs=8192)
    assert found.loading >= found.weights - 8192


@pytest.mark.skipif("amxbf16emulated" not in emulated_isas(), reason="of x86-64 with AVX-512")
def test_each_thread_keeps_the_digits_of_a_prompt(source, monkeypatch):
    """Where floats are multiplied by AMX-BF16: of 4 bytes a value three digits of 2."""
    options = EngineOptions(backend="cpu", mode="fp32", activations="a32", context=96, threads=2)
    plan = planned(source, options, backends.ExecutorChoice("cpu", ""), Machine(None))
    programs, loaded = plan.programs, plan.loaded
    one, two, many = (cpu_memory(programs, loaded, True, n).scratch for n in (1, 2, 6))
    assert many - two == 4 * (two - one) > 0
    monkeypatch.setattr(processor, "available_isas", lambda: ["avx512vnni"])
    before = estimate(plan, Machine(None)).parts[2].host
    monkeypatch.setattr(processor, "available_isas", lambda: ["amxbf16emulated"])
    digits = 96 * 512 * 3 * 2  # a piece of 512 columns, at least
    assert estimate(plan, Machine(None)).parts[2].host >= before + 2 * digits


@pytest.mark.parametrize("mode", MODES)
def test_on_a_device(tiny_llama, source, device, mode):
    options = EngineOptions(backend="vulkan", mode=mode, context=96)
    choice = backends.choose(options, device)
    plan = planned(source, options, choice, Machine(None, device.info))
    found = vulkan_memory(plan.programs, plan.loaded, True, device.info)
    with running(tiny_llama, options, device=device) as runner:
        executor = runner.executor
        assert found.device_weights == executor._weights._arena.nbytes
        assert found.scratch >= executor._scratch.size
        assert found.scratch - executor._scratch.size < 1 << 17, "tables and parts of attention"
        states = {buffer[0].handle: buffer[0].size for buffer in executor._state.values()}
        assert found.cache + found.maps == sum(states.values())
        assert found.cache == runner.model_info.kv_bytes
        hosts = [b.size for b in executor._closing if getattr(b, "host", False)]
        assert found.host_scratch == sum(hosts) + executors_staging(device)


def executors_staging(device):
    return device.staging._buffer.size


def test_a_model_in_rows_is_laid_out_in_tiles_and_no_longer_mapped(source):
    """As stored, what is resident is the tiles, not the file beside them."""
    options = EngineOptions(backend="cpu", context=96)
    plan = planned(source, options, backends.ExecutorChoice("cpu", ""), Machine(None))
    rows = [one for one in plan.loaded.values() if _tile_bytes(one)]
    assert rows, "the fixture has blocks in rows"
    found = cpu_memory(plan.programs, plan.loaded, True)
    file = sum(one.stored_bytes for one in plan.loaded.values())
    assert found.weights < 1.2 * file
    assert found.loading > file


def test_parts_of_one_memory_count_once(source, device):
    options = EngineOptions(backend="vulkan", context=96)
    choice = backends.choose(options, device)
    apart = replace(device.info, kind="discrete", memory_bytes=1 << 33)
    whole = {}
    for kind, info in (("one", device.info), ("apart", apart)):
        machine = Machine(1 << 34, info)
        plan = planned(source, options, choice, machine)
        fit = whole[kind] = estimate(plan, machine, 10.0)
        assert fit.fits and fit.backend == "vulkan"
        assert fit.speed > 1
    assert all(part.device == 0 for part in whole["one"].parts)
    assert whole["one"].device_free is None
    assert {p.name for p in whole["apart"].parts if p.device} == {
        "weights", "cache", "scratch", "maps"
    }  # fmt: skip
    assert whole["apart"].device_free == 1 << 33
    small = Machine(1 << 34, replace(apart, memory_bytes=1000))
    assert not estimate(planned(source, options, choice, small), small).fits


def test_what_a_model_leaves_to_another(source, device):
    options = EngineOptions(backend="vulkan", context=96)
    choice = backends.choose(options, device)
    for kind in ("integrated", "discrete"):
        machine = Machine(1 << 34, replace(device.info, kind=kind, memory_bytes=1 << 33))
        plan = planned(source, options, choice, machine)
        left = left_by(plan, machine)
        fit, second = estimate(plan, machine), estimate(plan, left)
        taken = sum(part.device for part in fit.parts)
        assert (left.heap_taken == taken) if taken else 0 < left.heap_taken < 1 << 33
        assert left.host_free < machine.host_free
        if kind == "discrete":
            assert second.device_free == (1 << 33) - taken
        tight = replace(machine, device=replace(machine.device, memory_bytes=left.heap_taken))
        assert estimate(plan, tight).fits
        assert not estimate(plan, left_by(plan, tight)).fits, "one heap does not hold both"


def test_a_program_that_runs_counts_no_more(source):
    choice, options = backends.ExecutorChoice("cpu", ""), EngineOptions(backend="cpu")
    sizes = []
    for started in (False, True):
        machine = Machine(None, started=started)
        fit = estimate(planned(source, options, choice, machine), machine)
        assert fit.fits, "where the system does not tell"
        sizes.append(next(part.host for part in fit.parts if part.name == "program"))
    assert sizes[0] - sizes[1] == 40 << 20


def test_an_encoder_decoder_counts_its_encoder_and_its_beam(tmp_path, device):
    """What executors beside its own hold, on the processor and on a device."""
    folder = write_case(marian.FAMILY, "plain", tmp_path)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_beams": 3}))
    opened = open_source(folder)
    options = exact("cpu", context=48)
    plan = planned(opened, options, backends.ExecutorChoice("cpu", ""), Machine(None))
    assert len(plan.programs) == 3
    found = cpu_memory(plan.programs, plan.loaded, True)
    with running(folder, options) as runner:
        translate_with_beam(runner)
        executors = (runner.executor, *runner.beside)
        assert len(executors) == 3
        states = sum(np.asarray(m).nbytes for one in executors for m in one._state.values())
        assert found.cache + found.maps == states
        assert found.scratch == sum(map(scratch_of, executors))
    options = replace(options, backend="vulkan")
    choice = backends.choose(options, device)
    plan = planned(opened, options, choice, Machine(None, device.info))
    on_device = vulkan_memory(plan.programs, plan.loaded, True, device.info)
    with running(folder, options, device=device) as runner:
        translate_with_beam(runner)
        executors = (runner.executor, *runner.beside)
        buffers = [buffer[0] for one in executors for buffer in one._state.values()]
        assert on_device.cache + on_device.maps == sum({b.handle: b.size for b in buffers}.values())
    opened.close()


def test_an_encoder_has_no_cache_and_no_speed(tmp_path):
    """What it holds of a text counts among what a step takes."""
    family = encoder_family("bert")
    opened = open_source(write_encoder(family, next(iter(family.cases)), tmp_path))
    options = EngineOptions(backend="cpu", context=4096)
    plan = planned(opened, options, backends.ExecutorChoice("cpu", ""), Machine(None))
    fit, memory = estimate(plan, Machine(None), 10.0), cpu_memory(plan.programs, plan.loaded, True)
    assert not fit.writes and fit.context < 4096
    parts = {part.name: part.host for part in fit.parts}
    assert memory.cache > 0 == parts["cache"]
    assert parts["scratch"] == memory.scratch + memory.cache
    opened.close()


def translate_with_beam(runner):
    translator = translator_of(runner)
    translator.translate([5, 6, 7], translator.options(3, 4))


def test_a_mixture_tells_what_a_token_reads(tmp_path, source):
    path = write_mixture(family_of("qwen3_moe"), "plain", tmp_path)
    options, choice = EngineOptions(backend="cpu", context=64), backends.ExecutorChoice("cpu", "")
    mixture = open_source(path)
    fit = estimate(planned(mixture, options, choice, Machine(None)), Machine(None), None)
    mixture.close()
    weights = next(part.host for part in fit.parts if part.name == "weights")
    assert 0 < fit.active_bytes < weights
    dense = estimate(planned(source, options, choice, Machine(None)), Machine(None), None)
    assert dense.active_bytes == 0


@pytest.fixture
def mixture(tmp_path):
    """A file of a mixture whose experts lie in blocks."""
    opened = open_source(write_mixture_in_blocks(tmp_path))
    yield opened
    opened.close()


def test_of_experts_in_their_file_memory_holds_what_it_has_room_for(mixture):
    options = EngineOptions(backend="cpu", context=64, experts="file")
    plan = planned(mixture, options, backends.ExecutorChoice("cpu", ""), Machine(None))
    found = estimate(plan, Machine(None))
    with running(mixture.path, options) as runner:
        weights = runner.executor._weights
        in_file = {n for n, weight in weights.items() if weight.dtype == "q4_0" and "_exps" in n}
        held = sum(w.data.nbytes for n, w in weights.items() if n not in in_file)
        assert runner.executor_info.experts == "file" and in_file == plan.in_file
        assert runner.executor_info.active_bytes == found.active_bytes
    chosen = sum(weights[name].data.nbytes for name in in_file) * 3 // 12
    assert abs(found.parts[0].host - held - chosen) < 4096


def test_experts_stay_in_their_file_where_memory_does_not_hold_them(mixture):
    options, choice = EngineOptions(backend="cpu", context=64), backends.ExecutorChoice("cpu", "")

    def fit(machine, **changed):
        return Fitting(described(mixture), choice, machine).fit(replace(options, **changed))

    def taken(found):
        return sum(part.host for part in found.parts)

    roomy = fit(Machine(None))
    assert not roomy.in_file
    tight = fit(Machine(taken(roomy) - 1))
    assert tight.fits and 0 < tight.in_file < taken(roomy) - taken(tight) + roomy.active_bytes
    assert fit(Machine(None), experts="file").in_file == tight.in_file
    assert not fit(Machine(taken(roomy) - 1), experts="memory").fits
    assert not fit(Machine(taken(roomy) - 1), mode="int4").in_file, "converted ones are in memory"


def test_experts_go_where_they_fit(mixture, device):
    options, choice = (
        EngineOptions(backend="vulkan", context=64),
        backends.choose(EngineOptions(backend="vulkan"), device),
    )

    def found(on_device, host, **changed):
        info = replace(device.info, kind="discrete", memory_bytes=on_device)
        machine = Machine(host, info)
        plan = planned(mixture, replace(options, **changed), choice, machine)
        fit = estimate(plan, machine)
        return plan.experts, sum(p.device for p in fit.parts), sum(p.host for p in fit.parts)

    large = 1 << 40
    everything, on_device, host = found(large, large)
    assert everything == "memory"
    beside, left, with_experts = found(on_device - 1, large)
    assert beside == "cpu" and left < on_device and with_experts > host
    in_file, still, without = found(on_device - 1, with_experts - 1)
    assert in_file == "file" and still == left and without < with_experts
    assert found(1, 1)[0] == "memory", "nothing fits"
    assert found(large, large, experts="cpu") == ("cpu", left, with_experts)
    assert found(large, large, experts="file", mode="int4")[0] == "cpu"


def test_memory_beside_a_device_is_what_is_allocated(mixture, device):
    for experts in ("cpu", "file"):
        options = EngineOptions(backend="vulkan", context=64, experts=experts)
        plan = planned(mixture, options, backends.choose(options, device), Machine(None))
        found = estimate(plan, Machine(None, replace(device.info, kind="discrete")))
        with running(mixture.path, options, device=device) as runner:
            executor, partner = runner.executor, runner.executor._partner
            own = executor._weights.nbytes
            tiles = sum(w.data.nbytes for w in partner._weights.values())
        assert own <= found.parts[0].device < 1.1 * own
        chosen = tiles * 3 // 12
        expected = chosen if experts == "file" else tiles
        assert abs(found.parts[0].host - expected) < 0.1 * expected + 4096
