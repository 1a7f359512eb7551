"""Gemma 4: its caches have two widths, and layers share them."""

import numpy as np

from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.attention_layers import attention_layers
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.cache_layers import cache_layers
from tests.families import TOKENS, VOCABULARY, family_of
from tests.family_checks import reference, write_case
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.runners import exact, running

GEMMA_4, UNIFIED = family_of("gemma4"), family_of("gemma4_unified")


def test_what_views_are_told(tmp_path):
    source = open_source(write_case(GEMMA_4, "shared", tmp_path))
    model = read_model(source.metadata, source.tensors, source.path)
    options = BuildOptions(64, "f16", "i8", "f16", False, (Bucket(1, 1), Bucket(4, 1)), 16)
    plan = model.build(options).plans[-1]
    layers = attention_layers(plan)
    assert [layer.head_dim for layer in layers] == [12, 12, 32] * 2
    assert [layer.window for layer in layers] == [5, 5, 0] * 2
    assert [layer.keys for layer in layers] == [f"k_cache.{i}" for i in (0, 1, 2, 3, 3, 2)]
    caches = {one.layer: (one.shared_with, one.keys.shape) for one in cache_layers(plan)}
    assert caches == {0: ((), (9, 24)), 1: ((), (9, 24)), 2: ((5,), (64, 64)), 3: ((4,), (9, 24))}
    rings = {t.name: t.shape for t in plan.tensors if t.name.startswith("q_ring")}
    assert rings == {f"q_ring.{i}": (16, 4 * width) for i, width in enumerate([12, 12, 32] * 2)}
    assert model.shape.head_dim == 32
    columns = sum(t.shape[1] for t in plan.tensors if t.name.startswith("q_ring"))
    assert model.shape.query_values == columns


def test_maps_read_heads_of_both_widths(tmp_path):
    path = write_case(GEMMA_4, "shared", tmp_path)
    with running(path, exact("cpu")) as runner:
        runner.session.prefill(reference(GEMMA_4, "shared").tokens)
        for layer, width in enumerate([12, 12, 32] * 2):
            q, k = runner.attention.queries(layer), runner.attention.keys(layer)
            assert (q.shape, k.shape) == ((TOKENS, 4, width), (TOKENS, 2, width))
            assert np.abs(q).min() > 0 and np.abs(k).min() > 0
            # The norms of queries and keys have weights near 1: heads of both widths are whole.
            assert (np.square(q).mean(2) < 2).all() and (np.square(q).mean(2) > 0.5).all()


def test_numbers_of_layers_are_vectors(tmp_path):
    source = open_source(write_case(GEMMA_4, "shared", tmp_path))
    scale = source.tensors["blk.3.layer_output_scale.weight"].dequantize()
    assert scale.shape == (44,)
    assert np.unique(scale).size == 1


def test_the_12b_leaves_out_what_takes_pictures_and_sound(tmp_path):
    """The names that transformers gives to a whole checkpoint; its text model is the one alone."""
    case = "keys as values"
    known = reference(UNIFIED, case)
    text = {
        name.replace("model.", "model.language_model.", 1): UNIFIED.values(name, shape, case)
        for name, shape in known.shapes.items()
    }
    others = (
        *("vision_embedder.patch_dense.bias", "vision_embedder.pos_embedding"),
        *(f"embed_{one}.embedding_projection.weight" for one in ("vision", "audio")),
    )
    tensors = {name: entry(values) for name, values in text.items()}
    tensors |= {f"model.{name}": entry(np.ones((2, 3), np.float32)) for name in others}
    config = {"model_type": "gemma4_unified", "text_config": known.config}
    write_folder(tmp_path / "whole" / "m", config, tensors, tokens=VOCABULARY)
    whole = open_source(tmp_path / "whole" / "m")
    alone = open_source(write_case(UNIFIED, case, tmp_path / "alone" / "m"))
    assert whole.metadata == alone.metadata
    assert set(whole.tensors) == set(alone.tensors)
    assert whole.notes == (
        "the vision tower (3 tensors) is not used: this is the text model",
        "the audio tower (1 tensors) is not used: this is the text model",
    )
