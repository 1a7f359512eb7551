"""Variants as they are written: whole or not at all, whatever happens meanwhile."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from core.errors import FileError
from core.formats import variant_writer
from core.formats.variant import open_variant
from core.formats.variant_writer import Slot, VariantWriter

ROOT = Path(__file__).parents[3]
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
    with pytest.raises(FileError, match="v: exists; choose another name, or replace it with --f"):
        write(tmp_path / "v", 2)
    assert value_of(tmp_path / "v") == 1
    write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 2
    assert names(tmp_path) == ["v"]


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_only_variants_are_replaced(tmp_path, kind):
    place = tmp_path / "v"
    if kind == "directory":
        place.mkdir()
        (place / "metadata.json").write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    else:
        write(tmp_path / "other", 1)
        place.symlink_to(tmp_path / "other")
    before = names(tmp_path)
    with pytest.raises(FileError, match="exists and is no variant; only a variant is replaced"):
        write(place, 2, replace=True)
    assert names(tmp_path) == before


def test_a_reader_keeps_what_it_has_open(tmp_path):
    write(tmp_path / "v", 1)
    opened = open_variant(tmp_path / "v")
    write(tmp_path / "v", 2, replace=True)
    assert opened.tensors["a"].dequantize()[-1] == 1
    assert value_of(tmp_path / "v") == 2


def test_without_an_exchange_of_names_the_old_one_steps_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(variant_writer, "_exchange", lambda one, other: False)
    write(tmp_path / "v", 1)
    write(tmp_path / "v", 2, replace=True)
    assert value_of(tmp_path / "v") == 2
    assert names(tmp_path) == ["v"]


def test_names_are_exchanged_in_one_step_here(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "inside").touch()
    exchanged = variant_writer._exchange(tmp_path / "a", tmp_path / "b")
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
    monkeypatch.setattr(
        variant_writer.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space"))
    )
    with pytest.raises(FileError, match="v: cannot be written: No space"):
        write(tmp_path / "v", 2, replace=True)
    monkeypatch.undo()
    assert value_of(tmp_path / "v") == 1
    assert names(tmp_path) == ["v"]


@pytest.mark.parametrize("place", ["missing/v", "file/v", "/", "x" * 300])
def test_places_where_nothing_can_be_written(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be written|exists and is no variant") as caught:
        write(tmp_path / place, 1, replace=True)
    assert "\n" not in str(caught.value)


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
