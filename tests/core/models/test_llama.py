"""What the llama page refuses, in which words, and what it builds."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import FileError, UnsupportedError
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Kind
from llm_lite.core.records import replace
from tests.make_gguf import TinyLlama, llama_metadata, llama_tensors

PATH = Path("some/model.gguf")
OPTIONS = BuildOptions(16, "f16", "f16", "f16", False, (Bucket(1, 1), Bucket(8, 2)))


@dataclasses.dataclass(frozen=True)
class Weight:
    name: str
    dtype: str
    shape: tuple[int, ...]


def parts(**sizes):
    size = TinyLlama(**sizes)
    weights = {
        name: Weight(name, tensor.dtype, tensor.shape)
        for name, tensor in llama_tensors(size).items()
    }
    return llama_metadata(size), weights


def put(weights, name, shape, dtype="f32"):
    weights[name] = Weight(name, dtype, shape)


def refused(metadata, weights, error=FileError):
    with pytest.raises(error) as caught:
        read_model(metadata, weights, PATH)
    text = str(caught.value)
    assert text.startswith(f"{PATH}: ")
    assert "\n" not in text
    assert len(text) < 300
    return text


@pytest.mark.parametrize("name", sorted(parts()[1]))
def test_a_missing_tensor_is_named(name):
    metadata, weights = parts()
    del weights[name]
    assert f"tensor {name} is missing" in refused(metadata, weights)


@pytest.mark.parametrize("name", sorted(set(parts()[1]) - {"token_embd.weight"}))
def test_a_tensor_of_the_wrong_shape_is_named_with_both_shapes(name):
    metadata, weights = parts()
    right = weights[name].shape
    put(weights, name, (*right[:-1], right[-1] + 32))
    text = refused(metadata, weights)
    assert f"tensor {name}: expected shape {right}, found {weights[name].shape}" in text


@pytest.mark.parametrize("shape", [(300,), (300, 32), (300, 64, 1)])
def test_an_embedding_of_the_wrong_shape(shape):
    metadata, weights = parts()
    put(weights, "token_embd.weight", shape)
    assert f"token_embd.weight: expected shape (300, 64), found {shape}" in refused(
        metadata, weights
    )


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "blk.2.attn_q.weight", "x" * 5000])
def test_a_tensor_without_a_place(name):
    metadata, weights = parts()
    put(weights, name, (64,))
    assert name[:80] in refused(metadata, weights, UnsupportedError)


def test_an_unknown_architecture():
    metadata, weights = parts()
    metadata["general.architecture"] = "mamba" * 100
    text = refused(metadata, weights, UnsupportedError)
    assert "mamba" in text
    assert "llama" in text


@pytest.mark.parametrize("value", [None, 3, ["llama"]])
def test_no_architecture(value):
    metadata, weights = parts()
    metadata["general.architecture"] = value
    assert "general.architecture" in refused(metadata, weights)


REQUIRED = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
)


@pytest.mark.parametrize("key", REQUIRED)
def test_a_missing_field_is_named(key):
    metadata, weights = parts()
    del metadata["llama." + key]
    assert f"llama.{key}: the field is missing" in refused(metadata, weights)


BAD_FIELDS = [
    *((key, value) for key in REQUIRED[:5] for value in (0, -1, "64", 64.0, True, [64], 1 << 62)),
    *(
        (key, value)
        for key in ("attention.layer_norm_rms_epsilon", "rope.freq_base")
        for value in (float("nan"), float("inf"), -1e-5, 0.0, "1e-5", True, [1e-5])
    ),
    ("attention.head_count", 65),  # of 64 values
    ("attention.head_count_kv", 3),  # does not divide 4
    ("attention.head_count_kv", 8),  # more than there are heads
    ("attention.head_count_kv", 0),
    ("attention.key_length", 15),
    ("attention.value_length", 8),
    ("rope.dimension_count", 15),
    ("rope.dimension_count", 0),
    ("rope.dimension_count", 18),
    ("rope.scaling.type", 1),
    ("rope.scaling.type", "yarn" * 99),
    ("rope.pairing", "neighbours"),
]


@pytest.mark.parametrize(("key", "value"), BAD_FIELDS)
def test_a_bad_field_is_named(key, value):
    metadata, weights = parts()
    metadata["llama." + key] = value
    text = refused(metadata, weights)
    assert f"llama.{key}" in text or "llama.rope.dimension_count" in text or "attn_q" in text


def test_heads_that_do_not_divide_the_width():
    metadata, weights = parts()
    metadata["llama.attention.head_count"] = metadata["llama.attention.head_count_kv"] = 5
    del metadata["llama.rope.dimension_count"]
    assert "llama.attention.head_count: expected a divisor of the width, 64, found 5" in refused(
        metadata, weights
    )


@pytest.mark.parametrize("factor", [-1.0, float("nan"), "4"])
def test_a_bad_scaling_factor(factor):
    metadata, weights = parts()
    metadata |= {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": factor}
    assert "llama.rope.scaling.factor" in refused(metadata, weights)


def test_mixtures_of_experts_are_not_known_here():
    metadata, weights = parts()
    metadata["llama.expert_count"] = 8
    assert "llama.expert_count" in refused(metadata, weights, UnsupportedError)


def ropes(plan):
    return [op for op in plan.ops if op.name == "rope"]


def test_a_program_of_every_bucket():
    program = read_model(*parts(), PATH).build(OPTIONS)
    assert [(p.max_tokens, p.max_outputs) for p in program.plans] == [(1, 1), (8, 2)]
    assert (program.context, program.vocabulary) == (16, 300)
    for plan in program.plans:
        logits = plan.tensors[plan.logits]
        assert logits.shape == (plan.max_outputs, 300)
        states = {t.name: (t.dtype, t.shape) for t in plan.tensors if t.kind is Kind.STATE}
        names = {f"{kind}_cache.{layer}" for kind in "kv" for layer in (0, 1)}
        gains = {"head_gains": ("f32", (2, 4))}
        assert states == dict.fromkeys(names, ("f16", (16, 32))) | gains
        assert {t.fill for t in plan.tensors if t.name == "head_gains"} == {1}
        assert len({op.label for op in plan.ops}) == len(plan.ops)


@pytest.mark.parametrize("rows", [0, 12])
def test_where_maps_come_from(rows):
    options = replace(OPTIONS, query_rows=rows)
    for plan in read_model(*parts(), PATH).build(options).plans:
        tensors = {t.name: t for t in plan.tensors}
        for number, layer in enumerate(attention_layers(plan)):
            assert layer.keys == f"k_cache.{number}"
            assert layer.queries == (f"q_ring.{number}" if rows else None)
            assert (layer.heads, layer.kv_heads, layer.head_dim) == (4, 2, 16)
            assert (layer.scale, layer.window) == (0.25, 0)
            if rows:
                assert (tensors[layer.queries].dtype, tensors[layer.queries].shape) == (
                    "f16",
                    (12, 64),
                )
        assert len(attention_layers(plan)) == 2


def test_tied_and_untied_output():
    for tied, name in ((True, "token_embd.weight"), (False, "output.weight")):
        plan = read_model(*parts(tied=tied), PATH).build(OPTIONS).plans[0]
        assert plan.tensors[plan.ops[-1].inputs[1]].name == name


def test_rope_frequencies_of_the_file_are_used():
    metadata, weights = parts()
    plan = read_model(metadata, weights, PATH).build(OPTIONS).plans[0]
    assert {len(op.inputs) for op in ropes(plan)} == {1}
    put(weights, "rope_freqs.weight", (8,))
    plan = read_model(metadata, weights, PATH).build(OPTIONS).plans[0]
    assert {plan.tensors[op.inputs[1]].name for op in ropes(plan)} == {"rope_freqs.weight"}
    put(weights, "rope_freqs.weight", (16,))
    assert "rope_freqs.weight: expected shape (8,), found (16,)" in refused(metadata, weights)


@pytest.mark.parametrize(("said", "scale"), [("linear", 0.25), (None, 0.25), ("none", 1.0)])
def test_fields_reach_the_ops(said, scale):
    metadata, weights = parts(head_dim=32, rope_base=5e5, rms_epsilon=3e-6)
    if said:
        metadata["llama.rope.scaling.type"] = said
    metadata["llama.rope.scaling.factor"] = 4.0
    metadata["llama.rope.dimension_count"] = 16
    plan = read_model(metadata, weights, PATH).build(OPTIONS).plans[0]
    for op in ropes(plan):
        assert dict(op.params) == {
            "head_dim": 32,
            "rotary_dim": 16,
            "theta": 5e5,
            "scale": scale,
            "half_split": 0,
            "temperature": 0,
            "temperature_length": 1,
        }
    (attention, _) = (op for op in plan.ops if op.name == "attention")
    assert attention.params["scale"] == pytest.approx(32**-0.5)
    assert {op.params["eps"] for op in plan.ops if op.name == "rms_norm"} == {3e-6}


def test_a_whole_step_by_hand():
    """One token through one layer, in float64 and without the plan."""
    from llm_lite.core.exec.numpy_executor import NumpyExecutor
    from llm_lite.core.plan.step import Step
    from llm_lite.core.quant.tensor import TensorData

    size = TinyLlama(layers=1, dtype="f32", heads=2, kv_heads=2, width=8, ffn=12, context=8)
    weights = {
        name: TensorData(name, t.dtype, t.shape, np.frombuffer(t.data, np.uint8))
        for name, t in llama_tensors(size).items()
    }
    program = read_model(llama_metadata(size), weights, PATH).build(
        BuildOptions(8, "f32", "f32", "f32", False, (Bucket(1, 1),))
    )
    logits = NumpyExecutor(program, weights).run(Step(np.array([65], np.int32), 0))
    w = {name: t.dequantize().astype(np.float64) for name, t in weights.items()}

    def norm(x, name):
        return x / np.sqrt(np.mean(x * x) + size.rms_epsilon) * w[name]

    x = w["token_embd.weight"][65]
    h = norm(x, "blk.0.attn_norm.weight")  # alone, a token attends to its own value only
    x = x + w["blk.0.attn_output.weight"] @ (w["blk.0.attn_v.weight"] @ h)
    h = norm(x, "blk.0.ffn_norm.weight")
    gate = w["blk.0.ffn_gate.weight"] @ h
    up = w["blk.0.ffn_up.weight"] @ h
    x = x + w["blk.0.ffn_down.weight"] @ (gate / (1 + np.exp(-gate)) * up)
    expected = w["token_embd.weight"] @ norm(x, "output_norm.weight")
    np.testing.assert_allclose(logits[0], expected, atol=1e-5)
