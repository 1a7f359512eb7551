"""A checkout is built in a folder of any name, or says at the start that it is not."""

import shutil
import subprocess
import sys

import pytest

from tests.paths import ROOT

SOURCES = ("CMakeLists.txt", "kernels_cpp", "kernels_glsl", "tools", "core/plan", "core/quant")


@pytest.mark.parametrize("name", ["llm-lite (1)", "it's $HOME & #1", "한글"])
def test_every_command_of_the_build_is_one_for_the_shell(name, tmp_path):
    """pybind11's call of strip is not quoted, and the shell refused it at the last step."""
    folder = tmp_path / name
    for source in SOURCES:
        target = folder / source
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, target)
    configure = ["-m", "cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja"]
    options = ["-DLLM_ISAS=scalar", f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run([sys.executable, *configure, *options], check=True, capture_output=True)
    ninja = [sys.executable, "-m", "ninja", "-C", folder / "build", "-t", "commands"]
    commands = subprocess.run(ninja, check=True, capture_output=True, text=True).stdout
    assert len(commands.splitlines()) > 20 and "strip " in commands
    read = subprocess.run(["sh", "-n"], input=commands, capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("name", ["a;b", "a:b", 'a"b', "a\\b", "a[b", "a]b", "a*", "a?"])
def test_a_folder_that_cannot_be_built_in_is_a_sentence_at_the_start(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    script = ROOT / "tools" / "system_packages.sh"
    words = ["sh", script, sys.executable]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"llm-lite is not built in {folder}: expected a path without")
