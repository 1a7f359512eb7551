"""Reads of mapped files that were cut short. Run by test_mapping.py, in a process of its own."""

import ctypes
import faulthandler
import json
import mmap
import os
import signal
import threading
from pathlib import Path

import numpy as np

from llm_lite.core.errors import FileChangedError
from llm_lite.core.files.mapping import MappedFiles, mapped

PAGES = 64


def map_pages(path, value=7):
    """uint8 [PAGES pages] of a new file, all `value`."""
    path.write_bytes(bytes([value]) * (PAGES * mmap.PAGESIZE))
    with mapped(path, "a file") as mapping:
        return np.frombuffer(mapping, np.uint8)


def sentence(*arrays):
    try:
        MappedFiles.under(arrays).check()
    except FileChangedError as error:
        return str(error)
    return ""


def by_threads(folder, rounds="50"):
    """Many read a lost mapping at once, round after round; the other one stays as it is."""
    other = map_pages(folder / "other", 5)
    for turn in range(int(rounds)):
        path = folder / f"{turn}"
        data = map_pages(path)
        start = threading.Barrier(16)
        sums = []

        def read(first, data=data, start=start, sums=sums):
            start.wait()
            sums.append(int(data[first * mmap.PAGESIZE :: 17].sum()))

        threads = [threading.Thread(target=read, args=(first,)) for first in range(1, 17)]
        for thread in threads:
            thread.start()
        os.truncate(path, 0)
        for thread in threads:
            thread.join()
        assert not data.any(), "what is lost is zeros"
        assert sentence(data).startswith(f"{path}: changed while it was in use"), sentence(data)
        assert (other == 5).all() and not sentence(other)
        path.unlink()
    return "ok"


def released(folder):
    """Addresses of a mapping that is gone are not ours: a fault there has to end the process."""
    data = map_pages(folder / "first")
    begin = data.ctypes.data
    del data
    (folder / "second").write_bytes(bytes(PAGES * mmap.PAGESIZE))
    with (folder / "second").open("rb") as file:
        plain = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert np.frombuffer(plain, np.uint8).ctypes.data == begin, "the system gave other addresses"
    os.truncate(folder / "second", 0)
    return plain[mmap.PAGESIZE]


def lost_alone(folder):
    """Size and time are as before, yet pages were read that were not there."""
    data = map_pages(folder / "file")
    status = (folder / "file").stat()
    os.truncate(folder / "file", 0)
    assert not data.any()
    os.truncate(folder / "file", status.st_size)
    os.utime(folder / "file", ns=(status.st_atime_ns, status.st_mtime_ns))
    return sentence(data)


def sent(folder):
    map_pages(folder / "file")
    os.kill(os.getpid(), signal.SIGBUS)
    return "it went on"


def written(folder):
    """A write is a defect, in a lost mapping too."""
    data = map_pages(folder / "file")
    os.truncate(folder / "file", 0)
    assert not data.any()
    ctypes.memset(data.ctypes.data, 1, 1)
    return "it went on"


def with_faulthandler(folder):
    faulthandler.enable()
    data = map_pages(folder / "file")
    os.truncate(folder / "file", 0)
    assert not data.any()
    return sentence(data)


def faulthandler_speaks(folder):
    """Of a fault that is not ours."""
    faulthandler.enable()
    data = map_pages(folder / "file")
    del data
    with (folder / "file").open("rb") as file:
        plain = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    os.truncate(folder / "file", 0)
    return plain[mmap.PAGESIZE]


def main(arguments):
    case, directory, *rest = arguments
    print(json.dumps(globals()[case](Path(directory), *rest)))
