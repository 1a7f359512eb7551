"""The simulated NPU: exact products, cycles by closed formulas, and the answers of C++."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_lite_uca import Uca
from llm_lite_uca.account import account_of, command_cycles, transfer_cycles
from llm_lite_uca.arithmetic import fma
from llm_lite_uca.compiler import Shape, commands_of
from llm_lite_uca.driver import Register, Status
from llm_lite_uca.layout import block_bytes, lay_out, unpacked
from llm_lite_uca.parameters import KV260, Parameters
from llm_lite_uca.simulator import Simulator

from llm_lite.core.exec.conformance import conformance
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.split import split_executor
from llm_lite.core.generation.steps import generate
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.processor import available_isas
from llm_lite.core.records import replace
from tests.core.exec.one_op import OneOp, steps, weight
from tests.make_huggingface import write_tiny_gemma3n
from tests.pairs import each_pair
from tests.runners import exact, running

SMALL = Parameters(rows=16, columns=16, weight_buffer=600, input_buffer=400)
WIDE = Parameters(rows=64, columns=48, weight_buffer=5000)
ARRAYS = {"as a KV260": KV260, "small": SMALL, "wide": WIDE}
FUSED = tuple(isa for isa in available_isas() if isa != "scalar")  # multiply and add at once
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(FLOATS, FLOATS, FLOATS)
def test_a_sum_is_rounded_once(a, b, c):
    a, b, c = map(np.float32, (a, b, c))
    exact_sum = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    with np.errstate(over="ignore"):
        found = float(fma(*(np.array([one]) for one in (a, b, c)))[0])
    if abs(exact_sum) < Fraction(2) ** 127:
        near = np.float32(found)
        beside = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
        error = abs(Fraction(float(near)) - exact_sum)
        assert all(error <= abs(Fraction(float(one)) - exact_sum) for one in beside)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
@pytest.mark.parametrize("columns", [16, 32, 48])
def test_a_layout_keeps_every_value(dtype, columns):
    values = np.random.default_rng(0).normal(size=(77, 96))
    found = weight("w", dtype, values)
    streams = lay_out(found, columns)
    integers, scales = zip(*(unpacked(one, dtype, columns) for one in streams), strict=True)
    by_row = np.concatenate(integers, axis=1).transpose(1, 0, 2)
    expected = found.dequantize().reshape(77, 3, 32)
    products = by_row * np.concatenate(scales, axis=1).T[:, :, None]
    np.testing.assert_array_equal(products[:77], expected)
    assert not products[77:].any()


@each_pair("isa, array, dtype, outputs, columns", FUSED, tuple(ARRAYS), ("int8", "int4"),
           (1, 16, 77, 130), (32, 96, 576))  # fmt: skip
def test_every_product_has_the_bits_of_cpp(isa, array, dtype, outputs, columns):
    case = OneOp(outputs + columns)
    case.inputs(columns, "x")
    case.random("w", outputs, columns, dtype=dtype)
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    program, weights = case.program(a8=True), case.weights
    cpu = CpuExecutor(program, weights, 2, isa=isa)
    both = split_executor(
        Uca(ARRAYS[array]), program, weights, lambda cut: CpuExecutor(program, weights, beside=cut)
    )
    for step in steps(case.rng):
        plan = program.plan_of(step)
        assert both.taken(plan) == 1
        y = plan.tensors[plan.ops[-1].outputs[0]]
        for executor in (cpu, both):
            executor.run_ops(plan, step, 0, len(plan.ops))
        np.testing.assert_array_equal(both.read(plan, y, step), cpu.read(plan, y, step))
    cpu.close()
    both.close()


FIVE_SHAPES = {
    "decode of SmolLM2": (Shape(1, 1536, 576, "int4"), "memory"),
    "decode of Llama 1B": (Shape(1, 8192, 2048, "int8"), "memory"),
    "decode of Gemma 3n": (Shape(1, 16384, 2048, "int4"), "memory"),
    "prompt of SmolLM2": (Shape(128, 1536, 576, "int4"), "array"),
    "prompt of Llama 1B": (Shape(128, 8192, 1024, "int8"), "array"),
}


@pytest.mark.parametrize("name", FIVE_SHAPES)
def test_an_account_follows_its_closed_formula(name):
    """Tiles of one command each: of n tiles the array makes C cycles each, and W and S move."""
    shape, bound = FIVE_SHAPES[name]
    array = replace(KV260, weight_buffer=1 << 20)
    commands = commands_of(shape, array)
    n = len(commands)
    assert n == shape.outputs // array.columns
    size = shape.blocks * block_bytes(shape.dtype, array.columns)
    x = transfer_cycles(shape.tokens * shape.row_bytes, array)
    w = transfer_cycles(size, array)
    s = transfer_cycles(4 * shape.tokens * array.columns, array)
    c = command_cycles(commands[0], array)
    passes = shape.blocks * 32 / array.rows
    assert c == array.command_cycles + passes * max(shape.tokens, array.rows / array.load_rows)
    if bound == "memory":
        assert c <= w, "of memory-bound tiles"
        cycles = x + n * w + (n - 2) * s + max(c, s) + s
    else:
        assert c >= w + s, "of array-bound tiles"
        cycles = x + w + n * c + s
    found = account_of(shape, array)
    assert found.cycles == pytest.approx(cycles + array.rows + array.columns, rel=1e-12)
    assert found.bound == bound and found.macs == shape.macs
    assert found.read_bytes == shape.tokens * shape.row_bytes + n * size
    assert found.written_bytes == 4 * shape.tokens * shape.outputs


def test_more_of_what_it_waits_for_makes_it_faster():
    decode, prompt = Shape(1, 4096, 2048, "int8"), Shape(128, 4096, 2048, "int8")
    faster = replace(KV260, ddr_gb_s=2 * KV260.ddr_gb_s)
    larger = replace(KV260, columns=2 * KV260.columns)
    assert account_of(decode, faster).cycles < 0.7 * account_of(decode, KV260).cycles
    assert account_of(prompt, faster).cycles > 0.9 * account_of(prompt, KV260).cycles
    assert account_of(prompt, larger).cycles < 0.6 * account_of(prompt, KV260).cycles
    assert 0.8 < account_of(prompt, KV260).utilisation(KV260) < 1


def test_the_array_counts_the_cycles_of_the_account():
    case = OneOp(3)
    case.inputs(576, "x")
    case.random("w", 200, 576, dtype="int4")
    case.build = lambda b: b.matmul(case.input(b, "x"), b.weight("w"), "y")
    program = case.program(a8=True)
    for array in ARRAYS.values():
        both = split_executor(
            Uca(array), program, case.weights,
            lambda cut: CpuExecutor(program, case.weights, beside=cut),
        )  # fmt: skip
        for step in steps(case.rng):
            plan = program.plan_of(step)
            both.run_ops(plan, step, 0, len(plan.ops))
            expected = account_of(Shape(step.count, 200, 576, "int4"), array).cycles
            assert both.runner.cycles["y"] == round(expected)
        both.close()


def test_a_command_beyond_its_memory_fails():
    simulator = Simulator(KV260, 4096)
    at = simulator.allocate(64)
    words = simulator.memory(at, 64).view(np.uint32)
    words[:12] = 8, 3, 4000, 9, 0, 400, 288, 0, 1, 0, 128, 32
    simulator.write(Register.COMMANDS, at // 64)
    simulator.write(Register.COUNT, 1)
    simulator.write(Register.CONTROL, 1)
    assert simulator.read(Register.STATUS) == Status.FAILED
    assert simulator.read(Register.FAULT) == 0
    with pytest.raises(MemoryError):
        simulator.allocate(8192)


def test_it_conforms():
    found = conformance(Uca())
    assert found.failures == ()
    assert found.cases["matmul"] >= 16


def greedy(path, options, words, count):
    with running(path, options) as runner:
        ids = runner.model_file.tokenizer.encode(words)
        sampling = SamplingOptions(temperature=0.0, repetition_penalty=1.0, max_new_tokens=count)
        choices = generate(runner.session, ids, sampling, frozenset())
        return [choice.token for choice in choices], runner.executor_info


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_smollm2_answers_as_on_cpp(smollm2, mode):
    expected, _ = greedy(smollm2, exact("cpu", mode=mode, activations="a8"), "The sea is", 6)
    found, info = greedy(smollm2, exact("uca", mode=mode, activations="a8"), "The sea is", 6)
    assert found == expected
    assert info.backend == "uca" and "210 of 211 products" in info.shared


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_small_gemma_3n_answers_as_on_cpp(tmp_path, mode):
    path = write_tiny_gemma3n(tmp_path / "gemma3n")
    options = {"mode": mode, "activations": "a8"}
    expected, _ = greedy(path, exact("cpu", **options), "abc", 12)
    found, _ = greedy(path, exact("uca", **options), "abc", 12)
    assert found == expected


def test_a_mode_that_it_does_not_take_is_said(smollm2):
    with running(smollm2, exact("uca", context=64)) as runner:
        info = runner.executor_info
        assert info.reason.startswith("no op with") and "q4_1" in info.reason
        assert info.shared == ""
