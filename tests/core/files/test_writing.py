"""The door for writing files: a regular file is replaced whole, or stays; leftovers go."""

import os
import subprocess
import sys

import pytest

from llm_lite.core.errors import FileError, LlmLiteError
from llm_lite.core.files.writing import check_place, replaced, write_file
from tests.children import PATIENCE
from tests.core.files.writing_runs import ROOT, TELL, WRITE, as_root, child, mode_of, names

NOBODY = 65534


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "x", b"new")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "x") == 0o640
    assert (tmp_path / "x").read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664, 0o755])
def test_mode_and_attributes_stay(tmp_path, mode):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    place.chmod(mode)
    try:
        os.setxattr(place, "user.note", b"mine")
    except OSError:
        pytest.skip("no extended attributes here")
    write_file(place, b"new")
    assert (mode_of(place), os.getxattr(place, "user.note")) == (mode, b"mine")


@as_root
def test_the_owner_stays(tmp_path):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    os.chown(place, NOBODY, 12345)
    place.chmod(0o640)
    write_file(place, b"new")
    status = place.stat()
    assert (status.st_uid, status.st_gid, mode_of(place)) == (NOBODY, 12345, 0o640)


def test_readers_see_the_old_or_the_whole_new(tmp_path):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    with place.open("rb") as reader, replaced(place) as out:
        out.write(b"n")
        assert place.read_bytes() == b"old"
        out.write(b"ew")
        assert len(names(tmp_path)) == 2
        assert reader.read() == b"old"
    assert place.read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, LlmLiteError, MemoryError, OSError])
def test_whatever_ends_it_leaves_the_old(tmp_path, error):
    place = tmp_path / "x"
    place.write_bytes(b"old")
    with (
        pytest.raises(FileError if error is OSError else error),
        replaced(place) as out,
    ):
        out.write(b"half")
        raise error
    assert place.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_new_never_replaces(tmp_path):
    place = tmp_path / "x"
    write_file(place, b"first", new=True)
    with pytest.raises(FileError, match="x: there is such a file already; choose another name"):
        write_file(place, b"second", new=True)
    with (
        pytest.raises(FileError, match="late: there is such a file already"),
        replaced(tmp_path / "late", new=True) as out,
    ):
        out.write(b"second")
        (tmp_path / "late").write_bytes(b"first")
    assert [(tmp_path / name).read_bytes() for name in ("x", "late")] == [b"first"] * 2
    assert names(tmp_path) == ["late", "x"]


def test_a_name_as_long_as_it_may_be(tmp_path):
    place = tmp_path / ("x" * 255)
    write_file(place, b"new")
    write_file(place, b"newer")
    assert place.read_bytes() == b"newer"
    assert names(tmp_path) == [place.name]


def test_what_cannot_be_renamed_is_copied_over(tmp_path, monkeypatch):
    """As where a file is a mount of its own."""
    place, link = tmp_path / "x", tmp_path / "hard"
    place.write_bytes(b"much longer than the new one")
    link.hardlink_to(place)

    def busy(*_):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    write_file(place, b"new")
    assert place.read_bytes() == link.read_bytes() == b"new"
    assert names(tmp_path) == ["hard", "x"]


@as_root
@pytest.mark.parametrize(
    ("folder", "file", "said"),
    [
        (0o755, 0o666, "good; written"),  # the file is ours to write, the folder is not
        (0o777, 0o666, "good; written"),  # ... and the owner could not be kept
        (0o1777, 0o666, "good; written"),  # as in /tmp
        (0o777, 0o644, "cannot be written: Permission denied;" * 2),
        (0o755, None, "cannot be written: Permission denied;" * 2),
        (0o700, None, "cannot be written: Permission denied;" * 2),
    ],
)
def test_permissions_of_somebody_who_is_not_root(tmp_path, folder, file, said):
    for above in (tmp_path, *tmp_path.parents):  # pytest's own let nobody else in
        if above.stat().st_mode & 0o055 != 0o055 and above.owner() == "root":
            above.chmod(above.stat().st_mode | 0o055)
    inner = tmp_path / "folder"
    inner.mkdir()
    place = inner / "x"
    if file is not None:
        place.write_bytes(b"much longer than the new one")
        place.chmod(file)
    inner.chmod(folder)
    drop = "import tempfile; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    code = TELL.replace("before =", f"{drop}before =")
    assert child(code, place).replace("; ", ";").strip(";") == said.replace("; ", ";").strip(";")
    if "written;" in f"{said};" and file is not None and "denied" not in said:
        assert place.read_bytes() == b"new"
        assert (place.stat().st_uid, mode_of(place)) == (0, file)
    assert [path.name for path in inner.iterdir()] == ([] if file is None else ["x"])


@as_root
def test_a_read_only_disk(tmp_path):
    mounted = subprocess.run(
        ["unshare", "-m", "sh", "-c",
         'mount -t tmpfs -o ro none "$1" && exec "$2" -c "$3" "$1/x"',
         "sh", str(tmp_path), sys.executable, TELL],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr[:80]}")
    assert mounted.stdout.strip() == "; ".join(["cannot be written: Read-only file system"] * 2)


@as_root
def test_a_full_disk_and_a_mounted_file(tmp_path):
    """Also where the new content must be copied over what is there: then that stays whole."""
    code = WRITE + (
        "place = Path(sys.argv[1], 'x')\n"
        "print(tell(write_file, place, b'old'), tell(write_file, place, bytes(1 << 20)),"
        " place.read_bytes(), os.listdir(sys.argv[1]), sep='; ')\n"
        "small = Path(sys.argv[2])\n"
        "print(tell(write_file, small, b'old'), tell(write_file, small, bytes(1 << 20)),"
        " small.read_bytes(), os.path.ismount(small))"
    )
    (tmp_path / "disk").mkdir()
    (tmp_path / "file").touch()
    script = (
        'mount -t tmpfs -o size=64k none "$1/disk" && touch "$1/disk/y" && '
        'mount --bind "$1/disk/y" "$1/file" && exec "$2" -c "$3" "$1/disk" "$1/file"'
    )
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, code],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    if run.returncode:
        pytest.skip(f"nothing can be mounted here: {run.stderr[-80:]}")
    full = "cannot be written: No space left on device"
    disk, file = run.stdout.splitlines()
    assert disk in (f"written; {full}; b'old'; {order}" for order in ("['x', 'y']", "['y', 'x']"))
    assert file == f"written {full} b'old' True"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    place = tmp_path / "real" / "x"
    place.write_bytes(b"old")
    place.chmod(0o640)
    (tmp_path / "link").symlink_to("real/x")
    (tmp_path / "second").symlink_to("link")
    write_file(tmp_path / "second", b"new")
    assert place.read_bytes() == b"new" and mode_of(place) == 0o640
    assert (tmp_path / "link").is_symlink() and (tmp_path / "second").is_symlink()
    assert names(tmp_path) == ["link", "real", "second"] and names(tmp_path / "real") == ["x"]


def test_a_dangling_link_makes_its_target(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/x")
    check_place(tmp_path / "link")
    assert names(tmp_path / "real") == []
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "x").read_bytes() == b"new"
    (tmp_path / "lost").symlink_to("nowhere/x")
    with pytest.raises(FileError, match=r"lost: cannot be written: there is no directory .*nowh"):
        write_file(tmp_path / "lost", b"new")
