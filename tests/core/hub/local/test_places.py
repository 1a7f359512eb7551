"""Models in the folders of every program, where that program looks for them."""

import json
import os
import sys
from pathlib import Path

import pytest

from llm_lite.core.hub import catalog
from llm_lite.core.hub.local.grouping import models_below
from llm_lite.core.hub.local.listing import machine_places
from llm_lite.core.hub.local.places import huggingface, llama_cpp, lm_studio, ollama
from tests.core.hub.local.layouts import (
    COMMIT,
    OLDER,
    gguf,
    hub_repository,
    listed,
    ollama_manifest,
    ollama_model,
    put,
)
from tests.make_huggingface import write_tiny_llama


def files_below(folder: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


def test_every_place_is_found_and_nothing_is_copied(home):
    content = gguf()
    put(home / ".lmstudio/models/acme/tiny-GGUF/tiny-lm.gguf", content)
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/tiny/1b", content)
    hub_repository(home / ".cache/huggingface/hub", "acme/Tiny-GGUF", {"Tiny-F32.gguf": content})
    put(home / ".cache/llama.cpp/acme_Tiny-GGUF_tiny-cpp.gguf", content)
    put(home / ".cache/llama.cpp/manifest=acme=Tiny-GGUF=latest.json", b"{}")
    put(home / ".local/share/llm-lite/models/tiny-mine.gguf", content)
    before = files_below(home)
    found = listed()
    assert {name: model.origin for name, model in found.items()} == {
        "tiny-mine": "llm-lite",
        "tiny-f32": "huggingface",
        "tiny-lm": "lm-studio",
        "tiny:1b": "ollama",
        "tiny-cpp": "llama.cpp",
    }
    for model in found.values():
        assert model.problem == "" and model.runnable
        assert (model.architecture, model.context) == ("llama", 128)
        assert model.parameters > 10_000
        assert model.path.read_bytes() == content
    assert found["tiny-lm"].repo == "acme/tiny-GGUF"
    assert found["tiny-cpp"].repo == found["tiny-f32"].repo == "acme/Tiny-GGUF"
    assert found["tiny-f32"].revision == COMMIT
    cache = home / ".cache/llm-lite"
    changed = {path for path, what in files_below(home).items() if before.get(path) != what}
    assert {path for path in changed if path.is_file()} == {cache / "model-headers.json"}


def test_the_environment_says_where(home, tmp_path, monkeypatch):
    for variable in ("HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (home / ".cache/huggingface/hub").mkdir(parents=True)
    assert set(machine_places().folders) == {
        ("huggingface", tmp_path / "HF_HUB_CACHE"),
        ("ollama", tmp_path / "OLLAMA_MODELS"),
        ("llama.cpp", tmp_path / "LLAMA_CACHE"),
    }
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert huggingface.folders() == (home / "hf/hub",)
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert huggingface.folders() == (tmp_path / "xdg/huggingface/hub",)


@pytest.mark.parametrize(
    "system, cache, settings",
    [
        ("darwin", "Library/Caches/llama.cpp", "Library/Application Support/LM Studio"),
        ("win32", "Local/llama.cpp", "Roaming/LM Studio"),
    ],
)
def test_other_systems(home, monkeypatch, system, cache, settings):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv("LOCALAPPDATA", str(home / "Local"))
    monkeypatch.setenv("APPDATA", str(home / "Roaming"))
    assert llama_cpp.folders() == (home / cache,)
    chosen = home / "chosen"
    put(home / settings / "settings.json", json.dumps({"downloadsFolder": str(chosen)}).encode())
    assert lm_studio.folders()[0] == chosen
    assert (Path("/usr/share/ollama/.ollama/models") in ollama.folders()) == (system != "win32")


def test_a_user_without_a_home(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert huggingface.folders() == lm_studio.folders() == llama_cpp.folders() == ()


def test_lm_studio_older_home_pointer_and_settings(home):
    put(home / ".cache/lm-studio/models/a/b/older.gguf", gguf())
    put(home / "elsewhere/models/a/b/pointed.gguf", gguf())
    put(home / ".lmstudio-home-pointer", f"{home / 'elsewhere'}\n".encode())
    put(home / "chosen/a/b/set.gguf", gguf())
    chosen = json.dumps({"downloadsFolder": str(home / "chosen")}).encode()
    put(home / ".lmstudio/settings.json", chosen)
    assert set(listed()) == {"older", "pointed", "set"}


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"downloadsFolder": 7}', b"\xff\xfe"])
def test_lm_studio_settings_that_are_none(home, content):
    put(home / ".lmstudio/settings.json", content)
    put(home / ".lmstudio-home-pointer", content)
    put(home / ".lmstudio/models/a/b/m.gguf", gguf())
    assert set(listed()) == {"m"}


def test_a_link_to_a_model_elsewhere_is_followed(home, tmp_path):
    """As people do who have one file for two programs."""
    file = put(tmp_path / "elsewhere/m.gguf", gguf())
    folder = home / ".lmstudio/models/a"
    folder.mkdir(parents=True)
    (folder / "linked").symlink_to(file.parent)
    assert listed()["m"].problem == ""


def test_a_checkpoint_of_shards_in_the_hub_cache(home, tmp_path):
    source = write_tiny_llama(tmp_path / "made", shards=2)
    files = {path.name: path.read_bytes() for path in source.iterdir()}
    files["README.md"] = b"---\ntags:\n- x\nlicense: apache-2.0\n---\n# A model\nlicense: other\n"
    cache = home / ".cache/huggingface/hub"
    folder = hub_repository(cache, "acme/Tiny-Llama", files)
    model = listed()["tiny-llama"]
    assert model.path == folder / "snapshots" / COMMIT
    assert (model.form, model.repo, model.licence) == (
        "huggingface",
        "acme/Tiny-Llama",
        "apache-2.0",
    )
    assert (model.architecture, model.format, model.context) == ("llama", "F32", 128)
    assert model.size == sum(len(content) for content in files.values())
    assert catalog.resolve("hf:acme/Tiny-Llama") == model.path
    next(model.path.glob("*-00002-*")).unlink()
    broken = listed()["tiny-llama"]
    assert "model-00002-of-00002.safetensors" in broken.problem


def test_the_newest_snapshot_counts_and_older_ones_keep_what_it_lacks(home):
    cache = home / ".cache/huggingface/hub"
    old = {"one.gguf": gguf(llama__context_length=64), "gone.gguf": gguf()}
    hub_repository(cache, "acme/m", old, OLDER, branch="")
    hub_repository(cache, "acme/m", {"one.gguf": gguf()})
    found = listed()
    assert {name: model.revision for name, model in found.items()} == {"one": COMMIT, "gone": OLDER}
    assert found["one"].context == 128


def test_a_hub_cache_without_links(home):
    hub_repository(home / ".cache/huggingface/hub", "acme/m", {"q/m.gguf": gguf()}, links=False)
    assert listed()["m"].repo == "acme/m"


def test_documents_alone_are_no_model(home):
    files = {"config.json": b"{}", "tokenizer.json": b"{}"}
    hub_repository(home / ".cache/huggingface/hub", "acme/m", files)
    assert listed() == {}


def test_weights_of_pickle_are_named(home):
    files = {"config.json": b'{"model_type": "llama"}', "pytorch_model.bin": b"PK"}
    hub_repository(home / ".cache/huggingface/hub", "acme/m", files)
    assert "expected model.safetensors" in listed()["m"].problem


def test_llama_cpp_in_the_layout_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "cache"))
    hub_repository(tmp_path / "cache", "acme/m", {"m-Q4_K_M.gguf": gguf()})
    model = listed()["m-q4_k_m"]
    assert (model.origin, model.repo) == ("llama.cpp", "acme/m")


def test_ollama_names_as_it_lists_them(home):
    root = home / ".ollama/models"
    for name in (
        "registry.ollama.ai/library/tiny/latest",
        "registry.ollama.ai/library/tiny/1b-Q4",
        "registry.ollama.ai/jan/tiny/latest",
        "hf.co/acme/Tiny-GGUF/Q4_K_M",
    ):
        ollama_model(root, name, gguf())
    found = listed()
    assert set(found) == {"tiny", "tiny:1b-q4", "jan-tiny", "hf.co-acme-tiny-gguf:q4_k_m"}
    assert found["hf.co-acme-tiny-gguf:q4_k_m"].repo == "acme/Tiny-GGUF"
    assert found["tiny"].path.name.startswith("sha256-")


def test_ollama_manifests_as_links_to_blobs(home):
    root = home / ".ollama/models"
    raw = json.dumps(ollama_manifest(root, gguf())).encode()
    blob = put(root / "blobs" / ("sha256-" + "a" * 64), raw)
    link = root / "manifests-v2/registry.ollama.ai/library/tiny/1b"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    assert listed()["tiny:1b"].problem == ""


def test_ollama_list_of_manifests_takes_the_one_that_is_gguf(home):
    root = home / ".ollama/models"
    other = {"layers": [{"mediaType": "application/vnd.ollama.image.tensor"}], "runner": "mlx"}
    own = ollama_manifest(root, gguf(), runner="ollama")
    raw = json.dumps(own).encode()
    put(root / "blobs" / ("sha256-" + "b" * 64), raw)
    reference = {"digest": "sha256:" + "b" * 64, "runner": "ollama"}
    kind = "application/vnd.ollama.manifest.list.v2+json"
    for name, entries in {"told": [other, own], "referred": [other, reference]}.items():
        manifest = {"schemaVersion": 2, "mediaType": kind, "manifests": entries}
        ollama_model(root, f"registry.ollama.ai/library/{name}/1b", b"", manifest)
    found = listed()
    assert {name: model.problem for name, model in found.items()} == {
        "told:1b": "",
        "referred:1b": "",
    }


def test_modules_of_sentence_transformers_are_files_of_their_encoder(tmp_path):
    place = tmp_path / "place"
    model = place / "minilm"
    for name in ("1_Pooling", "2_Dense", "onnx"):
        (model / name).mkdir(parents=True)
    texts = ("config.json", "model.safetensors", "vocab.txt", "modules.json")
    modules = ("1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors")
    for name in (*texts, *modules, "2_Dense/notes.txt"):
        (model / name).write_text("{}")
    (found,) = models_below("llm-lite", place)
    assert set(found.files) == {model / name for name in (*texts, *modules)}


def test_the_template_of_prompts_with_functions_is_a_file_of_its_model(tmp_path):
    model = tmp_path / "place" / "command"
    (model / "additional_chat_templates").mkdir(parents=True)
    names = ("config.json", "model.safetensors", "additional_chat_templates/tool_use.jinja")
    for name in (*names, "additional_chat_templates/rag.jinja"):
        (model / name).write_text("{}")
    (found,) = models_below("llm-lite", tmp_path / "place")
    assert set(found.files) == {model / name for name in names}
