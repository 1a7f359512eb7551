"""Files written by children, and arrays through the door, for tests of the door."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from llm_lite.core.files.writing import replaced
from tests.children import PATIENCE
from tests.paths import ROOT

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do this")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def child(code, *arguments, **options):
    """A Python of its own over this source; its one line of output."""
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, **options,
    )  # fmt: skip
    assert "Traceback" not in run.stderr, run.stderr
    return run.stdout.strip()


WRITE = """
import os, sys
from pathlib import Path
from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import check_place, write_file
before = os.umask(0o022)
def tell(action, *arguments):
    try:
        action(*arguments)
    except FileError as error:
        return error.problem
    return "written" if arguments[1:] else "good"
"""
TELL = WRITE + (
    "print(tell(check_place, Path(sys.argv[1])), tell(write_file, Path(sys.argv[1]), b'new'),"
    " sep='; ')"
)


VALUES = np.arange(300_000, dtype=np.float32).reshape(3, -1)


def save_array(path):
    with replaced(path) as out:
        np.save(out, VALUES)


def save_arrays(path):
    with replaced(path) as out:
        np.savez(out, a=VALUES, b=VALUES[0])
