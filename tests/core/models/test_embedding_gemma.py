"""EmbeddingGemma: from GGUF, as a variant, its texts; what is refused of it."""

import json
from contextlib import contextmanager

import numpy as np
import pytest
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, PoolingType, get_tensor_name_map

from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.encoder_checks import TOLERANCE, shapes_of, started, stored, write_case
from tests.encoder_families import dense_tensors, family_of
from tests.family_checks import gguf_name, write_common, write_tokenizer

FAMILY = family_of("embedding_gemma")


@contextmanager
def running_encoder(path, backend="numpy"):
    runner = started(path, backend)
    try:
        yield runner
    finally:
        runner.close()
        runner.model_file.close()


def write_gguf(case, path, *, dense=True):
    """EmbeddingGemma as llama.cpp's conversion writes it, with its dense layers or without."""
    known = stored(FAMILY.name, case)
    config = json.loads(str(known["config"]))
    writer = GGUFWriter(path, MODEL_ARCH_NAMES[MODEL_ARCH.GEMMA_EMBEDDING])
    write_common(writer, {**config, "rope_theta": 1e6})
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern(
        [kind == "sliding_attention" for kind in config["layer_types"]]
    )
    writer.add_pooling_type(PoolingType.MEAN)
    write_tokenizer(writer)
    names = get_tensor_name_map(MODEL_ARCH.GEMMA_EMBEDDING, config["num_hidden_layers"])
    for name, shape in shapes_of(FAMILY, case).items():
        values = FAMILY.values(name, shape)
        values = values + np.float32(1) if "norm" in name else values
        writer.add_tensor(gguf_name(names, f"model.{name}"), values)
    if dense:
        layers = FAMILY.dense_shapes(case, config["hidden_size"])
        for number, shapes in enumerate(layers):
            (matrix,) = dense_tensors(FAMILY, number, shapes).values()
            stem = f"dense_{number + 2}"
            writer.add_dense_features_dims(stem, *reversed(matrix.shape))
            writer.add_tensor(f"{stem}.weight", matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("dense", [True, False])
def test_gguf_of_embedding_gemma(dense, tmp_path):
    """Where it lacks the dense layers, vectors are the mean of hidden states."""
    known = stored(FAMILY.name, "windows")
    with running_encoder(write_gguf("windows", tmp_path / "m.gguf", dense=dense)) as runner:
        tokens = known["tokens"].tolist()
        hidden = runner.session.hidden(tokens)
        assert np.abs(hidden - known["hidden"]).max() < TOLERANCE
        mean = hidden.mean(0)
        expected = known["embedding"] if dense else mean / np.linalg.norm(mean)
        assert np.abs(runner.embed_tokens([tokens])[0] - expected).max() < TOLERANCE


def test_a_variant_of_embedding_gemma_keeps_its_dense_layers(tmp_path):
    """From either file; and its window on both sides."""
    folder = write_case(FAMILY, "windows", tmp_path / "m")
    known = stored(FAMILY.name, "windows")
    for number, path in enumerate((folder, write_gguf("windows", tmp_path / "m.gguf"))):
        file = loader.open_model(str(path), lambda *_: None, lambda text: None)
        try:
            quantize(file, tmp_path / f"{number}", "fp32")
        finally:
            file.close()
        with running_encoder(tmp_path / f"{number}") as runner:
            found = runner.embed_tokens([known["tokens"].tolist()])[0]
            assert np.abs(found - known["embedding"]).max() < TOLERANCE


BAD = [
    ({"attn_logit_softcapping": 50.0}, "caps of scores of an encoder are not known here"),
    ({"hidden_activation": "relu"}, "hidden_activation is 'relu': such a feed-forward is not"),
    ({"use_bidirectional_attention": 1}, "use_bidirectional_attention is 1, expected true or"),
    ({"sliding_window": 0}, "sliding_window is 0, expected 1 to 65536"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_configs(changes, message, tmp_path):
    folder = write_case(FAMILY, "windows", tmp_path, **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)


def test_a_width_of_gguf_that_its_dense_layer_has_not(tmp_path):
    source = open_source(write_gguf("windows", tmp_path / "m.gguf"))
    metadata = {**source.metadata, "gemma-embedding.dense_3_feat_out": 44}
    message = r"tensor dense.1.weight: expected shape \(44, 60\), found \(45, 60\)"
    with pytest.raises(LlmLiteError, match=message):
        read_model(metadata, source.tensors, source.path)
    source.close()


PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: ", "x": ""}


def test_prompts_stand_before_texts_of_a_task(tmp_path):
    """Also of a variant."""
    folder = write_case(FAMILY, "windows", tmp_path / "m")
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": PROMPTS}))
    file = loader.open_model(str(folder), lambda *_: None, lambda text: None)
    quantize(file, tmp_path / "variant", "fp32")
    file.close()
    for path in (folder, tmp_path / "variant"):
        with running_encoder(path) as runner:
            assert dict(runner.embedding.prompts).keys() == {"query", "document"}
            found = runner.embed(["cat"], "document")
            assert np.abs(found - runner.embed(["title: none | text: cat"])).max() < 1e-6
            assert np.abs(found - runner.embed(["cat"])).max() > 1e-2
            message = "no prompt for the task 'ask': it has those for query, document"
            with pytest.raises(RequestError, match=message):
                runner.embed(["cat"], "ask")


@pytest.mark.parametrize(("prompts", "shown"), [([], "a list of 0"), ({"a": 1}, "an object of 1")])
def test_prompts_are_texts(prompts, shown, tmp_path):
    folder = write_case(FAMILY, "windows", tmp_path)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    with pytest.raises(LlmLiteError, match=f"prompts is {shown}, expected an object of texts"):
        open_source(folder)
