"""What sites make equals what hooks on transformers found, on every executor, by every name that
others have for a site: tests/fixtures/make_activations.py made these."""

import pytest

from llm_lite.core.models.registry import ARCHITECTURES, MODEL_TYPES
from llm_lite.core.questions.runner_replay import sites_of_runner
from llm_lite.core.records import replace
from tests import activation_checks, encoder_families, families, seq2seq_families
from tests.activation_cases import ENCODERS, FAMILIES, SEQ2SEQ
from tests.activation_checks import (
    TINY,
    TOLERANCE,
    differences,
    hooks,
    reading,
    smollm2_differences,
)
from tests.runners import BACKENDS
from tests.tiers import tiered

ON_VULKAN = ("llama.llama3", "gpt2.plain", "qwen3_next.all", "bert.masked", "t5.gated")

IN_GGUF = tuple(
    f"{name}.{case}"
    for name, cases in FAMILIES.items()
    for case in cases
    if (known := families.family_of(name).in_gguf) is None or case in known
)


def check(found, unknown, least):
    """Every name is compared with a hook: a wrong one is worse than none."""
    assert unknown == []
    assert len(found) >= least
    assert {name: one for name, one in found.items() if not one < TOLERANCE} == {}


@tiered(
    "backend,name",
    [(backend, name) for backend in BACKENDS for name in TINY],
    first=[(one, name) for one in BACKENDS for name in (TINY if one != "vulkan" else ON_VULKAN)],
)
def test_sites_of_tiny_models(name, backend, tmp_path, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    with reading(name, backend, tmp_path / "m", device) as runner:
        check(*differences(name, runner), 40)


@pytest.mark.parametrize("name", IN_GGUF)
def test_sites_of_gguf_files(name, tmp_path):
    """Some have the values of queries and keys, or of recurrent states, in another order: these
    have fewer names, and no wrong one."""
    with reading(name, "cpu", tmp_path / "m.gguf", None) as runner:
        check(*differences(name, runner), 35)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sites_of_smollm2(smollm2, backend, request):
    """Its file has the values of queries and keys in pairs: these have no names of others."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    found, unknown = smollm2_differences(smollm2, backend, device)
    assert unknown == ["lm_head"]  # logits are compared in tests/core/models/test_smollm2.py
    check(found, [], 40)
    assert not any(name.endswith(("q_proj", "hook_k", "hook_rot_q")) for name in found)
    assert any(name.endswith("v_proj") for name in found)


def test_every_family_is_compared():
    known = {
        MODEL_TYPES[str(families.family_of(one).config["model_type"])].gguf for one in FAMILIES
    }
    others = {
        MODEL_TYPES[str(module.family_of(one).config["model_type"])].gguf
        for module, group in ((encoder_families, ENCODERS), (seq2seq_families, SEQ2SEQ))
        for one in group
    }
    # EmbeddingGemma is Gemma 3 whose config says that it sees both sides.
    assert known | others | {"gemma3n", "gemma-embedding"} == set(ARCHITECTURES)


def test_a_name_of_another_place_is_found(tmp_path, monkeypatch):
    """The check can fail."""
    wrong = {"layers.0.attention.output": ("model.layers.0.mlp", "model.layers.0.nothing")}

    def renamed(runner):
        return tuple(
            replace(site, aliases=wrong.get(site.name, site.aliases))
            for site in sites_of_runner(runner)
        )

    monkeypatch.setattr(activation_checks, "sites_of_runner", renamed)
    with reading("llama.llama3", "cpu", tmp_path / "m", None) as runner:
        found, unknown = differences("llama.llama3", runner)
    assert unknown == ["model.layers.0.nothing"]
    assert [name for name, one in found.items() if one > TOLERANCE] == ["model.layers.0.mlp"]


def test_hooks_are_of_two_tokens():
    assert hooks("t5.gated")["encoder.block.0"].shape == (2, 36)
