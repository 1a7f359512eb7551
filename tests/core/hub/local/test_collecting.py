"""What is left over, what is not, and how much each place holds."""

import os

import pytest
from filelock import FileLock

from llm_lite.core.errors import FileError
from llm_lite.core.files.leftovers import temporary
from llm_lite.core.hub.local import collecting
from llm_lite.core.hub.local.collecting import collect, leftovers
from llm_lite.core.hub.local.disk_usage import sizes, usage
from llm_lite.core.hub.local.importing import import_model
from tests.core.hub.local.layouts import (
    COMMIT,
    digest,
    gguf,
    hub_repository,
    listed,
    ollama_model,
    put,
)

ENDED = 2**22 + 1  # of no process


@pytest.fixture
def cache(home):
    folder = home / ".cache/huggingface/hub"
    hub_repository(folder, "acme/m", {"m.gguf": gguf()})
    return folder


def found():
    return {one.path.name: one.kind for one in leftovers()}


def test_partial_downloads_and_blobs_that_nobody_links_to(cache):
    blobs = cache / "models--acme--m/blobs"
    one, two, three = (put(blobs / f"{digest(bytes([n]))}", bytes(n)) for n in (10, 20, 30))
    one.rename(f"{one}.incomplete")
    two.rename(f"{two}.0123abcd.incomplete")
    assert found() == {
        f"{one.name}.incomplete": "partial download",
        f"{two.name}.0123abcd.incomplete": "partial download",
        three.name: "unused blob",
    }
    assert collect(leftovers()) == 60
    assert leftovers() == []
    assert [path.name for path in blobs.iterdir()] == [digest(gguf())]
    assert listed()["m"].problem == ""


def test_a_blob_that_came_to_be_used_meanwhile_stays(cache):
    repository = cache / "models--acme--m"
    blob = put(repository / "blobs" / digest(b"x"), b"x")
    listed_before = leftovers()
    assert [one.path for one in listed_before] == [blob]
    (repository / "snapshots" / COMMIT / "x.bin").symlink_to(f"../../blobs/{blob.name}")
    assert collect(listed_before) == 0
    assert blob.exists()


def test_of_a_snapshot_that_cannot_be_read_no_blob_is_unused(cache, monkeypatch):
    def refused(folder):
        if "snapshots" in os.fspath(folder):
            raise PermissionError(13, "Permission denied")
        return scan(folder)

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", refused)
    assert leftovers() == []


def test_a_download_that_runs_is_left_alone(cache):
    name = digest(b"x")
    partial = put(cache / f"models--acme--m/blobs/{name}.incomplete", b"half")
    lock = cache / f".locks/models--acme--m/{name}.lock"
    lock.parent.mkdir(parents=True)
    waiting = leftovers()
    with FileLock(lock):
        assert found() == {}
        assert collect(waiting) == 0
        assert partial.exists()
    assert found() == {partial.name: "partial download"}
    assert collect(waiting) == 4


def test_a_download_that_is_to_go_on_is_left_alone(cache):
    put(cache / f"models--acme--m/blobs/{digest(b'x')}.incomplete", b"half")
    assert leftovers(needed=["Acme/M"]) == []
    assert len(leftovers(needed=["acme/other"])) == 1


def test_nothing_else_in_a_cache_is_touched(cache, tmp_path):
    blobs = cache / "models--acme--m/blobs"
    put(blobs / "notes.txt", b"mine")
    put(blobs / "folder.incomplete/x", b"mine")
    (blobs / f"{digest(b'l')}.incomplete").symlink_to(put(tmp_path / "mine", b"mine"))
    put(cache / "datasets--acme--d/blobs" / digest(b"d"), b"data")
    (cache / "models--acme--linked").symlink_to(tmp_path)
    put(tmp_path / "blobs" / digest(b"b"), b"mine")
    assert leftovers() == []


def test_what_killed_writers_of_ours_left(home):
    models = home / ".local/share/llm-lite/models"
    put(models / "m.gguf", gguf())
    part = models / f".m-int4.{ENDED}-1.part"
    put(part / "model.safetensors", b"half of it")
    with temporary(models / "other-int4") as used:
        put(used / "model.safetensors", b"being written")
        assert {one.path: one.size for one in leftovers()} == {part: 10}
        assert set(listed()) == {"m"}
        assert collect(leftovers()) == 10
        assert used.exists() and not part.exists()


def test_imported_paths_that_are_gone_are_forgotten(tmp_path):
    kept, gone = (put(tmp_path / f"{name}.gguf", gguf()) for name in ("kept", "gone"))
    import_model(kept)
    import_model(gone)
    gone.unlink()
    assert "is not there any more" in listed()["gone.gguf"].problem
    assert found() == {"gone.gguf": "imported path that is gone"}
    assert collect(leftovers()) == 0
    assert set(listed()) == {"kept"}


def test_what_cannot_be_deleted_is_named_after_the_rest(cache, monkeypatch):
    blobs = cache / "models--acme--m/blobs"
    names = [digest(bytes([n])) for n in range(3)]
    for name in names:
        put(blobs / name, b"x")
    stuck, delete = sorted(names)[0], collecting._delete

    def refused(one):
        if one.path.name == stuck:
            raise FileError(one.path, "cannot be removed: Permission denied")
        return delete(one)

    monkeypatch.setattr(collecting, "_delete", refused)
    with pytest.raises(FileError, match=f"{stuck}: cannot be removed: Permission denied"):
        collect(leftovers())
    assert list(found()) == [stuck]


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"version": 2}', b'{"version": 1, "paths": [1]}']
)
def test_a_damaged_list_of_imported_paths_is_named_and_kept(home, tmp_path, content):
    file = put(home / ".local/share/llm-lite/imported-models.json", content)
    (model,) = listed().values()
    assert str(file) in model.problem
    assert leftovers() == []
    with pytest.raises(FileError, match=str(file)):
        import_model(put(tmp_path / "m.gguf", gguf()))
    assert file.read_bytes() == content


def test_what_is_no_model_is_not_imported(tmp_path):
    for path, sentence in {
        tmp_path / "none.gguf": "no such file",
        tmp_path: "is no model: expected a GGUF file",
        put(tmp_path / "x/notes.txt", b""): "is no model",
        put(tmp_path / "several/one.gguf", gguf()).parent: r"one by one, as .*one\.gguf",
        put(tmp_path / "y/broken.gguf", b"junk"): "is not imported, as it could not be used",
        put(tmp_path / "z/a-00001-of-00002.gguf", gguf()): "one of 2 parts",
    }.items():
        with pytest.raises(FileError, match=sentence):
            import_model(path)
    assert listed() == {}


def test_what_is_found_anyway_is_not_imported_twice(home):
    path = put(home / ".lmstudio/models/a/b/m.gguf", gguf())
    assert import_model(path).origin == "lm-studio"
    assert set(listed()) == {"m"}


def test_sizes_count_links_once(cache, home):
    ollama_model(home / ".ollama/models", "registry.ollama.ai/library/tiny/1b", gguf())
    models = home / ".lmstudio/models/a/b"
    first = put(models / "m.gguf", gguf())
    os.link(first, models / "same.gguf")
    (models / "link.gguf").symlink_to(first)
    by_origin = {place.origin: place for place in sizes()}
    assert by_origin["lm-studio"].size == len(gguf())
    assert (by_origin["lm-studio"].models, by_origin["lm-studio"].files) == (3, 1)
    assert by_origin["huggingface"].size == len(gguf()) + len(COMMIT)
    assert by_origin["ollama"].models == by_origin["bundled"].models == 1


def test_a_file_with_holes_counts_what_is_written(tmp_path):
    path = put(tmp_path / "partial", b"x")
    os.truncate(path, 1 << 30)
    assert usage(tmp_path)[1] < 1 << 20


def test_a_folder_that_is_none():
    assert "cannot be read" in usage(os.devnull)[2]
