"""What a head of a recurrent state wrote and read: its parts add up to what the model computes."""

import numpy as np
import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.exec import reference
from llm_lite.core.exec.reference import DeltaInputs
from llm_lite.core.messages import ReadStates
from llm_lite.core.plan.recurrent_layers import state_layers
from llm_lite.core.questions.question import advance
from llm_lite.core.questions.states import half_lives, head_reads
from tests.asking import asked, parts_of
from tests.children import PATIENCE
from tests.core.generation.test_recurrent_session import words
from tests.runners import BACKENDS, exact, running

CONTEXT, CLOSE = 1024, 1e-3


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])  # 30: some heads keep nothing, some all
def test_what_is_read_is_what_tokens_wrote(tiled, scale):
    rng = np.random.default_rng(1)
    heads, key_heads, key_dim, value_dim, tokens = 6, 2, 8, 5, 40
    qkv = rng.normal(0, 1, (tokens, 2 * key_heads * key_dim + heads * value_dim))
    decay, beta = (rng.normal(0, scale, (tokens, heads)) for _ in range(2))
    rate, bias = -np.exp(rng.normal(0, 1, heads)), rng.normal(0, 1, heads)
    state = rng.normal(0, 1, (heads * key_dim, value_dim))
    inputs = [np.float32(one) for one in (qkv, decay, beta, rate, bias)]
    sizes = {"heads": heads, "key_heads": key_heads, "key_dim": key_dim}
    y, left = reference.delta_rule(
        *inputs, np.float32(state), **sizes, value_dim=value_dim, tiled=tiled
    )
    given = DeltaInputs.of(*inputs, **sizes, tiled=tiled)
    for head in range(heads):
        start = np.float32(state).reshape(heads, key_dim, value_dim)[head]
        found = head_reads(given, head, start)
        own = y.reshape(tokens, heads, value_dim)[:, head]
        assert np.abs(found.read - own).max() <= CLOSE
        assert np.triu(found.weights, 1).max(initial=0) == 0
        shares, of_start = found.shares()
        read = np.abs(own).max(axis=1) > 1e-6
        assert np.abs(shares.sum(axis=1) + of_start - 1)[read].max() <= CLOSE
        norm = np.linalg.norm(left.reshape(heads, key_dim, value_dim)[head])
        assert found.norms[-1] == pytest.approx(norm, rel=1e-4, abs=1e-6)


def test_half_lives():
    kept = np.float32([[0.5, 1.0, 0.25, 0.0], [0.5, 1.0, 1.0, 0.5]])
    assert half_lives(kept).tolist() == pytest.approx([1, np.inf, 1, 0])


def made_alone(session, plan, text, layer):
    """The inputs and the result of a layer's delta rule, of a text that is read at once."""
    index, executor = state_layers(plan)[layer], session.executor
    step = session.step(text, 0)
    op = plan.ops[index]
    executor.run_ops(plan, step, 0, index, ("store",))
    inputs = [executor.read(plan, plan.tensors[i], step) for i in op.inputs[:3]]
    executor.run_ops(plan, step, index, index + 1)
    return op, inputs, executor.read(plan, plan.tensors[op.outputs[0]], step)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [1, 30, 200, 450])
def test_a_reading_is_of_what_the_model_computes(recurrent_folder, device, backend, length):
    """Of the whole text and of its last tokens, behind answers, with the state before them."""
    text = words(np.random.default_rng(length), length)
    with running(recurrent_folder, exact(backend), device=device) as runner:
        session = runner.session
        session.prefill(text[: max(1, length - 20)])
        for token in text[max(1, length - 20) :]:
            session.decode(token)
        before = {name: session.cache.states.read(length)[name].copy() for name in ("delta.0",)}
        layers = state_layers(runner.executor.program.plans[0])
        for layer, head, positions in ((0, 0, 64), (max(layers), 2, 500), (1, 1, 1)):
            found = asked(ReadStates(layer, head, positions), runner)
            count = min(positions, length)
            assert found.first == length - count
            assert len(found.shares) == len(found.kept) == len(found.norms) == count
            whole = np.sum(found.shares, axis=1) + found.of_start
            assert np.abs(whole - 1).max() <= CLOSE
            assert [at for at, _ in found.half_lives] == list(layers)
        assert session.tokens() == tuple(text) and session.cache.states.holds(length)
        now = session.cache.states.read(length)
        assert all((now[name] == rows).all() for name, rows in before.items()), "nothing is changed"


def test_the_parts_add_up_to_the_layers_output(recurrent_folder):
    text = words(np.random.default_rng(3), 120)
    with running(recurrent_folder, exact("numpy")) as runner:
        session = runner.session
        session.prefill(text[:90])
        session.prefill(text)
        layer, head = 1, 1
        found = asked(ReadStates(layer, head, 50), runner)
        plan = runner.executor.program.plan_for(len(text), 1)
        op, inputs, y = made_alone(session, plan, text, layer)
        width = int(op.params["value_dim"])
        mine = y[-50:, head * width : (head + 1) * width]
        norms = np.linalg.norm(mine, axis=1)
        assert norms.min() > 0
        # each share is the part of what is read that lies along the whole
        given = DeltaInputs.of(
            *inputs,
            *(runner.weights[plan.tensors[i].name].dequantize() for i in op.inputs[3:]),
            **{name: int(op.params[name]) for name in ("heads", "key_heads", "key_dim")},
            tiled=bool(op.params["tiled"]),
        )
        whole = head_reads(given, head, np.zeros((given.k.shape[2], width), np.float32))
        assert np.abs(whole.read[-50:] - mine).max() <= CLOSE
        shares, of_start = whole.shares()
        assert np.abs(np.array(found.shares) - shares[-50:, -50:]).max() <= CLOSE
        earlier = shares[-50:, :-50].sum(axis=1) + of_start[-50:]
        assert np.abs(np.array(found.of_start) - earlier).max() <= CLOSE
        assert np.allclose(found.kept, given.kept[-50:, head], atol=1e-5)
        assert np.allclose(found.written, given.written[-50:, head], atol=1e-5)


def test_a_reading_goes_on_between_steps(recurrent_folder):
    """Other steps may run between its parts; they and it come out as alone."""
    text = words(np.random.default_rng(4), 400)
    with running(recurrent_folder, exact("cpu")) as runner:
        session = runner.session
        session.prefill(text)
        request = ReadStates(0, 0, 300)
        alone = asked(request, runner)
        reading, slices = parts_of(request, runner), 0
        while (found := advance(reading, 0)) is None:
            session.decode(40 + slices)
            slices += 1
        assert slices >= 5
        assert found.first == alone.first
        assert np.abs(np.array(found.shares) - alone.shares).max() <= CLOSE


def test_a_text_that_is_gone_ends_the_reading(recurrent_folder):
    text = words(np.random.default_rng(4), 200)
    with running(recurrent_folder, exact("cpu")) as runner:
        runner.session.prefill(text)
        reading = parts_of(ReadStates(0, 0, 300), runner)
        assert advance(reading, 0) is None
        runner.session.clear()
        runner.session.prefill(text)
        with pytest.raises(RequestError, match="rewritten while it was read"):
            advance(reading, PATIENCE)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (ReadStates(3, 0), "layer 3 has no recurrent state; expected one of 0, 1, 2"),
        (ReadStates(0, 99), "layer 0 has states of heads 0 to"),
        (ReadStates(0, 0, 0), "positions: expected 1 or more, found 0"),
    ],
)
def test_what_is_not_there(recurrent_folder, wanted, sentence):
    with running(recurrent_folder, exact("cpu")) as runner:
        runner.session.prefill([40, 41])
        with pytest.raises(RequestError, match=sentence):
            asked(wanted, runner)
        runner.session.clear()
        with pytest.raises(RequestError, match="the cache is empty"):
            asked(ReadStates(0, 0), runner)


def test_convolutions_have_no_heads_to_read(convolution_folder):
    with running(convolution_folder, exact("cpu")) as runner:
        runner.session.prefill([40, 41])
        assert runner.model_info.recurrent_layers == (0, 1, 3)
        assert runner.model_info.delta_layers == ()
        with pytest.raises(RequestError, match="states of this model are of convolutions only"):
            asked(ReadStates(0, 0), runner)


def test_other_gains(recurrent_folder):
    with running(recurrent_folder, exact("cpu")) as runner:
        session = runner.session
        session.prefill([40, 41])
        session.set_gains(tuple((0.5,) * len(row) for row in session.gains))
        with pytest.raises(RequestError, match="other weights or interventions"):
            asked(ReadStates(0, 0), runner)


def test_in_python(recurrent_folder):
    with llm_lite.load(str(recurrent_folder), backend="cpu", context=256) as model:
        found = model.states("Why is the sky blue?", 1, 0)
        count = len(model.tokenize("Why is the sky blue?"))
        assert np.shape(found.shares) == (count, count) and found.first == 0
        assert np.abs(np.sum(found.shares, axis=1) - 1).max() <= CLOSE
        with pytest.raises(RequestError, match="layer 3 has no recurrent state"):
            model.states("a", 3, 0)
