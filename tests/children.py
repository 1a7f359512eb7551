"""Cases that run in a child process, as a fault there would end the tests."""

import json
import subprocess
import sys

from tests.paths import ROOT

PATIENCE = 240  # seconds


def run_child(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """How `python -m module arguments` ended; a negative return code is a signal's."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


def answer_of(module: str, *arguments: object):
    """What a child printed as JSON in its last line; it must end well and say nothing else."""
    done = run_child(module, *arguments)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])
