"""Files that people give for a model and that are none: what they are, and what helps."""

import json
import struct

import numpy as np
import pytest
from gguf import GGUFType, GGUFWriter

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.make_huggingface import LLAMA_CONFIG, llama_tensors, write_folder
from tests.make_safetensors import build_safetensors, entry, write_shards

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 4965799096\n"
)
LFS = (
    r"is a pointer of Git LFS in the place of a file of 4\.97 GB, which was never fetched: run "
    r"`git lfs pull` in its folder"
)


def refused(path):
    with pytest.raises(LlmLiteError) as told:
        open_source(path)
    return str(told.value)


def folder_with(tmp_path, name, text):
    folder = write_folder(tmp_path / "m", LLAMA_CONFIG, llama_tensors(LLAMA_CONFIG))
    (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_pointers_of_git_lfs_in_a_folder(name, tmp_path):
    folder = folder_with(tmp_path, name, POINTER)
    with pytest.raises(LlmLiteError, match=LFS) as told:
        source = open_source(folder)
        source.tokenizer(LLAMA_CONFIG["vocab_size"])
    assert str(folder / name) in str(told.value)


def test_a_pointer_for_a_gguf_file_and_for_a_shard(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_text(POINTER)
    with pytest.raises(LlmLiteError, match=LFS):
        open_source(path)
    tensors = llama_tensors(LLAMA_CONFIG)
    folder = write_folder(tmp_path / "m", LLAMA_CONFIG, tensors)
    (folder / "model.safetensors").unlink()
    write_shards(folder, {"model-00001-of-00001.safetensors": tensors})
    (folder / "model-00001-of-00001.safetensors").write_text(POINTER)
    with pytest.raises(LlmLiteError, match=rf"model-00001-of-00001\.safetensors: {LFS}"):
        open_source(folder)


def write_gguf(path, kind, architecture="llama"):
    writer = GGUFWriter(path, architecture)
    writer.add_type(kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (GGUFType.ADAPTER, "an adapter (LoRA) for another model"),
        (GGUFType.IMATRIX, "statistics for quantizing another model"),
        (GGUFType.MMPROJ, "a projector of images or sound for another model"),
    ],
)
def test_companions_in_gguf(kind, what, tmp_path):
    path = write_gguf(tmp_path / "x.gguf", kind)
    assert refused(path) == f"{path}: is no model by itself: it is {what}"


def test_a_projector_by_its_architecture(tmp_path):
    path = write_gguf(tmp_path / "x.gguf", GGUFType.MODEL, "clip")
    assert "it is a projector of images or sound" in refused(path)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"algg" + bytes(40), "it is an adapter (LoRA) of llama.cpp before GGUF"),
        (b"tjgg" + bytes(40), "it is a model of llama.cpp before GGUF"),
        (b"<!DOCTYPE html>\n<html>" + bytes(40), "it is a web page, as of an address of the hub"),
        (b"PK\x03\x04" + bytes(40), "it is a zip archive, as PyTorch's checkpoints are"),
        (
            struct.pack("<ii", 112, 20) + b"blk.0.attn_k.weight\0" + bytes(40),
            "it is statistics for quantizing another model",
        ),
    ],
)
def test_other_files_in_the_place_of_a_gguf_file(data, what, tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    assert f"{path}: is not a GGUF file: {what}" in refused(path)


def write_adapter(folder, base="org/base"):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": base})
    )
    weights = entry(llama_values())
    (folder / "adapter_model.safetensors").write_bytes(build_safetensors({"lora_A": weights}))
    return folder


def llama_values():
    return np.zeros((2, 4), np.float32)


@pytest.mark.parametrize("file", ["", "adapter_model.safetensors", "adapter_config.json"])
def test_an_adapter_is_told_with_its_base(file, tmp_path):
    folder = write_adapter(tmp_path / "a")
    said = refused(folder / file)
    assert "is no model by itself: it is an adapter (LoRA) for 'org/base', which is the" in said
    assert "merge it into that model first" in said


def test_an_adapter_with_a_config_beside_it_and_without_a_base(tmp_path):
    folder = write_adapter(tmp_path / "a", None)
    (folder / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    assert "it is an adapter (LoRA) for another model" in refused(folder)


def test_an_adapter_beside_a_whole_model_is_a_note(tmp_path):
    folder = write_folder(tmp_path / "m", LLAMA_CONFIG, llama_tensors(LLAMA_CONFIG))
    write_adapter(folder)
    assert open_source(folder).notes == (
        "the adapter beside it (adapter_config.json) is not applied",
    )


def test_shards_with_more_than_their_index_names(tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG)
    folder = write_folder(tmp_path / "m", LLAMA_CONFIG, tensors)
    expected = set(open_source(folder).tensors)
    (folder / "model.safetensors").unlink()
    index = write_shards(folder, {"model-00001-of-00001.safetensors": tensors})
    more = {**tensors, "model.layers.9.extra.weight": tensors["model.norm.weight"]}
    (index.parent / "model-00001-of-00001.safetensors").write_bytes(build_safetensors(more))
    source = open_source(folder)
    assert set(source.tensors) == expected
    assert source.notes == (
        "1 tensors of its shards are not read, as their index does not name them "
        "('model.layers.9.extra.weight')",
    )


def test_an_index_that_names_an_embedding_which_is_the_head(tmp_path):
    """As CodeShell's does: its shards have the head alone, and both are tied."""
    config, tensors = {**LLAMA_CONFIG, "tie_word_embeddings": True}, llama_tensors(LLAMA_CONFIG)
    folder = write_folder(tmp_path / "m", config, tensors)
    (folder / "model.safetensors").unlink()
    write_shards(folder, {"model-00001-of-00001.safetensors": tensors})
    del tensors["model.embed_tokens.weight"]
    (folder / "model-00001-of-00001.safetensors").write_bytes(build_safetensors(tensors))
    found = open_source(folder).tensors
    assert bytes(found["token_embd.weight"].data) == tensors["lm_head.weight"][2]
    assert "output.weight" not in found


def test_an_index_that_names_a_matrix_which_no_shard_has(tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG)
    folder = write_folder(tmp_path / "m", LLAMA_CONFIG, tensors)
    (folder / "model.safetensors").unlink()
    write_shards(folder, {"model-00001-of-00001.safetensors": tensors})
    del tensors["model.layers.1.mlp.up_proj.weight"]
    (folder / "model-00001-of-00001.safetensors").write_bytes(build_safetensors(tensors))
    source = open_source(folder)
    with pytest.raises(LlmLiteError, match=r"tensor blk\.1\.ffn_up\.weight is missing"):
        read_model(source.metadata, source.tensors, source.path)


@pytest.mark.parametrize("shape", [(0,), (0, 48), (300, 0)])
def test_tensors_without_values_are_refused(shape, tmp_path):
    tensors = llama_tensors(LLAMA_CONFIG)
    tensors["model.embed_tokens.weight"] = ("F32", shape, b"")
    folder = write_folder(tmp_path / "m", LLAMA_CONFIG, tensors)
    said = refused(folder)
    assert f"'model.embed_tokens.weight' has shape {list(shape)}, expected no size of 0" in said
