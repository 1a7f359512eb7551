"""How a process of the tests runs, and its children; imported by conftest.py before all else."""

import os
import signal
import sys
from pathlib import Path

# Workers fill the cores by themselves, and OpenBLAS's threads spin while they wait for a product: a
# quarter of the processor's time where a model runs on NumPy. Read when NumPy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Hundreds of children import what this process has compiled, wherever it forbids to keep that.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell's background jobs ignore Ctrl-C, and those of nohup the end of the terminal; so would we
# and our children: tests send both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What the program keeps for the person whose machine this is (settings, models, what drafts have
# learned) is no part of a test. The folder stays: drivers cache compiled shaders in it.
_HOME = Path(__file__).resolve().parents[1] / "build" / "tests-home"
for _kind in ("cache", "config", "data", "state"):
    (_HOME / _kind).mkdir(parents=True, exist_ok=True)
    os.environ[f"XDG_{_kind.upper()}_HOME"] = str(_HOME / _kind)
