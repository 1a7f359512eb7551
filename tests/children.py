"""Cases that run in a child process, as a fault there would end the tests.

Children are forked from a server that has imported what they need: a start takes milliseconds.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.paths import ROOT

# Seconds that a test waits for what must happen: only a hang takes so long, also where two suites
# share two slow cores. tests/conftest.py sets it by the time that a test has.
PATIENCE = 1440.0
_SERVED = ["tests.core.files.changed_files_child", "tests.core.formats.mapping_child"]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(_SERVED)


def run_child(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """How `main(arguments)` of a module ended; a negative return code is a signal's."""
    command = [module, *map(str, arguments)]
    with tempfile.TemporaryDirectory() as name:
        out, err = Path(name) / "out", Path(name) / "err"
        child = _forks.Process(target=_run, args=(command, out, err))
        child.start()
        child.join(PATIENCE)
        if child.exitcode is None:
            child.kill()
            child.join()
            raise subprocess.TimeoutExpired(command, PATIENCE)
        told = [path.read_text() for path in (out, err)]
        return subprocess.CompletedProcess(command, child.exitcode, *told)


def _run(command: list[str], *outputs: Path) -> None:
    os.chdir(ROOT)
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    module, *arguments = command
    importlib.import_module(module).main(arguments)
    sys.stdout.flush()


def answer_of(module: str, *arguments: object):
    """What a child printed as JSON in its last line; it must end well and say nothing else."""
    done = run_child(module, *arguments)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])
