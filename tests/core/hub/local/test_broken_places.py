"""Damaged, unreadable and hostile folders: the broken model is named, the others are listed."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.errors import FileError
from llm_lite.core.hub import bundled, catalog
from llm_lite.core.hub.local import listing
from llm_lite.core.hub.local.grouping import Walk
from llm_lite.core.hub.local.importing import import_model
from llm_lite.core.hub.local.listing import Places, local_models
from llm_lite.core.plain_text import one_line
from tests.core.hub.local.layouts import (
    COMMIT,
    MODEL,
    gguf,
    hub_repository,
    listed,
    ollama_manifest,
    ollama_model,
    put,
)
from tests.make_gguf import TinyLlama, build_gguf, llama_metadata

GOOD = "registry.ollama.ai/library/good/1b"
BAD = "registry.ollama.ai/library/bad/1b"


@pytest.fixture
def ollama(home):
    root = home / ".ollama/models"
    ollama_model(root, GOOD, gguf())
    return root


def problem_of_bad(**options):
    found = listed(**options)
    assert found["good:1b"].problem == ""
    assert "\n" not in found["bad:1b"].problem
    return found["bad:1b"].problem


def test_a_truncated_blob_says_both_sizes(ollama):
    other = gguf(general__name="other")
    ollama_model(ollama, BAD, other)
    (blob,) = [p for p in (ollama / "blobs").iterdir() if p.read_bytes() == other]
    blob.write_bytes(other[:-100])
    problem = problem_of_bad()
    assert str(blob) in problem
    assert f"expected {len(other)} bytes" in problem and f"found {len(other) - 100}" in problem
    blob.unlink()
    assert f"{blob}: is not there" in problem_of_bad()


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"layers": None}, "layers is null, expected a list"),
        ({"layers": ["x"]}, "expected a list of objects"),
        ({"layers": [{}] * 10_001}, "expected at most 10000"),
        ({"layers": []}, "names no layer of type application/vnd.ollama.image.model"),
        ({"layers": [{"mediaType": MODEL}]}, "digest is null, expected sha256:"),
        ({"layers": [{"mediaType": MODEL, "digest": "sha256:../../../etc"}]}, "expected sha256:"),
        ({"layers": [{"mediaType": MODEL, "digest": "sha256:" + "c" * 64}]}, "is not there"),
        ({"manifests": [{"digest": "sha256:" + "d" * 64}]}, "is not there"),
        ({"manifests": ["x", 1, {}]}, "names no layer"),
    ],
)
def test_manifests_that_are_none(ollama, change, sentence):
    manifest = ollama_manifest(ollama, gguf()) | change
    ollama_model(ollama, BAD, b"", manifest)
    assert sentence in problem_of_bad()


def test_other_layers_may_be_missing(ollama):
    """A licence is none of the weights."""
    manifest = ollama_manifest(ollama, gguf())
    manifest["layers"][1]["digest"] = "sha256:" + "e" * 64
    ollama_model(ollama, BAD, b"", manifest)
    assert problem_of_bad() == ""


def test_an_adapter_is_not_left_out_in_silence(ollama):
    manifest = ollama_manifest(ollama, gguf())
    manifest["layers"][1]["mediaType"] = "application/vnd.ollama.image.adapter"
    ollama_model(ollama, BAD, b"", manifest)
    assert "has an adapter (LoRA), which is not applied here" in problem_of_bad()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"a":' * 5000])
def test_manifests_that_are_no_json(ollama, content):
    path = put(ollama / "manifests" / BAD, content)
    assert str(path) in problem_of_bad()


def test_a_manifest_of_a_gigabyte_is_not_read(ollama):
    path = put(ollama / "manifests" / BAD, b"{")
    os.truncate(path, 1 << 30)
    assert "has more than 4194304 bytes" in problem_of_bad()


def test_what_is_no_file(ollama):
    path = ollama / "manifests" / BAD
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    (path.parent / "2b").symlink_to("2b")
    found = listed()
    assert found["good:1b"].problem == ""
    assert "bad:1b" not in found


def test_a_file_in_the_place_of_a_folder(home):
    put(home / ".cache/huggingface/hub", b"")
    put(home / ".lmstudio/models", b"")
    put(home / ".ollama/models/manifests", b"")
    put(home / ".cache/llama.cpp/m.gguf", gguf())
    found = listed()
    assert found["m"].problem == ""
    assert all("cannot be read" in model.problem for name, model in found.items() if name != "m")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(home):
    put(home / ".lmstudio/models/a/good/m.gguf", gguf())
    closed = put(home / ".lmstudio/models/a/closed/m.gguf", gguf()).parent
    closed.chmod(0)
    found = listed()
    assert f"{closed}: cannot be read" in found["closed"].problem
    assert found["m"].problem == ""


def test_a_folder_that_cannot_be_read(home, monkeypatch):
    put(home / ".lmstudio/models/a/good/m.gguf", gguf())
    closed = put(home / ".lmstudio/models/a/closed/m.gguf", gguf()).parent
    scandir = os.scandir

    def refused(path):
        if os.fspath(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    found = listed()
    assert f"{closed}: cannot be read: Permission denied" in found["closed"].problem
    assert found["m"].problem == ""


def test_circles_of_links(home):
    models = home / ".lmstudio/models"
    put(models / "a/b/m.gguf", gguf())
    (models / "a/b/again").symlink_to(models)
    (models / "a/b/self.gguf").symlink_to("self.gguf")
    (models / "a/b/gone.gguf").symlink_to("nowhere")
    found = listed()
    assert set(found) == {"m", "self", "gone"}
    assert found["m"].problem == ""
    for name in ("self", "gone"):
        assert "is a link to a file that is not there" in found[name].problem


def test_a_snapshot_whose_blob_is_gone(home):
    cache = home / ".cache/huggingface/hub"
    folder = hub_repository(cache, "acme/m", {"a.gguf": gguf(), "b.gguf": gguf(general__name="b")})
    link = folder / "snapshots" / COMMIT / "b.gguf"
    link.resolve().unlink()
    found = listed()
    assert found["a"].problem == ""
    assert f"{link}: is a link to a file that is not there" in found["b"].problem


def test_too_many_files_and_too_deep(home):
    models = home / ".lmstudio/models"
    put(models / "a/m.gguf", gguf())
    put(models / "a/b/c/d/e/f/deep.gguf", gguf())
    found = listed()
    assert found["m"].problem == ""
    assert any("more than 4 deep" in model.problem for model in found.values())
    for number in range(30):
        put(models / f"a/{number}.txt", b"")
    walk = Walk(models, most=10)
    assert sum(len(files) for _, files in walk.folders()) <= 10
    assert "more than 10 files" in walk.problems[0][1]


def test_files_that_belong_to_a_model_are_not_listed_by_themselves(home):
    folder = home / ".lmstudio/models/acme/m"
    put(folder / "m.gguf", gguf())
    kinds = {
        "mmproj-m": {"general.architecture": "clip"},
        "lora": {"general.architecture": "llama", "general.type": "adapter"},
    }
    for name, metadata in kinds.items():
        put(folder / f"{name}.gguf", build_gguf(metadata, {}))
    assert set(listed()) == {"m"}
    every = listed(companions=True)
    assert "a projector of images" in every["mmproj-m"].problem
    assert "an adapter (LoRA)" in every["lora"].problem


def test_what_this_program_cannot_run_says_why(home):
    folder = home / ".lmstudio/models/acme/m"
    metadata = llama_metadata(TinyLlama()) | {"general.architecture": "rwkv"}
    put(folder / "embedder.gguf", build_gguf(metadata, {}))
    put(folder / "noise.gguf", b"not a model")
    put(folder / "short.gguf", gguf()[:4000])
    found = listed()
    assert not found["embedder"].runnable and found["embedder"].architecture == "rwkv"
    assert "'rwkv' is not known here" in found["embedder"].problem
    assert "is not a GGUF file" in found["noise"].problem
    assert "short.gguf" in found["short"].problem


def test_parts_that_are_missing(home):
    folder = home / ".lmstudio/models/acme/m"
    put(folder / "big-00001-of-00003.gguf", gguf())
    put(folder / "big-00003-of-00003.gguf", gguf())
    model = listed()["big"]
    assert "is one of 3 parts, of which 2 are here" in model.problem
    assert len(model.files) == 2


def test_headers_are_read_once(home, monkeypatch):
    """Until the file changes; and however many there are."""
    folder = home / ".lmstudio/models/acme/m"
    for number in range(20):
        put(folder / f"{number:02}.gguf", gguf())
    read = []
    original = listing.read_header
    monkeypatch.setattr(
        listing, "read_header", lambda form, path: read.append(path) or original(form, path)
    )
    first = listed()
    count = 20 + sum(entry.path is not None for entry in bundled.entries())
    assert len(read) == count
    assert listed() == first
    assert len(read) == count
    put(folder / "03.gguf", gguf(llama__context_length=64))
    assert listed()["03"].context == 64
    assert len(read) == count + 1


def test_a_path_that_json_cannot_hold_spoils_no_cache_of_headers(home, monkeypatch):
    folder = home / ".lmstudio/models/acme/m"
    put(folder / "a.gguf", gguf())
    put(folder / os.fsdecode(b"b\xff.gguf"), gguf())
    put(folder / "c.gguf", gguf())
    listed()
    read = []
    original = listing.read_header
    monkeypatch.setattr(
        listing, "read_header", lambda form, path: read.append(path) or original(form, path)
    )
    listed()
    assert [os.fsencode(path.name) for path in read] == [b"b\xff.gguf"]


def test_only_headers_of_what_is_asked_for_are_read(home, monkeypatch):
    for name in ("one", "two", "three"):
        put(home / f".lmstudio/models/acme/m/{name}.gguf", gguf())
    read = []
    original = listing.read_header
    monkeypatch.setattr(
        listing,
        "read_header",
        lambda form, path: read.append(path.stem) or original(form, path),
    )
    assert catalog.resolve("two").stem == "two"
    assert read == ["two"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"layout": "x", "headers": {}}'])
def test_a_damaged_cache_of_headers_is_made_again(home, content):
    put(home / ".lmstudio/models/acme/m/m.gguf", gguf())
    first = listed()
    put(home / ".cache/llm-lite/model-headers.json", content)
    assert listed() == first


def test_hostile_headers_in_the_cache(home):
    put(home / ".lmstudio/models/acme/m/m.gguf", gguf())
    first = listed()
    file = home / ".cache/llm-lite/model-headers.json"
    value = json.loads(file.read_text())
    for odd in (7, [1], ["gguf", "x", {"architecture": 1}], ["gguf", "x", 3]):
        value["headers"] = dict.fromkeys(value["headers"], odd)
        file.write_text(json.dumps(value))
        assert listed() == first


NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=()), min_size=1, max_size=40
).filter(
    lambda name: (
        not name.startswith(".") and len(os.fsencode(name.encode("utf-8", "replace"))) < 200
    )
)


@settings(max_examples=60)
@given(names=st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_whatever_files_are_called(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("odd")
    for number, name in enumerate(names):
        try:
            put(root / f"{number}" / f"{name}.gguf", gguf())
        except (OSError, UnicodeError):  # no file can be called so
            continue
    found = local_models(Places((("lm-studio", root),), bundled=False))
    told = [model.name for model in found]
    assert len(set(told)) == len(told) == len(list(root.glob("*/*")))
    for model in found:
        assert model.problem == ""
        assert model.name == model.name.lower() == one_line(model.name)
        assert not set(model.name) & set(" /\\\"'") and 0 < len(model.name) <= 100
    assert local_models(Places((("lm-studio", root),), bundled=False)) == found


def test_a_path_that_json_cannot_hold_is_not_remembered(home, tmp_path):
    import_model(put(tmp_path / "a.gguf", gguf()))
    odd = put(Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.gguf")), gguf())
    with pytest.raises(FileError, match="expected a path in UTF-8"):
        import_model(odd)
    assert set(listed()) == {"a"}


def test_two_programs_import_at_once(home, tmp_path):
    paths = [put(tmp_path / f"m{number}.gguf", gguf()) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(import_model, paths))
    assert set(listed()) == {path.stem for path in paths}
