"""The build reads the tables of ops and formats before the program is there."""

import subprocess
import sys

from tests.paths import ROOT


def test_the_schema_needs_the_standard_library_alone(tmp_path):
    """-I and -S: neither this checkout nor the packages of this environment are found."""
    command = [sys.executable, "-I", "-S", ROOT / "tools" / "kernel_schema.py", tmp_path]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"cpp", "glsl"}
    assert all(any(folder.iterdir()) for folder in tmp_path.iterdir())
