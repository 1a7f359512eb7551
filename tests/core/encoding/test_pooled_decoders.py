"""Decoders whose files say that they make vectors of texts: beside transformers, from text to
vector, in a directory, a GGUF file and a variant."""

from __future__ import annotations

import json
import shutil

import numpy as np
import openai
import pytest
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, PoolingType, get_tensor_name_map

from llm_lite import load
from llm_lite.cli.main import main
from llm_lite.core.convert.quantizing import quantize
from llm_lite.core.errors import LlmLiteError, RequestError, UnsupportedError
from llm_lite.core.inspect.text_maps import text_maps
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import start_encoder
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from llm_lite.core.serving.direct_services import EncoderService
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.families import family_of
from tests.family_checks import write_case as write_family
from tests.make_gguf import tokenizer_metadata
from tests.make_huggingface import write_tiny_gemma3n, write_tiny_llama
from tests.pooled_cases import CASES, ROWS, TEXTS, values_of, written
from tests.pooled_cases import pooled as stored
from tests.runners import exact, running

TOLERANCE = 1e-4


def started(path, backend="cpu"):
    file = loader.open_model(str(path), lambda *_: None, lambda text: None)
    return start_encoder(file, exact(backend), None)


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("name", CASES)
def test_vectors_are_those_of_transformers(name, backend, tmp_path):
    known, case = stored(name), CASES[name]
    runner = started(written(name, tmp_path / "made"), backend)
    try:
        tokenizer = runner.model_file.tokenizer
        for number, text in enumerate(TEXTS):
            ids = tokenizer.encode(case.prompt + text, add_special=True)
            assert ids == known[f"ids{number}"].tolist()
        task = "query" if case.prompt else ""
        np.testing.assert_allclose(
            runner.session.hidden(known["ids0"].tolist()), known["hidden"], atol=TOLERANCE
        )
        together = runner.embed(TEXTS, task)
        np.testing.assert_allclose(together, known["vectors"], atol=TOLERANCE)
        for text, vector in zip(TEXTS, known["vectors"], strict=True):
            np.testing.assert_allclose(runner.embed([text], task)[0], vector, atol=TOLERANCE)
    finally:
        runner.close()


@pytest.mark.parametrize("name", ["qwen3 last", "gemma3 windows"])
def test_activations_of_the_last_layer_are_those_before_the_norm(name, tmp_path):
    """Its hidden states are behind the norm, which is a module of its own."""
    folder, known = written(name, tmp_path / "made"), stored(name)
    with load(folder, backend="cpu", activations="a32") as model:
        found = model.activations(known["ids0"].tolist(), ["layers.2", "model.layers.2", "norm"])
    np.testing.assert_allclose(found["norm"], known["hidden"], atol=TOLERANCE)
    stream = found["layers.2"]
    np.testing.assert_array_equal(stream, found["model.layers.2"])
    weight = values_of("norm.weight", stream.shape[1:]) + ("gemma3" in name)
    normed = stream / np.sqrt((stream**2).mean(axis=1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(normed, known["hidden"], atol=TOLERANCE)


def write_gguf(name, path, pooling, *, causal=None):
    """A file of these weights, as llama.cpp's conversion writes it, and 1 for its begin token."""
    config, kind = json.loads(str(stored(name)["config"])), name.split()[0].upper()
    writer, layers = GGUFWriter(path, MODEL_ARCH_NAMES[MODEL_ARCH[kind]]), 3
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(12)
    writer.add_value_length(12)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if pooling is not None:
        writer.add_pooling_type(pooling)
    if causal is not None:
        writer.add_causal_attention(causal)
    words = tokenizer_metadata(300)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    tokens = [*words["tokenizer.ggml.tokens"], *(f"[more {i}]" for i in range(ROWS - 300))]
    writer.add_token_list(tokens)
    writer.add_token_types([*words["tokenizer.ggml.token_type"], *[5] * (ROWS - 300)])
    writer.add_token_merges(words["tokenizer.ggml.merges"])
    writer.add_eos_token_id(0)
    writer.add_add_eos_token(True)
    found = get_tensor_name_map(MODEL_ARCH[kind], layers)
    for own, shape in json.loads(str(stored(name)["shapes"])).items():
        stem = f"model.{own}"
        writer.add_tensor(
            found.get_name(stem, try_suffixes=(".weight", ".bias")), values_of(own, tuple(shape))
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def ids_of(name):
    return [stored(name)[f"ids{number}"].tolist() for number in range(len(TEXTS))]


@pytest.mark.parametrize(
    ("name", "pooling", "causal"),
    [("qwen3 last", PoolingType.LAST, None), ("qwen2 both ways", PoolingType.LAST, False)],
)
def test_gguf_files_say_it_by_a_number(name, pooling, causal, tmp_path):
    runner = started(write_gguf(name, tmp_path / "m.gguf", pooling, causal=causal))
    try:
        found = runner.embed_tokens(ids_of(name))
        np.testing.assert_allclose(found, stored(name)["vectors"], atol=TOLERANCE)
        assert runner.model_file.tokenizer.encode("a", add_special=True)[-1] == 0
    finally:
        runner.close()


def test_poolings_of_gguf_are_those_of_the_states(tmp_path):
    """First and mean, of the hidden states that transformers gives."""
    states = stored("qwen3 last")["hidden"]
    for pooling, pooled in ((PoolingType.CLS, states[0]), (PoolingType.MEAN, states.mean(axis=0))):
        runner = started(write_gguf("qwen3 last", tmp_path / f"{pooling}.gguf", pooling))
        try:
            found = runner.embed_tokens([stored("qwen3 last")["ids0"].tolist()])[0]
            expected = pooled / np.linalg.norm(pooled)
            np.testing.assert_allclose(found, expected, atol=TOLERANCE)
        finally:
            runner.close()


@pytest.mark.parametrize("pooling", [None, PoolingType.NONE, PoolingType.RANK])
def test_a_file_that_says_nothing_writes_texts(pooling, tmp_path):
    """And makes the mean of all tokens, as before; a rank is a score, and a sentence."""
    path = write_gguf("qwen3 last", tmp_path / "m.gguf", pooling)
    states = stored("qwen3 last")["hidden"].mean(axis=0)
    with running(path) as runner:
        assert runner.model_info.continues
    with load(str(path), backend="cpu", activations="a32", keys="fp32", values="fp32") as model:
        if pooling == PoolingType.RANK:
            with pytest.raises(RequestError, match=r"m.gguf: pooling_type is 4 \(rank\)"):
                model.embed("a")
        else:
            assert model.embed(["a"]).shape == (1, 48)
            found = model._mean_state(stored("qwen3 last")["ids0"].tolist())
            assert np.abs(found - states / np.linalg.norm(states)).max() < TOLERANCE


@pytest.mark.parametrize("name", ["qwen3 last", "llama first and last", "mistral prompt"])
def test_variants_keep_it(name, tmp_path):
    file = loader.open_model(
        str(written(name, tmp_path / "made")), lambda *_: None, lambda text: None
    )
    quantize(file, tmp_path / "variant", "fp32")
    file.close()
    shutil.rmtree(tmp_path / "made")
    runner = started(tmp_path / "variant")
    try:
        task = "query" if CASES[name].prompt else ""
        found = runner.embed(TEXTS, task)
        np.testing.assert_allclose(found, stored(name)["vectors"], atol=TOLERANCE)
    finally:
        runner.close()


@pytest.mark.parametrize("name", ["qwen3 last", "qwen2 both ways"])
def test_every_door_gives_the_same_vectors(name, tmp_path, capsys):
    """Python, the command line, and the server, by OpenAI's own client."""
    path, expected = written(name, tmp_path / "made"), stored(name)["vectors"]
    options = {"backend": "cpu", "activations": "a32"}
    with load(str(path), **options) as model:
        np.testing.assert_allclose(model.embed(TEXTS), expected, atol=TOLERANCE)
        with pytest.raises(RequestError, match="is an encoder, which writes no text"):
            model.generate("a")
    asked = [word for text in TEXTS for word in ("-p", text)]
    words = ["embed", str(path), *asked, "--json", "--backend", "numpy"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)["embeddings"]
    np.testing.assert_allclose(told, expected, atol=TOLERANCE)
    runner = started(path)
    server = Server(lambda: EncoderService(runner), ServerConfig(port=0))
    server.start()
    try:
        client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)
        made = client.embeddings.create(model="m", input=list(TEXTS), encoding_format="float")
        found = [one.embedding for one in made.data]
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    finally:
        server.stop()
        runner.close()


@pytest.mark.parametrize("name", ["qwen3 last", "gemma3 windows", "qwen2 both ways"])
def test_maps_show_what_tokens_see(name, tmp_path):
    runner = started(written(name, tmp_path / "made"))
    try:
        tokens = stored(name)["ids0"].tolist()
        maps = text_maps(runner.attention, runner.session, tokens, range(3), range(4))
        np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=TOLERANCE)
        behind = np.triu(maps, 1).max()
        assert behind > 0.01 if "both" in name else behind == 0
        if "windows" in name:
            assert np.tril(maps[[0, 2]], -7).max() == 0 < np.tril(maps[1], -7).max()
    finally:
        runner.close()


def changed(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def pooling(folder, **changes):
    file = folder / "1_Pooling" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


BOTH_WAYS = {
    "sliding_window": 16,
    "use_sliding_window": True,
    "layer_types": ["sliding_attention"] * 3,
}
REFUSED = {
    "windows on both sides": (
        lambda folder: changed(folder, **BOTH_WAYS),
        "with windows on both sides are not known here",
    ),
    "another module": (
        lambda folder: (folder / "modules.json").write_text(
            json.dumps([{"path": "1_LSTM", "type": "sentence_transformers.models.LSTM"}])
        ),
        "a module of type 'sentence_transformers.models.LSTM' is not known here",
    ),
    "another pooling": (
        lambda folder: pooling(folder, pooling_mode="attention"),
        "some of cls, max, mean",
    ),
    "none": (
        lambda folder: pooling(folder, pooling_mode_lasttoken=False),
        "expected a pooling mode that is true, found none",
    ),
    "no flag": (
        lambda folder: changed(folder, is_causal="no"),
        "is_causal is 'no', expected true or false",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_a_sentence(case, tmp_path):
    """And no other vector."""
    folder = written("qwen2 both ways", tmp_path / "made")
    change, message = REFUSED[case]
    change(folder)
    with pytest.raises(LlmLiteError, match=message):
        started(folder)


def test_a_model_of_another_kind_says_that_it_makes_none(tmp_path):
    """Gemma 3n's layers are not those of other decoders."""
    folder = written("qwen3 last", tmp_path / "marked")
    other = write_tiny_gemma3n(tmp_path / "other")
    for name in ("modules.json", "1_Pooling"):
        copy = shutil.copytree if (folder / name).is_dir() else shutil.copy
        copy(folder / name, other / name)
    with pytest.raises(UnsupportedError, match=r"modules\.json: vectors of texts by a Gemma 3n"):
        loader.open_model(str(other), lambda *_: None, lambda text: None)


def test_a_plain_decoder_is_none(tmp_path):
    path = write_tiny_llama(tmp_path / "m")
    file = loader.open_model(str(path), lambda *_: None, lambda text: None)
    assert not file.model.embeds and file.model.embedding is None
    file.close()


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("bloom", "attention.causal", False, "by a BLOOM model that sees both sides are not"),
        ("qwen3_5", "pooling_type", 3, "by a Qwen3.5 model with recurrent states are not known"),
        ("gemma2", "attention.causal", False, "by a Gemma 2 model with windows on both sides"),
    ],
)
def test_models_that_would_make_others_are_named(name, key, value, message, tmp_path):
    family = family_of(name)
    source = open_source(write_family(family, next(iter(family.cases)), tmp_path / "m"))
    key = f"{source.metadata['general.architecture']}.{key}"
    with pytest.raises(UnsupportedError, match=rf"{key}: vectors of texts {message}"):
        read_model({**source.metadata, key: value}, source.tensors, source.path)
    assert not read_model(source.metadata, source.tensors, source.path).embeds
