"""Variants as they are written: whole or not at all, whatever happens meanwhile."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.files import folders
from llm_lite.core.files.folders import remove_folder
from llm_lite.core.formats.variant_reader import listed_files, open_variant
from llm_lite.core.formats.variant_writer import Slot, VariantWriter
from tests.core.files.writing_runs import as_root, child
from tests.paths import ROOT

MANIFEST = {"tokenizer": "t", "source": {}, "report": {}}
DEAD = 2**22 + 17  # beyond the largest number that a process may have


def write(folder, value, *, replace=False, size=1000):
    with VariantWriter(
        folder, [Slot("a", "f32", (size,), 4 * size)], {"metadata.json": b"{}"}, "fp32",
        replace=replace,
    ) as writer:  # fmt: skip
        writer.add(np.full(size, value, np.float32).view(np.uint8))
        writer.finish(MANIFEST)


def value_of(folder):
    values = open_variant(folder).tensors["a"].dequantize()
    assert np.all(values == values[0])
    return float(values[0])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_leaves_nothing_else(tmp_path):
    write(tmp_path / "v", 1)
    assert value_of(tmp_path / "v") == 1
    assert names(tmp_path) == ["v"]
    assert names(tmp_path / "v") == ["metadata.json", "model.safetensors", "variant.json"]


def test_what_exists_is_kept_unless_it_may_be_replaced(tmp_path):
    write(tmp_path / "v", 1)
    with pytest.raises(FileError, match=r"v: exists already; choose another name$"):
        write(tmp_path / "v", 2)
    assert value_of(tmp_path / "v") == 1
    write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 2
    assert names(tmp_path) == ["v"]


def make_place(place, kind):
    """Something at `place` that is no variant."""
    if kind == "directory":
        place.mkdir()
        (place / "metadata.json").write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    elif kind == "link":
        write(place.with_name("other"), 1)
        place.symlink_to(place.with_name("other"))
    elif kind == "dangling":
        place.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    else:
        write(place, 1)
        manifest = place / "variant.json"
        manifest.write_text(manifest.read_text().replace("metadata.json", "../metadata.json"))


REFUSED = {
    "directory": "v: exists and is no variant; only a variant is replaced",
    "file": "v: exists and is no directory, which alone can be replaced",
    "link": "v: is a symbolic link, expected the directory itself",
    "dangling": "v: is a symbolic link, expected the directory itself",
    "pipe": "v: exists and is no directory",
    "socket": "v: exists and is no directory",
    "names": "variant.json: files: '../metadata.json' is no name of a file",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_only_variants_are_replaced(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make_place(Path("v"), kind)
    before = names(tmp_path), os.lstat("v").st_ino
    for replace in (True, False):
        with pytest.raises(FileError, match=REFUSED[kind] if replace else "v: exists already"):
            write(Path("v"), 2, replace=replace)
    if kind != "names":
        with pytest.raises(FileError):
            remove_folder(Path("v"), listed_files)
    assert (names(tmp_path), os.lstat("v").st_ino) == before


def test_a_mount_is_not_replaced(tmp_path, monkeypatch):
    write(tmp_path / "v", 1)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "v")
    with pytest.raises(FileError, match="v: is a mount point, which cannot be replaced"):
        write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 1


FOREIGN = {
    "file": lambda place: place.write_text("mine"),
    "folder": lambda place: place.mkdir(),
    "link": lambda place: place.symlink_to("variant.json"),
}


def snapshot(folder):
    return {path.name: path.is_file() and path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_a_variant_does_not_list_is_refused_before_the_work(tmp_path, kind):
    write(tmp_path / "v", 1)
    FOREIGN[kind](tmp_path / "v" / "notes")
    before = snapshot(tmp_path / "v")
    said = "notes: is not listed as a file of this directory: move it elsewhere first"
    with pytest.raises(FileError, match=said):
        VariantWriter(tmp_path / "v", [], {}, "fp32", replace=True)
    with pytest.raises(FileError, match=said):
        remove_folder(tmp_path / "v", listed_files)
    assert snapshot(tmp_path / "v") == before


def test_a_listed_file_that_became_a_link_is_not_ours(tmp_path):
    write(tmp_path / "v", 1)
    weights = tmp_path / "v" / "model.safetensors"
    weights.rename(tmp_path / "elsewhere")
    weights.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=r"model\.safetensors: is not listed as a file"):
        write(tmp_path / "v", 2, replace=True)
    assert weights.is_symlink() and (tmp_path / "elsewhere").exists()


def test_what_appears_during_the_work_is_refused_too(tmp_path):
    write(tmp_path / "v", 1)
    slots = [Slot("a", "f32", (4,), 16)]
    with VariantWriter(tmp_path / "v", slots, {"metadata.json": b"{}"}, "fp32", replace=True) as w:
        w.add(np.zeros(16, np.uint8))
        (tmp_path / "v" / "notes").write_text("mine")
        with pytest.raises(FileError, match="notes: is not listed"):
            w.finish(MANIFEST)
    assert value_of(tmp_path / "v") == 1
    assert names(tmp_path) == ["v"]
    assert (tmp_path / "v" / "notes").read_text() == "mine"


@pytest.mark.parametrize("swaps", [True, False])
def test_what_appears_in_the_last_moment_is_kept(tmp_path, monkeypatch, swaps):
    """Between the last look and the change of names."""
    exchange = folders.exchange

    def late(one, other):
        (other / "notes").write_text("mine")
        return swaps and exchange(one, other)

    write(tmp_path / "v", 1)
    monkeypatch.setattr(folders, "exchange", late)
    with pytest.raises(FileError, match=r"v: is replaced, but notes appeared in it .*/v\.kept$"):
        write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 2
    assert value_of(tmp_path / "v.kept") == 1
    assert (tmp_path / "v.kept" / "notes").read_text() == "mine"
    assert names(tmp_path) == ["v", "v.kept"]


def test_a_place_taken_during_the_work_stays_as_it_is(tmp_path):
    slots = [Slot("a", "f32", (4,), 16)]
    with VariantWriter(tmp_path / "v", slots, {"metadata.json": b"{}"}, "fp32") as writer:
        writer.add(np.zeros(16, np.uint8))
        (tmp_path / "v").mkdir()  # an empty directory, which a plain rename would replace
        with pytest.raises(FileError, match="v: exists already"):
            writer.finish(MANIFEST)
    assert names(tmp_path) == ["v"] and names(tmp_path / "v") == []


def test_a_replaced_directory_keeps_its_mode(tmp_path):
    write(tmp_path / "v", 1)
    (tmp_path / "v").chmod(0o750)
    write(tmp_path / "v", 2, replace=True)
    assert (tmp_path / "v").stat().st_mode & 0o777 == 0o750


def test_a_variant_of_an_older_layout_is_replaced(tmp_path):
    write(tmp_path / "v", 1)
    manifest = tmp_path / "v" / "variant.json"
    manifest.write_text(manifest.read_text().replace('"layout_version": 1', '"layout_version": 0'))
    write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 2


def test_a_reader_keeps_what_it_has_open(tmp_path):
    write(tmp_path / "v", 1)
    opened = open_variant(tmp_path / "v")
    write(tmp_path / "v", 2, replace=True)
    assert opened.tensors["a"].dequantize()[-1] == 1
    assert value_of(tmp_path / "v") == 2


def test_without_an_exchange_of_names_the_old_one_steps_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    write(tmp_path / "v", 1)
    write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 2
    assert names(tmp_path) == ["v"]


def test_names_are_exchanged_in_one_step_here(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "inside").touch()
    exchanged = folders.exchange(tmp_path / "a", tmp_path / "b")
    assert exchanged == sys.platform.startswith("linux")
    assert (tmp_path / "a" / "inside").exists() == exchanged


def test_an_old_one_that_stepped_aside_comes_back(tmp_path):
    """As after a kill between the two renames of a system without the exchange."""
    write(tmp_path / "v", 1)
    (tmp_path / "v").rename(tmp_path / f".v.{DEAD}.old")
    slots = [Slot("a", "f32", (4,), 16)]
    with VariantWriter(tmp_path / "v", slots, {"metadata.json": b"{}"}, "fp32"):
        assert value_of(tmp_path / "v") == 1
    assert names(tmp_path) == ["v"]


def test_leftovers_of_the_dead_are_removed_and_of_others_kept(tmp_path):
    kept = [f".v.{os.getppid()}.part", f".v.w.{DEAD}.part", f".other.{DEAD}.part", ".v.x.part"]
    for name in (f".v.{DEAD}.part", f".v.{os.getpid()}.part", *kept):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("half")
    write(tmp_path / "v", 1)
    assert names(tmp_path) == sorted([*kept, "v"])


def test_an_exception_leaves_no_trace(tmp_path):
    slots = [Slot("a", "f32", (4,), 16)]
    with (
        pytest.raises(KeyboardInterrupt),
        VariantWriter(tmp_path / "v", slots, {"metadata.json": b"{}"}, "fp32") as writer,
    ):
        writer.add(np.zeros(8, np.uint8))
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 9_000_000, 9_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    write(tmp_path / "small", 1)
    with pytest.raises(FileError, match=r"the disk has 9 MB free, the variant needs 12 MB"):
        write(tmp_path / "v", 1, size=2_000_000)
    assert names(tmp_path) == ["small"]


def test_a_disk_that_fills_meanwhile_leaves_the_old_one(tmp_path, monkeypatch):
    write(tmp_path / "v", 1)
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(FileError, match="v: cannot be written: No space"):
        write(tmp_path / "v", 2, replace=True)
    monkeypatch.undo()
    assert value_of(tmp_path / "v") == 1
    assert names(tmp_path) == ["v"]


@pytest.mark.parametrize("place", ["missing/v", "file/v", "/", "x" * 256, "x\0y"])
def test_places_where_nothing_can_be_written(tmp_path, place):
    """Said before the work."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be written: \w") as caught:
        VariantWriter(tmp_path / place, [], {}, "fp32", replace=True)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["file"]


@as_root
def test_a_variant_that_may_not_be_emptied_is_refused_before(tmp_path):
    for above in (tmp_path, *tmp_path.parents[:2]):  # pytest's own
        above.chmod(above.stat().st_mode | 0o077)
    write(tmp_path / "v", 1)
    (tmp_path / "v").chmod(0o755)
    code = """
import os, sys
from pathlib import Path
from llm_lite.core.errors import FileError
from llm_lite.core.files.folders import check_folder
from llm_lite.core.formats.variant_reader import listed_files
os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    check_folder(Path(sys.argv[1], "v"), listed_files)
except FileError as error:
    print(error.problem)
"""
    assert child(code, tmp_path) == "cannot be written: Permission denied"


def test_a_place_taken_in_the_last_moment_is_not_replaced(tmp_path, monkeypatch):
    """Between the last look and the rename, without --force."""
    slots = [Slot("a", "f32", (4,), 16)]
    with VariantWriter(tmp_path / "v", slots, {"metadata.json": b"{}"}, "fp32") as writer:
        writer.add(np.zeros(16, np.uint8))
        sync = folders.sync_folder

        def late(folder):
            sync(folder)
            write(tmp_path / "v", 1)

        monkeypatch.setattr(
            folders, "sync_folder", lambda folder: monkeypatch.undo() or late(folder)
        )
        with pytest.raises(FileError, match="v: cannot be written: File exists"):
            writer.finish(MANIFEST)
    assert value_of(tmp_path / "v") == 1
    assert names(tmp_path) == ["v"]


@as_root
def test_a_folder_that_may_not_be_written_to(tmp_path):
    for above in (tmp_path, *tmp_path.parents[:2]):  # pytest's own
        above.chmod(above.stat().st_mode | 0o055)
    (tmp_path / "v").mkdir()
    write(tmp_path / "v" / "w", 1)
    code = """
import os, sys
from pathlib import Path
from llm_lite.core.errors import FileError
from llm_lite.core.files.folders import check_folder, remove_folder
from llm_lite.core.formats.variant_reader import listed_files
os.setgroups([]), os.setgid(65534), os.setuid(65534)
for call, arguments in ((check_folder, ("v/x",)), (check_folder, ("v/w", listed_files)),
                        (remove_folder, ("v/w", listed_files))):
    try:
        call(Path(sys.argv[1], arguments[0]), *arguments[1:])
    except FileError as error:
        print(error.problem)
"""
    denied = "Permission denied"
    assert child(code, tmp_path).splitlines() == [
        f"cannot be written: {denied}", f"cannot be written: {denied}",
        f"cannot be removed: {denied}",
    ]  # fmt: skip
    assert value_of(tmp_path / "v" / "w") == 1


_ENDLESS = """
import sys
from pathlib import Path
from tests.core.formats.test_variant_writer import write
print("ready", flush=True)
for value in range(2, 10_000):
    write(Path(sys.argv[1]), value, replace=True, size=300_000)
"""


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_it_leaves_a_whole_variant(tmp_path, seed):
    """Writers are killed at random moments of writing and renaming, again and again."""
    rng = np.random.default_rng(seed)
    place = tmp_path / "v"
    write(place, 1)
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", _ENDLESS, str(place)], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert value_of(place) >= 1
    write(place, 0.5, replace=True)
    assert value_of(place) == 0.5
    assert names(tmp_path) == ["v"]
