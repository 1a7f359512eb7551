"""A toy op, y = factor * |x| with factor >= 0, and what builds its kernels alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.recipes.recipe import KERNELS, SITE, Copy, Edits

OP = "toy"
_CPP = """// y = factor * |x|
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void toy(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const float factor = op.params.toy.factor;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const float* from = row<const float>(*op.in[0], i);
    float* to = row<float>(y, i);
    for (int64_t j = 0; j < y.n_cols; ++j) to[j] = factor * (from[j] < 0 ? -from[j] : from[j]);
  }
}

const Kernel kToy = {row_tasks, toy, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
"""
_COMP = """#version 450
#extension GL_GOOGLE_include_directive : require
// y = factor * |x|
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const float FACTOR = 1.0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  y[i] = FACTOR * abs(x[i]);
}
"""
EDITS: Edits = {
    "core/plan/ops.py": {
        'OpSpec("concat"': (
            '    OpSpec("toy", ("x",), ("y",), "y = factor * |x|", '
            '{"factor": "float32"}, "elementwise"),\n'
        )
    },
    "core/plan/builder.py": {
        'self._op("softcap"': """
    def toy(self, x: Tensor, label: str, *, factor: float) -> Tensor:
        expect(factor >= 0, f"{label}: {factor} is negative")
        return self._op("toy", (x,), self._like(x, label), label, factor=factor)
"""
    },
    "core/exec/reference.py": {
        "np.tanh(x * np.float32(scale))": """

def toy(x: F32, *, factor: float) -> F32:
    return np.float32(factor) * np.abs(x)
"""
    },
    "kernels_cpp/ops/toy.cpp": _CPP,
    "kernels_glsl/toy.comp": _COMP,
    "core/exec/op_cases.py": {
        '"softcap": lambda b, x, y': '    "toy": lambda b, x, y: b.toy(x, "out", factor=0.3),\n',
        '"softcap": ({"scale"': '    "toy": ({"factor": 0.5}, lambda x: 0.5 * abs(x)),\n',
    },
}


def schema(copy: Copy) -> Path:
    """The folder of what is generated from the tables."""
    folder = copy.folder / "build" / "schema"
    copy.run(sys.executable, "tools/kernel_schema.py", str(folder)).check_returncode()
    return folder


def compile_shader(copy: Copy) -> None:
    """The rows of its shader, as kernels_glsl/CMakeLists.txt compiles them."""
    prefix, glsl = SITE / "cmeel.prefix", copy.folder / "kernels_glsl"
    variants = schema(copy) / "glsl" / "variants.txt"
    rows = [row.split() for row in variants.read_text("utf-8").splitlines()]
    for stem, source, *defines in (row for row in rows if row[1:2] == [f"{OP}.comp"]):
        target = copy.packages / KERNELS / "spirv" / f"{stem}.spv"
        words = ["--quiet", "--target-env", "vulkan1.2", f"-I{glsl}", *(f"-D{d}" for d in defines)]
        program = str(prefix / "bin" / "glslangValidator")
        found = {"LD_LIBRARY_PATH": str(prefix / "lib")}
        copy.run(program, *words, str(glsl / source), "-o", str(target), **found)


def compiles(copy: Copy, source: str) -> subprocess.CompletedProcess[str]:
    """One file of kernels_cpp, for the instruction set that every machine has."""
    compiler = shutil.which("c++") or "c++"
    words = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DLLM_ISA=scalar"]
    folders = (copy.folder / "kernels_cpp", schema(copy) / "cpp")
    return copy.run(compiler, *words, *(f"-I{folder}" for folder in folders), source)


def build(copy: Copy) -> subprocess.CompletedProcess[str]:
    """The whole extension for all instruction sets, without optimization."""
    build = copy.folder / "build" / "whole"
    words = ["-DCMAKE_BUILD_TYPE=Debug", f"-DPython_EXECUTABLE={sys.executable}"]
    words += [f"-DPYTHON_EXECUTABLE={sys.executable}", "-G", "Ninja"]
    words.append(f"-DCMAKE_MAKE_PROGRAM={SITE.parents[2] / 'bin' / 'ninja'}")
    cmake = str(SITE.parents[2] / "bin" / "cmake")
    configured = copy.run(cmake, "-S", str(copy.folder), "-B", str(build), *words)
    if configured.returncode != 0:
        return configured
    made = copy.run(cmake, "--build", str(build))
    copy.packages = build
    return made
