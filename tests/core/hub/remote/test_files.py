"""Names of files in repositories, as the hub has them, to what can be fetched and run."""

import pytest

from llm_lite.core.hub.remote.choosing import recommended
from llm_lite.core.hub.remote.files import (
    RemoteFile,
    choices,
    format_of,
    is_name,
    is_read,
    usable_path,
)
from llm_lite.core.text import tokenizer_files

OID = "0" * 40


def files(**sizes: int) -> list[RemoteFile]:
    return [RemoteFile(name, size, OID) for name, size in sizes.items()]


def named(*names: str):
    return choices([RemoteFile(name, 100 + n, OID) for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-4b-it-Q4_K_M.gguf", "Q4_K_M"),
        ("smollm2-360m-instruct-q8_0.gguf", "Q8_0"),
        ("Qwen3-4B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("model-IQ4_NL.gguf", "IQ4_NL"),
        ("x-IQ2_XXS.gguf", "IQ2_XXS"),
        ("gemma-3n-E4B-it-f16.gguf", "F16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("bf16/model-00001-of-00002.gguf", "BF16"),
        ("Q6_K/big-Q6_K-00001-of-00002.gguf", "Q6_K"),
        ("model.fp16.gguf", "F16"),
        ("Q4-tuned-model.gguf", ""),
        ("model.gguf", ""),
    ],
)
def test_the_format_in_a_name(name, form):
    assert format_of(name) == form


@pytest.mark.parametrize(
    "form", ["Q4_K_M", "UD-Q4_K_XL", "IQ4_XS", "Q8_0", "BF16", "TQ1_0", "Q2_K_L"]
)
def test_formats_that_are_read(form):
    assert is_read(form)


def test_parts_of_one_model_are_one_choice():
    (big, small) = named(
        "big-Q8_0-00002-of-00002.gguf", "small-Q8_0.gguf", "big-Q8_0-00001-of-00002.gguf"
    )[::-1]
    assert big.parts == ("big-Q8_0-00001-of-00002.gguf", "big-Q8_0-00002-of-00002.gguf")
    assert (big.name, big.size, big.form) == (big.parts[0], 202, "gguf")
    assert big.problem == "" and small.parts == ("small-Q8_0.gguf",)


def test_parts_that_are_missing_are_told():
    (only,) = named("big-00001-of-00003.gguf", "big-00003-of-00003.gguf")
    assert only.problem == "1 of its 3 parts are missing"


def test_what_is_no_model_by_itself():
    found = {file.name: file.problem for file in named("mmproj-F16.gguf", "imatrix.gguf", "a.gguf")}
    assert "is none by itself" in found["mmproj-F16.gguf"] and found["a.gguf"] == ""
    assert "no model" in found["imatrix.gguf"]


def test_a_checkpoint_with_its_documents():
    (found,) = named(
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "pytorch_model.bin",
        "onnx/model.onnx",
        "training_args.bin",
    )
    assert found.form == "huggingface" and found.problem == ""
    assert set(found.parts) == {
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_an_encoder_comes_with_what_makes_vectors():
    wanted = {
        "config.json",
        "model.safetensors",
        "vocab.txt",
        "modules.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
    }
    others = ("2_Dense/pytorch_model.bin", "onnx/config.json", "openvino/model.safetensors")
    (found,) = named(*wanted, *others)
    assert set(found.parts) == wanted and found.problem == ""


def test_a_checkpoint_comes_with_the_template_of_prompts_with_functions():
    wanted = {
        *("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"),
        "additional_chat_templates/tool_use.jinja",
    }
    (found,) = named(*wanted, "additional_chat_templates/rag.jinja")
    assert set(found.parts) == wanted and found.problem == ""


@pytest.mark.parametrize("tokenizer", tokenizer_files.SETS)
def test_any_tokenizer_that_is_read_will_do(tokenizer):
    (found,) = named("config.json", "model.safetensors", *tokenizer)
    assert found.problem == "" and {*tokenizer} < {*found.parts}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["model-00001-of-00002.safetensors", "tokenizer.json"], "1 of its 2 parts are missing"),
        (["model.safetensors", "vocab.json"], "its tokenizer is missing: tokenizer.json, or"),
        (
            [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)] + ["tokenizer.json"],
            "its index model.safetensors.index.json is missing",
        ),
    ],
)
def test_a_checkpoint_that_lacks_something(names, problem):
    (found,) = named("config.json", *names)
    assert problem in found.problem


def test_adapters_and_foreign_files_are_no_models():
    assert named("adapter_config.json", "adapter_model.safetensors", "README.md") == ()


def test_about_four_bits_are_recommended():
    names = ("a-F16.gguf", "a-Q8_0.gguf", "a-Q4_0.gguf", "a-Q4_K_M.gguf", "mmproj-Q4_K_M.gguf")
    best = recommended(named(*names))
    assert best is not None and best.name == "a-Q4_K_M.gguf"
    only = recommended(named("config.json", "model.safetensors", "tokenizer.json"))
    assert only is not None and only.form == "huggingface"
    assert recommended(named("mmproj.gguf")) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a//b",
        "../a",
        "a/../b",
        "./a",
        "a\\b",
        "C:a",
        "a\nb",
        "a\x00b",
        "a\u202eb",
        5,
        None,
        "x" * 201,
        "d/" * 600 + "x",
        "a/" + "é" * 101,
        "nul",
        "b/COM1.gguf",
        "a. ",
        "a?.gguf",
    ],
)
def test_paths_that_are_not_taken(path):
    assert not usable_path(path)


@pytest.mark.parametrize("path", ["a.gguf", "sub/a b (1).gguf", "é/ü.gguf", ".gitattributes"])
def test_paths_that_are_taken(path):
    assert usable_path(path)


@pytest.mark.parametrize("name", ["a/b", "Qwen/Qwen3-0.6B-GGUF", "gpt2", "a_b/c.d-e"])
def test_names_of_repositories(name):
    assert is_name(name)
