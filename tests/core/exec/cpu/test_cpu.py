"""The C++ executor as a whole: models, threads, stopping, and requests that it must refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from llm_lite_kernels import _cpp

from llm_lite.core.errors import CancelledError, OutOfDeviceMemoryError, RequestError
from llm_lite.core.exec.compare import compare
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.formats.gguf_reader import GgufFile, open_gguf
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import available_isas, cpu_features, read_gb_s
from llm_lite.core.quant.tensor import TensorData
from tests.children import PATIENCE
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT

CONTEXT = 96


def tiny(folder: Path, **sizes: object) -> GgufFile:
    return open_gguf(write_tiny_llama(folder / "tiny.gguf", **sizes))


def program_of(
    file: GgufFile, *, a8: bool = False, kv: str = "f32", context: int = CONTEXT
) -> Program:
    model = read_model(file.metadata, file.tensors, file.path)
    buckets = (Bucket(1, 1), Bucket(40, 40))
    return model.build(BuildOptions(context, kv, kv, kv, a8, buckets))


def conversation() -> list[Step]:
    """Prefill, one token, some more, one token: positions 0..62."""
    rng = np.random.default_rng(3)
    steps, start = [], 0
    for count in (40, 1, 5, 1, 15, 1):
        steps.append(Step(rng.integers(0, 300, count).astype(np.int32), start, count))
        start += count
    return steps


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"])
def test_logits_of_a_tiny_llama(tmp_path: Path, dtype: str, isa: str) -> None:
    file = tiny(tmp_path, dtype=dtype)
    for a8 in (False, True) if dtype.startswith("q") else (False,):
        program = program_of(file, a8=a8)
        cpu = CpuExecutor(program, file.tensors, 2, isa=isa)
        reference = NumpyExecutor(program, file.tensors)
        # int8 rounding is a step function: a last bit may move a value by a whole level
        tolerance = 0.05 if a8 else 2e-5
        for step in conversation():
            found, expected = cpu.run(step), reference.run(step)
            assert found.shape == expected.shape == (step.count, 300)
            assert np.abs(found - expected).max() <= tolerance


@pytest.mark.parametrize("kv", ["f16", "f32"])
@pytest.mark.parametrize("a8", [False, True])
def test_no_op_leaves_its_tolerance(tmp_path: Path, kv: str, a8: bool) -> None:
    file = tiny(tmp_path, heads=16, kv_heads=2, head_dim=10)
    program = program_of(file, a8=a8, kv=kv)
    cpu, reference = CpuExecutor(program, file.tensors), NumpyExecutor(program, file.tensors)
    for step in conversation():
        assert compare(reference, cpu, step) is None


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_the_number_of_threads_changes_nothing(tmp_path: Path, threads: int) -> None:
    file = tiny(tmp_path, width=256, ffn=512, vocab=700)
    program = program_of(file, a8=True)
    alone = CpuExecutor(program, file.tensors, 1)
    cpu = CpuExecutor(program, file.tensors, threads)
    for step in conversation():
        np.testing.assert_array_equal(cpu.run(step), alone.run(step))


def test_busy_neighbours_do_not_stop_it(tmp_path: Path) -> None:
    """Three executors of as many threads as cores, at once: tasks taken, none waited for."""
    file = tiny(tmp_path, width=256, ffn=512)
    program = program_of(file)
    step = Step(np.arange(40, dtype=np.int32), 0, 1)
    code = (
        "import sys, pathlib; import numpy as np\n"
        "from tests.core.exec.cpu.test_cpu import *\n"
        "file = open_gguf(sys.argv[1]); cpu = CpuExecutor(program_of(file), file.tensors)\n"
        "for i in range(50): logits = cpu.run(Step(np.arange(40, dtype=np.int32), 0, 1))\n"
        "sys.stdout.buffer.write(logits.tobytes())"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(file.path)], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    expected = CpuExecutor(program, file.tensors).run(step).tobytes()
    for run in runs:
        assert run.communicate(timeout=PATIENCE)[0] == expected


def test_threads_may_come_and_go_at_any_moment(tmp_path: Path) -> None:
    """Leaving a core to others changes no value and loses no task."""
    file = tiny(tmp_path, width=256, ffn=512)
    executor = CpuExecutor(program_of(file), file.tensors, threads=3)
    expected = [executor.run(step) for step in conversation()]
    done = threading.Event()

    def flicker() -> None:
        while not done.is_set():
            executor.leave_a_core(True)
            executor.leave_a_core(False)

    other = threading.Thread(target=flicker)
    other.start()
    try:
        for _ in range(30):
            for step, logits in zip(conversation(), expected, strict=True):
                np.testing.assert_array_equal(executor.run(step), logits)
    finally:
        done.set()
        other.join()
        executor.close()


def test_a_closed_executor_leaves_nothing(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    executor = CpuExecutor(program_of(file), file.tensors, threads=2)
    executor.leave_a_core(True)
    executor.close()
    executor.leave_a_core(False)


def test_stops_when_asked_and_goes_on_after(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    program = program_of(file)
    cpu = CpuExecutor(program, file.tensors)
    step = conversation()[0]
    expected = cpu.run(step)
    with pytest.raises(CancelledError):
        cpu.run(step, lambda: True)
    asked = []
    np.testing.assert_array_equal(cpu.run(step, lambda: bool(asked.append(1))), expected)
    assert asked


def test_looks_for_a_wish_to_stop_within_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With slices of no time a step comes back after every phase, and still computes the same."""
    file = tiny(tmp_path)
    cpu = CpuExecutor(program_of(file), file.tensors)
    step = conversation()[0]
    expected = cpu.run(step)
    monkeypatch.setattr("llm_lite.core.exec.cpu.executor._SLICE_US", 0)
    asked: list[int] = []
    np.testing.assert_array_equal(cpu.run(step, lambda: bool(asked.append(1))), expected)
    assert len(asked) > 10
    with pytest.raises(CancelledError):
        cpu.run(step, lambda: len(asked) > 20 or bool(asked.append(1)))


def test_rests_between_steps(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    cpu = CpuExecutor(program_of(file), file.tensors, 3)
    cpu.run(conversation()[0])
    for _ in range(120):  # until the threads have fallen asleep
        before = time.process_time()
        time.sleep(0.5)
        if time.process_time() - before < 0.02:
            return
    raise AssertionError("threads without work never rest")


def test_refuses_what_would_lead_outside_a_tensor(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    cpu = CpuExecutor(program_of(file), file.tensors)

    def tokens(*ids: int) -> np.ndarray:
        return np.array(ids, np.int32)

    for ids in ((300,), (-1,), (5, 2**31 - 1)):
        with pytest.raises(RequestError, match="is not in the vocabulary of 300"):
            cpu.run(Step(tokens(*ids), 0))
    for start in (-1, CONTEXT, CONTEXT - 1):
        with pytest.raises(RequestError, match="do not fit a context of 96"):
            cpu.run(Step(tokens(1, 2), start))
    for step in (Step(tokens(), 0, 0), Step(tokens(1), 0, 2), Step(tokens(1), 0, -1)):
        with pytest.raises((RequestError, ValueError)):
            cpu.run(step)
    assert np.isfinite(cpu.run(Step(tokens(299), CONTEXT - 1))).all()


def test_refuses_weights_of_the_wrong_size(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    program = program_of(file)
    name = "blk.0.attn_q.weight"
    good = file.tensors[name]
    for bad in (
        TensorData(name, good.dtype, good.shape, good.data[:-20]),
        TensorData(name, good.dtype, (good.shape[0], 80), good.data),
        TensorData(name, "q4_0", good.shape, good.data),
    ):
        with pytest.raises(ValueError, match=r"weight blk\.0\.attn_q\.weight"):
            CpuExecutor(program, {**file.tensors, name: bad})


def test_weights_at_odd_addresses_are_moved(tmp_path: Path) -> None:
    file = tiny(tmp_path, dtype="f16")
    program = program_of(file)
    odd = {}
    for name, tensor in file.tensors.items():
        memory = np.empty(tensor.nbytes + 1, np.uint8)
        memory[1:] = tensor.data
        odd[name] = TensorData(name, tensor.dtype, tensor.shape, memory[1:])
    step = conversation()[0]
    expected = CpuExecutor(program, file.tensors).run(step)
    np.testing.assert_array_equal(CpuExecutor(program, odd).run(step), expected)


def test_a_cache_beyond_all_memory_is_a_clear_error(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    for context in (1 << 44, 1 << 70):
        with pytest.raises(OutOfDeviceMemoryError, match="choose a shorter context"):
            CpuExecutor(program_of(file, context=context), file.tensors)


@pytest.mark.parametrize("threads", [-1, 1 << 20])
def test_refuses_an_absurd_number_of_threads(tmp_path: Path, threads: int) -> None:
    file = tiny(tmp_path)
    with pytest.raises(RequestError, match="threads: expected 0"):
        CpuExecutor(program_of(file), file.tensors, threads)


def test_an_interrupt_is_heard_within_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tiny(tmp_path)
    cpu = CpuExecutor(program_of(file), file.tensors)
    step = conversation()[0]
    expected = cpu.run(step)
    monkeypatch.setattr("llm_lite.core.exec.cpu.executor._SLICE_US", 0)
    with pytest.raises(KeyboardInterrupt):
        cpu.run(step, lambda: bool(signal.raise_signal(signal.SIGINT)))
    np.testing.assert_array_equal(cpu.run(step), expected)


def test_closing_twice_and_with_threads_at_rest(tmp_path: Path) -> None:
    file = tiny(tmp_path)
    cpu = CpuExecutor(program_of(file), file.tensors, 3)
    assert cpu.weight_bytes == sum(t.nbytes for t in file.tensors.values())
    cpu.run(conversation()[0])
    cpu.close()
    cpu.close()


def test_an_instruction_set_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_LITE_ISA", available_isas()[0])
    assert len(available_isas()) == 1
    monkeypatch.setenv("LLM_LITE_ISA", "mmx")
    with pytest.raises(RequestError, match="LLM_LITE_ISA is 'mmx', expected one of"):
        available_isas()


@pytest.mark.parametrize("name", available_isas())
def test_a_lesser_processor_can_be_stood_for(name: str) -> None:
    """It has what the build of that name needs and no more: those above it do not exist."""
    code = (
        "from llm_lite.core.processor import available_isas, cpu_features, emulated_isas\n"
        "print(available_isas(), emulated_isas(), [n for n, has in cpu_features().items() if has])"
    )
    found = python(code, LLM_LITE_PROCESSOR=name).stdout
    isas, emulated, features = found.strip()[1:-1].split("] [")
    assert isas.split(", ")[-1] == repr(name)
    assert bool(emulated) == ("avx512vnni" in name or "amx" in name)
    assert ("avx512f" in features) == ("avx512" in name or "amx" in name)


def test_an_unknown_processor_is_said_in_a_sentence() -> None:
    code = "from llm_lite.core.processor import available_isas\navailable_isas()"
    said = python(code, LLM_LITE_PROCESSOR="mmx").stderr.splitlines()[-1]
    lowest = _cpp.available_isas()[0]
    sentence = f"LLM_LITE_PROCESSOR is 'mmx', expected one of {lowest}"
    assert f"RequestError: {sentence}" in said


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("LLM_LITE_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=own | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_memory_reads_at_a_plausible_speed() -> None:
    assert 0.1 < read_gb_s(os.cpu_count() or 1) < 10_000


def test_features_explain_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    features = cpu_features()
    monkeypatch.delenv("LLM_LITE_ISA", raising=False)
    assert features and set(map(type, features.values())) == {bool}
    for name in ("avx512vnni", "i8mm"):
        assert features.get(name, False) == (name in available_isas())


def test_threads_that_have_just_begun_can_be_ended() -> None:
    """Whoever wakes while the pool ends sees that it does, and waits for nothing more."""
    isa = _cpp.available_isas()[-1]
    for _ in range(2000):
        _cpp.Interpreter(isa, 4)
