"""The build's compiler of shaders: rows of defines in, modules out; what is wrong is named."""

import subprocess
import sys

import pytest

from tests.paths import ROOT

MAGIC = 0x07230203  # of SPIR-V
SHADER = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/size.glsl"
layout(local_size_x = SIZE) in;
void main() {}
"""


@pytest.fixture
def compile_rows(tmp_path):
    """compile_rows(rows) -> how it ended, and the folder of its outputs."""
    folders = [tmp_path / name for name in ("sources", "schema", "output")]
    for folder in (*folders[:2], folders[0] / "common", folders[1] / "wide"):
        folder.mkdir()
    (folders[0] / "a.comp").write_text(SHADER)
    (folders[0] / "common" / "size.glsl").write_text("#ifdef TWICE\n#define SIZE 2 * TWICE\n#endif")
    (folders[0] / "b.comp").write_text(SHADER.replace("common/size.glsl", "format.glsl"))
    (folders[1] / "wide" / "format.glsl").write_text("#define SIZE 64\n")

    def run(rows):
        (folders[1] / "variants.txt").write_text(rows)
        command = [sys.executable, ROOT / "tools" / "compile_shaders.py", *folders]
        return subprocess.run(command, capture_output=True, text=True), folders[2]

    return run


def test_each_row_is_a_module(compile_rows):
    done, output = compile_rows("a.4 a.comp TWICE=2\na.8 a.comp TWICE=4\nb b.comp FORMAT=wide\n")
    assert (done.returncode, done.stderr) == (0, "")
    modules = {path.stem: path.read_bytes() for path in output.iterdir()}
    assert modules.keys() == {"a.4", "a.8", "b"}
    assert len(set(modules.values())) == 3
    assert all(int.from_bytes(m[:4], sys.byteorder) == MAGIC for m in modules.values())


@pytest.mark.parametrize(
    ("row", "problem"), [("a a.comp", "undeclared identifier"), ("b b.comp", "format.glsl")]
)
def test_what_does_not_compile_is_named(compile_rows, row, problem):
    done, _ = compile_rows(row)
    assert done.returncode == 1
    name, source = row.split()
    assert f"{source} as {name}:\n" in done.stderr and problem in done.stderr
