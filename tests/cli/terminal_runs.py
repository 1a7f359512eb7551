"""Terminal commands, run in this process or as a person starts them."""

import os
import subprocess
import sys

from tests.paths import ROOT

NUMPY = ("--backend", "numpy")
GREEDY = ("--temperature", "0", "--repetition-penalty", "1")


def sentence(capsys):
    """The one line on standard error; nothing on standard output."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("llm-lite: ")
    assert err.count("\n") == 1
    return err


def spawn(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "llm_lite.cli.entry", *map(str, arguments)],
        cwd=ROOT,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        env=os.environ | options.pop("env", {}),
        **options,
    )
