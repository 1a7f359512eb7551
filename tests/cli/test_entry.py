"""Ctrl-C from the first import to the last moment: an exit code, never a traceback."""

import signal
import subprocess
import sys

import pytest

from tests.children import PATIENCE
from tests.paths import ROOT

INTERRUPT_ITSELF = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.{handler})  # whatever this process inherited

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv = ["llm-lite", "models", "list"]
from llm_lite.cli.entry import main
sys.exit(main())
"""


def run(module, handler="default_int_handler"):
    code = INTERRUPT_ITSELF.format(module=module, handler=handler)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        ("llm_lite.cli.main", -signal.SIGINT, ""),
        ("llm_lite.core.messages", -signal.SIGINT, ""),
        ("llm_lite.cli.commands.models_local", 130, "\nllm-lite: interrupted\n"),
    ],
)
def test_interrupted_while_importing(module, code, said):
    process = run(module)
    assert (process.returncode, process.stderr) == (code, said)


def test_a_background_job_goes_on():
    process = run("llm_lite.cli.main", "SIG_IGN")
    assert (process.returncode, process.stderr) == (0, "")
    assert "smollm2-135m-instruct" in process.stdout
