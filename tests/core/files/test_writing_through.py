"""The door for writing files: what is no regular file is written through, or refused."""

import io
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import check_place, make_folder, reason, write_file
from tests.children import PATIENCE
from tests.core.files.writing_runs import (
    ROOT,
    VALUES,
    WRITE,
    as_root,
    child,
    names,
    save_array,
    save_arrays,
)


def test_devices_stay_devices():
    before = Path("/dev/null").stat()
    for write in (lambda: check_place(Path("/dev/null")), lambda: save_array(Path("/dev/null"))):
        write()
        after = Path("/dev/null").stat()
        assert (after.st_rdev, after.st_ino, after.st_mode) == (
            before.st_rdev, before.st_ino, before.st_mode,
        )  # fmt: skip
    assert not list(Path("/dev").glob(".null.*"))


@as_root
def test_a_device_node_of_its_own(tmp_path):
    place = tmp_path / "node"
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        place.open("wb").close()
    except OSError:
        pytest.skip("no devices can be made here")
    (tmp_path / "link").symlink_to("node")
    for name in ("node", "link"):
        save_array(tmp_path / name)
        assert stat.S_ISCHR(place.stat().st_mode)
    assert names(tmp_path) == ["link", "node"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("write", ["bytes", "save", "savez"])
def test_a_device_that_is_full(write):
    with pytest.raises(FileError, match="/dev/full: cannot be written: No space left on device"):
        {"bytes": lambda p: write_file(p, b"x"), "save": save_array, "savez": save_arrays}[write](
            Path("/dev/full")
        )
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def read_from(path, found):
    with path.open("rb") as file:
        found.append(file.read())


@pytest.mark.parametrize("save", [save_array, save_arrays])
def test_a_pipe_is_written_through(tmp_path, save):
    place, found = tmp_path / "pipe", []
    os.mkfifo(place)
    check_place(place)
    reader = threading.Thread(target=read_from, args=(place, found))
    reader.start()
    while True:
        try:
            save(place)
            break
        except FileError as error:  # the reader is not there yet
            assert error.problem == "cannot be written: nobody reads this pipe"
    reader.join(PATIENCE)
    loaded = np.load(io.BytesIO(found[0]))
    assert np.array_equal(loaded if save is save_array else loaded["a"], VALUES)
    assert stat.S_ISFIFO(place.stat().st_mode) and names(tmp_path) == ["pipe"]


def test_a_pipe_without_a_reader_is_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe: cannot be written: nobody reads this pipe"):
        write_file(tmp_path / "pipe", b"x")


def test_checking_does_not_end_a_pipe(tmp_path):
    place = tmp_path / "pipe"
    os.mkfifo(place)
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    check_place(place)
    writer = os.open(place, os.O_WRONLY)
    with pytest.raises(BlockingIOError):  # nothing yet, and not the end
        os.read(reader, 1)
    os.close(writer)
    os.close(reader)


def test_a_reader_that_leaves(tmp_path):
    read, write = os.pipe()
    os.close(read)
    try:
        with pytest.raises(FileError, match=f"/dev/fd/{write}: cannot be written: Broken pipe"):
            write_file(Path(f"/dev/fd/{write}"), b"x")
        os.fstat(write)  # the descriptor is still ours
    finally:
        os.close(write)


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/{pid}/fd/{}"])
def test_a_descriptor_is_written_through(tmp_path, form):
    """As a shell's >(process) gives one; of a regular file what is there is kept, as by >>."""
    place = tmp_path / "x"
    place.write_bytes(b"old ")
    number = place.stat().st_ino
    descriptor = os.open(place, os.O_WRONLY | os.O_APPEND)
    path = Path(form.format(descriptor, pid=os.getpid()))
    try:
        check_place(path)
        write_file(path, b"new")
        os.write(descriptor, b" and newer")
    finally:
        os.close(descriptor)
    assert place.read_bytes() == b"old new and newer"
    assert place.stat().st_ino == number and names(tmp_path) == ["x"]
    with pytest.raises(FileError, match="Bad file descriptor"):
        check_place(path)
    with pytest.raises(FileError, match="Bad file descriptor"):
        write_file(path, b"x")


def test_a_descriptor_that_is_only_read(tmp_path):
    (tmp_path / "x").touch()
    descriptor = os.open(tmp_path / "x", os.O_RDONLY)
    with pytest.raises(FileError, match="cannot be written: it is open for reading only"):
        check_place(Path(f"/dev/fd/{descriptor}"))
    os.close(descriptor)


def test_standard_output(tmp_path):
    code = WRITE + "print(tell(write_file, Path('/dev/stdout'), b'through '))"
    assert child(code) == "through written"
    ends = socket.socketpair()  # cannot be opened by its name
    with ends[0], ends[1]:
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=ends[1])
        assert process.wait(PATIENCE) == 0
        assert ends[0].recv(100) == b"through written\n"


def test_sentences_for_what_is_never_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        for path, said in {
            "socket": "socket: is a socket, expected the name",
            ".": "is a directory, expected the name of a file to write",
            "/": "/: is a directory",
            "none/x": "none/x: cannot be written: there is no directory",
            "x" * 256: "cannot be written: File name too long",
            "loop": "loop: cannot be written: Too many levels of symbolic links",
            "x\0y": r"is no path: embedded null",
            "x\ud800": r"is no path: 'utf-8' codec",
        }.items():
            if path == "loop":
                Path("loop").symlink_to("loop")
            for call in (check_place, lambda path: write_file(path, b"x")):
                with pytest.raises(FileError, match=said) as caught:
                    call(Path(path))
                assert "\n" not in str(caught.value) and "None" not in str(caught.value)
    assert names(tmp_path) == ["loop", "socket"]


@as_root
def test_block_devices_are_refused(tmp_path):
    place = tmp_path / "disk"
    try:
        os.mknod(place, 0o600 | stat.S_IFBLK, os.makedev(7, 250))
    except OSError:
        pytest.skip("no devices can be made here")
    for call in (check_place, lambda path: write_file(path, b"x")):
        with pytest.raises(FileError, match="disk: is a block device, and writing would destroy"):
            call(place)
    assert names(tmp_path) == ["disk"]


def test_folders(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(FileError, match="cannot be made: there is a file where"):
            make_folder(path)
    with pytest.raises(FileError, match="cannot be made: embedded null"):
        make_folder(Path("x\0y"))


def test_a_reason_is_never_none():
    assert reason(OSError(28, None)) == "No space left on device"
    assert reason(OSError("8 requested and 0 written")) == "8 requested and 0 written"
    assert reason(OSError()) == "OSError"
    assert reason(OSError(28, "full")) == "full"


@pytest.mark.parametrize("save", ["save_array", "save_arrays"])
def test_a_limit_of_the_size_of_files(tmp_path, save):
    (tmp_path / "x").write_bytes(b"old")
    code = f"""
import resource, sys
from pathlib import Path
from llm_lite.core.errors import FileError
from tests.core.files.writing_runs import {save}
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    {save}(Path(sys.argv[1]))
except FileError as error:
    print(error.problem)
"""
    assert child(code, tmp_path / "x") == "cannot be written: File too large"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100_000
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]
