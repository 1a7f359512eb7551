"""What a gain does to the logits, on every executor, and that looking inside leaves no trace."""

import contextlib

import numpy as np
import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.sampling import likeliest
from llm_lite.core.loading import loader
from llm_lite.core.plan.plan import Kind
from llm_lite.core.quant.tensor import TensorData
from tests.asking import effect, lens, logits_at
from tests.make_gguf import write_tiny_llama
from tests.runners import BACKENDS, exact, running

PROMPT = list(range(40, 75))
LAYERS, HEADS = 2, 4


def gains_of(values):
    return tuple(tuple(float(g) for g in row) for row in np.asarray(values))


@pytest.fixture
def start(request, tmp_path):
    """Runners of a tiny float32 model, or another one, on a backend."""
    with contextlib.ExitStack() as stack:

        def start(backend, path=None, **changes):
            device = request.getfixturevalue("device") if backend == "vulkan" else None
            if path is None:
                path = write_tiny_llama(tmp_path / "tiny.gguf", dtype="f32", seed=2)
            return stack.enter_context(running(path, exact(backend, **changes), device=device))

        yield start


def state_of(runner):
    """Every state tensor but the gains."""
    executor = runner.executor
    plan, step = executor.program.plans[0], runner.session.step([0], 0)
    states = [t for t in plan.tensors if t.kind is Kind.STATE and t.name != "head_gains"]
    return {t.name: executor.read(plan, t, step) for t in states}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gain_is_one_last_product(start, backend):
    """Powers of two come out bit for bit, so 1 does: nothing else in the op depends on it."""
    runner = start(backend)
    executor, session = runner.executor, runner.session
    plan, step = executor.program.plans[-1], session.step(PROMPT, 0)
    index = next(i for i, op in enumerate(plan.ops) if op.name == "attention")
    output = plan.tensors[plan.ops[index].outputs[0]]
    found = {}
    for gain in (1.0, 2.0, -0.5, 0.0):
        session.write_gains(gains_of(np.full((LAYERS, HEADS), gain)))
        executor.run_ops(plan, step, 0, index + 1)
        found[gain] = executor.read(plan, output, step)
    assert np.abs(found[1.0]).max() > 0.01
    for gain, values in found.items():
        np.testing.assert_array_equal(values, found[1.0] * np.float32(gain))


def without_head(tensors, layer, head, heads):
    """The weights with a head's columns of the output projection zeroed: whole blocks, whose bytes
    of zero are weights of zero."""
    stored = tensors[f"blk.{layer}.attn_output.weight"]
    assert stored.shape[1] // heads % stored.format.block_size == 0
    data = stored.data.copy().reshape(stored.shape[0], heads, -1)
    data[:, head] = 0
    return TensorData(stored.name, stored.dtype, stored.shape, data.reshape(-1))


def logits_without(runner, weight, prompt, monkeypatch, device):
    """What a model with this weight in its place says."""
    file = runner.model_file
    convert = loader.converted

    def replaced(*which, **how):
        weights, parts = convert(*which, **how)
        return {**weights, weight.name: weight}, parts

    options = exact(runner.choice.backend)
    with monkeypatch.context() as patch:
        patch.setattr(loader, "converted", replaced)
        other = loader.start(file, options, device, lambda *_: None)
    try:
        return other.session.prefill(prompt)
    finally:
        other.close()


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 3), (1, 2)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gain_0_is_the_head_cut_out(start, backend, layer, head, monkeypatch):
    runner = start(backend)
    before = runner.session.prefill(PROMPT)
    gains = np.ones((LAYERS, HEADS))
    gains[layer, head] = 0
    runner.session.set_gains(gains_of(gains), throughout=True)
    found = runner.session.prefill(PROMPT)
    weight = without_head(runner.model_file.file.tensors, layer, head, HEADS)
    expected = logits_without(runner, weight, PROMPT, monkeypatch, runner.choice.device)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found - before).max() > 1e-2


def test_gain_0_is_the_head_cut_out_of_smollm2(start, smollm2, monkeypatch):
    runner = start("cpu", smollm2)
    rng, prompt = np.random.default_rng(1), list(range(1000, 1040))
    before = runner.session.prefill(prompt)
    for layer, head in [(0, 3), (29, 8), *rng.integers(0, (30, 9), (2, 2)).tolist()]:
        gains = np.ones((30, 9))
        gains[layer, head] = 0
        runner.session.set_gains(gains_of(gains), throughout=True)
        found = runner.session.prefill(prompt)
        weight = without_head(runner.model_file.file.tensors, layer, head, 9)
        expected = logits_without(runner, weight, prompt, monkeypatch, None)
        assert np.abs(found - expected).max() <= 1e-4
        assert np.abs(found - before).max() > 1e-3


def test_gains_hold_from_the_next_step_and_throughout_when_asked(start):
    runner = start("numpy")
    session = runner.session
    ones, half = session.gains, gains_of(np.full((LAYERS, HEADS), 0.5))
    session.prefill(PROMPT)
    version = session.committed.version
    session.set_gains(half)
    assert session.context_used == len(PROMPT), "the cache stays"
    assert session.committed.version > version
    mixed = session.decode(7)
    session.set_gains(half, throughout=True)
    assert session.context_used == 0, "a part of it was made with others"
    whole = session.prefill([*PROMPT, 7])
    assert np.abs(whole - mixed).max() > 1e-3
    session.set_gains(half, throughout=True)
    assert session.context_used == len(PROMPT) + 1, "all of it was made with these"
    session.set_gains(ones, throughout=True)
    assert session.context_used == 0


@pytest.mark.parametrize(
    "gains",
    [(), ((1.0,) * 4,), ((1.0,) * 4, (1.0,) * 3), ((1.0,) * 4, (1.0, 1.0, float("nan"), 1.0))],
)
def test_gains_that_do_not_fit_are_refused(start, gains):
    session = start("numpy").session
    before = session.gains
    with pytest.raises(RequestError, match="gains: expected"):
        session.set_gains(gains)
    assert session.gains == before


@pytest.mark.parametrize("kv", ["fp16", "fp32"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_looking_inside_leaves_no_trace(start, backend, kv):
    runner = start(backend, keys=kv, values=kv)
    session = runner.session
    session.prefill(PROMPT)
    gains = np.ones((LAYERS, HEADS))
    gains[1] = 0.25
    session.set_gains(gains_of(gains))
    last = session.decode(9)
    before, committed = state_of(runner), session.committed
    behind = lens(session, len(PROMPT))
    assert [layer for layer, _ in behind] == [0, 1]
    tolerance = {"atol": 1e-4, "rtol": 0}
    np.testing.assert_allclose(behind[-1][1], last, **tolerance)
    assert np.abs(behind[0][1] - behind[1][1]).max() > 0.1
    np.testing.assert_allclose(logits_at(session, len(PROMPT)), last, **tolerance)
    lens(session, 3)
    assert effect(session) > 1e-6
    after = state_of(runner)
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values)
    assert session.committed == committed
    assert session.gains == gains_of(gains)
    np.testing.assert_array_equal(session.decode(5), again(start, backend, kv, gains))


def again(start, backend, kv, gains):
    """The same without looking."""
    session = start(backend, keys=kv, values=kv).session
    session.prefill(PROMPT)
    session.set_gains(gains_of(gains))
    session.decode(9)
    return session.decode(5)


def test_the_lens_by_hand(start):
    """The prompt up to there, from the start, stopped behind the layer."""
    session = start("numpy").session
    session.prefill(PROMPT)
    layer, found = lens(session, 5)[0]
    assert layer == 0
    runner = start("numpy")
    other, step = runner.executor, runner.session.step(PROMPT[:6], 0)
    plan = other.program.plan_of(step)
    cut = next(i for i, op in enumerate(plan.ops) if op.label == "layers.0.feed_forward.residual")
    tail = next(i for i, op in enumerate(plan.ops) if op.name == "output_rows")
    other.run_ops(plan, step, 0, cut + 1)
    residual = other.read(plan, plan.tensors[plan.ops[cut].outputs[0]], step)
    other.write(plan, plan.tensors[plan.ops[tail].inputs[0]], step, residual)
    other.run_ops(plan, step, tail, len(plan.ops))
    expected = other.read(plan, plan.tensors[plan.logits], step)[-1]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_no_effect_where_gains_are_1(start):
    session = start("numpy").session
    session.prefill(PROMPT)
    assert effect(session) == 0
    ablated = gains_of(np.zeros((LAYERS, HEADS)))
    session.set_gains(ablated)
    p = softmax(logits_at(session, len(PROMPT) - 1, plain=True))
    q = softmax(logits_at(session, len(PROMPT) - 1))
    assert effect(session) == pytest.approx(float((p * np.log(p / q)).sum()))


def softmax(logits):
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize("position", [-1, 35, 1 << 40])
def test_a_position_that_is_not_there(start, position):
    session = start("numpy").session
    session.prefill(PROMPT)
    with pytest.raises(RequestError, match=f"position {position} is not in the cache"):
        lens(session, position)


@pytest.mark.parametrize("count", [3, 5, 128, 129, 300, 49152])
def test_the_likeliest_are_the_likeliest(count):
    rng = np.random.default_rng(count)
    for logits in (rng.normal(0, 3, count), rng.integers(0, 4, count)):
        logits = logits.astype(np.float32)
        found = likeliest(logits)
        falling = np.sort(softmax(logits))[::-1][:5]
        assert len({token for token, _ in found}) == min(5, count)
        np.testing.assert_allclose([p for _, p in found], falling, rtol=1e-5)
        np.testing.assert_allclose(
            [softmax(logits)[token] for token, _ in found], falling, rtol=1e-5
        )
