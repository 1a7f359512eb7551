"""Files that change while they are mapped: reads find zeros, and `check` tells."""

import errno
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from llm_lite_kernels import _cpp

from llm_lite.core.errors import CancelledError, FileChangedError, FileError
from llm_lite.core.files import mapping
from llm_lite.core.files.mapping import NO_FILES, MappedFiles, mapped
from tests.children import answer_of, run_child

CHILD = "tests.core.formats.mapping_child"
posix = pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be cut there")


@posix
def test_threads_that_read_what_was_cut_off_find_zeros(tmp_path):
    assert answer_of(CHILD, "by_threads", tmp_path) == "ok"


@posix
def test_pages_that_were_lost_are_told_though_the_file_is_as_before(tmp_path):
    assert "could not be read while it was in use" in answer_of(CHILD, "lost_alone", tmp_path)


@posix
def test_faulthandler_may_be_there(tmp_path):
    found = answer_of(CHILD, "with_faulthandler", tmp_path)
    assert "changed while it was in use" in found


@posix
@pytest.mark.parametrize("case", ["released", "sent", "faulthandler_speaks"])
def test_faults_that_are_not_ours_end_the_process(tmp_path, case):
    done = run_child(CHILD, case, tmp_path)
    assert done.returncode == -signal.SIGBUS, done.stdout + done.stderr
    assert ("Bus error" in done.stderr) == (case == "faulthandler_speaks")


@posix
def test_a_write_ends_the_process(tmp_path):
    assert run_child(CHILD, "written", tmp_path).returncode in (-signal.SIGSEGV, -signal.SIGBUS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    return path


def read(path):
    with mapped(path, "a file") as found:
        return np.frombuffer(found, np.uint8)


def write_again(path):
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(0, 1))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda path: os.truncate(path, 20), "it had 200 bytes, now 20; load the model again"),
        (lambda path: path.write_bytes(bytes(300)), "it had 200 bytes, now 300"),
        (write_again, "its 200 bytes were written again; load the model again"),
        (lambda path: os.utime(path, ns=(0, 1)), "its 200 bytes were written again"),
    ],
    ids=["cut", "grown", "written", "touched"],
)
def test_a_change_is_told_for_good(file, change, expected):
    data = read(file)
    files, status = MappedFiles.under([data, data[20:], np.zeros(3)]), file.stat()
    assert len(files.files) == 1
    files.check()
    change(file)
    with pytest.raises(FileChangedError, match=f"{file}: changed while it was in use: {expected}"):
        files.check()
    os.truncate(file, 200)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(FileChangedError, match=expected):
        files.check()


def test_a_network_that_lost_the_file(file, monkeypatch):
    def stale(descriptor):
        raise OSError(errno.ESTALE, "Stale file handle")

    data = read(file)
    monkeypatch.setattr(mapping, "os", SimpleNamespace(fstat=stale, close=os.close))
    with pytest.raises(FileChangedError, match="could not be read while it was in use: Stale file"):
        MappedFiles.under([data]).check()


@posix
def test_one_mapping_too_many_is_a_sentence(file):
    data, guards = read(file), []
    with pytest.raises(RuntimeError):
        while True:
            guards.append(_cpp.MappingGuard(data))
    with pytest.raises(FileError, match=f"{file}: cannot be read: too many files are mapped"):
        read(file)
    guards.clear()
    read(file)


def replace(path):
    path.with_name("new").write_bytes(b"another")
    path.with_name("new").replace(path)


@pytest.mark.parametrize(
    "change", [replace, os.unlink, lambda p: p.chmod(0o600), lambda p: p.rename(f"{p}.old")]
)
def test_what_leaves_the_mapped_bytes_alone_is_no_change(file, change):
    data = read(file)
    change(file)
    MappedFiles.under([data]).check()
    assert data.tolist() == list(range(200))


def test_arrays_in_memory_lie_in_no_file():
    assert MappedFiles.under([np.zeros(3), np.frombuffer(b"abc", np.uint8)]) == NO_FILES
    NO_FILES.check()


def test_an_error_in_the_middle_of_a_change_is_the_change(file):
    def fail(problem):
        with MappedFiles.under([data]).unchanged():
            os.utime(file, ns=(0, 1))
            raise problem

    data = read(file)
    with pytest.raises(FileChangedError):
        fail(FileError(file, "tensor x is odd"))
    data = read(file)
    with pytest.raises(CancelledError):
        fail(CancelledError("stopped"))
    data = read(file)
    with pytest.raises(FileChangedError), MappedFiles.under([data]).unchanged():
        os.truncate(file, 1)


def handles_of(file):
    """How many of this process's open files are this one; others come and go by themselves."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            count += link.readlink() == file
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="tried on Linux only")
def test_a_mapping_that_is_gone_leaves_no_open_file(file):
    data = [read(file) for _ in range(5)]
    assert handles_of(file) > 0
    del data
    assert handles_of(file) == 0
