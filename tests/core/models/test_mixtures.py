"""Mixtures of experts in files: what does not fit is named, what is read of them, and how."""

import numpy as np
import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub.local.headers import read_header
from llm_lite.core.loading import sources
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.description.experts import joined_experts
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.traffic import op_read_bytes, token_read_bytes
from llm_lite.core.quant.modes import target_dtype
from llm_lite.core.quant.tensor import TensorData
from tests.families import VOCABULARY, family_of
from tests.family_checks import TOLERANCE, reference, with_stacked_experts, write_case
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running

FAMILY = family_of("qwen3_moe")
EXPERT = "model.layers.1.mlp.experts.4.up_proj.weight"


def entries():
    shapes = reference(FAMILY, "plain").shapes
    return {name: entry(FAMILY.values(name, shape, "plain")) for name, shape in shapes.items()}


def refusal(folder, tensors, **changes):
    config = {**FAMILY.raw("plain"), **changes}
    with pytest.raises(LlmLiteError) as caught:
        source = open_source(write_folder(folder, config, tensors, tokens=VOCABULARY))
        read_model(source.metadata, source.tensors, source.path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_expert_that_is_missing_or_unlike_the_others_is_named(tmp_path):
    tensors = entries()
    left = {name: one for name, one in tensors.items() if name != EXPERT}
    assert f"tensor {EXPERT} is missing" in refusal(tmp_path, left)
    narrow = tensors | {EXPERT: entry(np.zeros((31, 48), np.float32))}
    text = refusal(tmp_path, narrow)
    assert f"tensor {EXPERT}: expected f32 (32, 48) as of the first expert, found" in text
    last = {name: one for name, one in tensors.items() if ".experts.6." not in name}
    text = refusal(tmp_path, last)
    assert "tensor blk.0.ffn_gate_exps.weight: expected shape (224, 48), found (192, 48)" in text


def test_counts_that_do_not_fit_are_named(tmp_path):
    tensors = entries()
    text = refusal(tmp_path, tensors, num_experts_per_tok=8)
    assert "num_experts_per_tok is 8, expected 1 to 7" in text
    text = refusal(tmp_path, tensors, num_experts=8)
    assert "tensor blk.0.ffn_gate_inp.weight: expected shape (8, 48), found (7, 48)" in text
    text = refusal(tmp_path, tensors, moe_intermediate_size=40)
    assert "moe_intermediate_size is 40, expected a multiple of 16" in text
    text = refusal(tmp_path, tensors, mlp_only_layers=[1])
    assert "mlp_only_layers" in text


def test_experts_are_joined_by_their_numbers():
    values = {n: np.full((2, 3), n, np.float32) for n in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)}
    tensors = {
        f"a.experts.{n}.w": TensorData(f"a.experts.{n}.w", "f32", (2, 3), v.reshape(-1).view("u1"))
        for n, v in values.items()
    }
    (joined,) = joined_experts(tensors, "folder").values()
    assert (joined.name, joined.shape) == ("a.experts.w", (22, 3))
    assert joined.dequantize()[::2, 0].tolist() == [*range(11)]


def test_a_listing_reads_the_config_alone(tmp_path, monkeypatch):
    folder = write_case(FAMILY, "plain", tmp_path)
    monkeypatch.setattr(np, "concatenate", None)  # nothing is joined
    header = read_header("huggingface", folder)
    assert (header.architecture, header.vocabulary, header.problem) == ("qwen3moe", VOCABULARY, "")
    assert header.context == 64


def test_a_token_reads_the_experts_that_it_chooses(tmp_path):
    with running(write_case(FAMILY, "plain", tmp_path), exact("cpu")) as runner:
        program = runner.session.executor.program
        plan = program.plans[0]
        weights = runner.weights
        experts = sum(w.nbytes for name, w in weights.items() if "_exps" in name)
        others = sum(w.nbytes for name, w in weights.items() if "_exps" not in name)
        embedding = weights["token_embd.weight"].nbytes
        once = token_read_bytes(plan, 0)
        assert once == pytest.approx(others - embedding + embedding / VOCABULARY + experts * 3 / 7)
        product = next(op for op in plan.ops if op.name == "expert_matmul")
        whole = weights["blk.0.ffn_gate_exps.weight"].nbytes
        for tokens, part in ((1, 3 / 7), (2, 6 / 7), (9, 1)):
            step = program.step([5] * tokens, 0)
            assert op_read_bytes(plan, product, step) == pytest.approx(whole * part)


@pytest.mark.parametrize(
    ("mode", "router", "expert"),
    [
        ("as-stored", "f32", "f32"),
        ("fp32", "f32", "f32"),
        ("int8", "f16", "int8"),
        ("int4", "f16", "int4"),
    ],
)
def test_routers_stay_floats(mode, router, expert):
    def target(name):
        return target_dtype(TensorData(name, "f32", (64, 32), np.empty(0, np.uint8)), mode)

    assert target("blk.0.ffn_gate_inp.weight") == router
    assert target("blk.0.ffn_up_exps.weight") == expert


@pytest.mark.parametrize("name", ["qwen3_5_moe", "qwen3_moe", "olmoe"])
def test_experts_of_a_layer_may_be_one_tensor(name, tmp_path):
    """As checkpoints on the hub have those of Qwen3.5."""
    family = family_of(name)
    known = reference(family, "plain")
    apart = {n: family.values(n, shape, "plain") for n, shape in known.shapes.items()}
    stacks = with_stacked_experts(apart)
    gates = [n for n in stacks if n.endswith("experts.gate_proj.weight")]
    for gate in gates:
        stem = gate.removesuffix("gate_proj.weight")
        both = [stacks.pop(f"{stem}{one}_proj.weight") for one in ("gate", "up")]
        stacks[stem + "gate_up_proj"] = np.concatenate(both, axis=1)
        stacks[stem + "down_proj"] = stacks.pop(stem + "down_proj.weight")
    tensors = {n: entry(np.ascontiguousarray(values)) for n, values in stacks.items()}
    folder = write_folder(tmp_path, known.config, tensors, tokens=VOCABULARY)
    with running(folder, exact("cpu"), every_output=True) as runner:
        assert np.abs(runner.session.logits(known.tokens) - known.logits).max() < TOLERANCE


def test_experts_that_do_not_fit_into_memory_are_not_joined(tmp_path, monkeypatch):
    folder = write_case(FAMILY, "plain", tmp_path)
    monkeypatch.setattr(sources, "available_bytes", lambda: 1 << 10)
    with pytest.raises(LlmLiteError, match=r"to join its experts takes .* GiB of memory, and"):
        open_source(folder)


@pytest.mark.parametrize("name", ["qwen3_moe", "qwen3_5_moe", "lfm2_moe"])
def test_an_edit_goes_on_from_what_is_the_same(name, tmp_path):
    """Logits behind a text that was changed, and behind more of it, are those of the whole."""
    family = family_of(name)
    folder, tokens = write_case(family, "plain", tmp_path), reference(family, "plain").tokens
    edited = [*tokens[:17], *reversed(tokens[17:])]
    with running(folder, exact("cpu")) as runner, running(folder, exact("numpy")) as other:
        runner.session.prefill(tokens)
        found = [runner.session.prefill(edited[:-2])]
        found += [runner.session.decode(token) for token in edited[-2:]]
        for count, logits in zip((-2, -1, None), found, strict=True):
            other.session.clear()
            assert np.abs(logits - other.session.prefill(edited[:count])).max() < TOLERANCE
