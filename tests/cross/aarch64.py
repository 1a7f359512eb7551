"""The kernels' NEON builds, cross-compiled and run under emulation, against this machine's.

    python -m tests.cross.aarch64 [--folder build/aarch64]

Needs aarch64-linux-gnu-g++ and qemu-aarch64 (Debian: g++-aarch64-linux-gnu, qemu-user-static). A
small llama in every mode reads a prompt and decodes; the logits of both builds, with and without
dot products of bytes, are compared with those of the NumPy executor.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.cpu import executor as cpu
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.loading.runner import Runner
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tests.runners import exact, running

KERNELS = ROOT / "kernels_cpp"
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
BUILDS = {"neon": [], "neondot": ["-march=armv8.2-a+dotprod"]}
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
WITHOUT_FMA = ("ops/quantize.cpp", "quantizer/search.cpp")
COMMON = ("base/isa", "base/threads", "plan/check", "plan/interpreter", "plan/plan")
SIZES = {"width": 128, "layers": 2, "heads": 8, "kv_heads": 4, "ffn": 256}
CASES = (("fp32", "a32"), ("fp16", "a32"), ("int8", "a32"), ("int4", "a32"), ("int8", "a8"))
CASES += (("int4", "a8"),)
FILES = (("q4_0", "a8"), ("q4_1", "a8"), ("q8_0", "a8"), ("q4_1", "a32"))
TOLERANCE = {"a32": 1e-5, "a8": 1e-3}  # of the largest logit; a8 may round a level otherwise
_ALIGNMENT = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("build/aarch64"))
    folder = parser.parse_args().folder
    emulator = next((name for name in EMULATORS if shutil.which(name)), None)
    if emulator is None or shutil.which(COMPILER) is None:
        print(f"needs {COMPILER} and one of {', '.join(EMULATORS)}", file=sys.stderr)
        return 1
    program = build(folder)
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        for mode, dtype, activations in _cases():
            case = Path(name) / "case"
            expected = write_case(case, mode, dtype, activations)
            for isa in BUILDS:
                out = Path(name) / "out"
                subprocess.run([emulator, program, isa, case, out], check=True)
                found = np.fromfile(out, np.float32)
                error = float(np.abs(found - expected).max() / np.abs(expected).max())
                share = error / TOLERANCE[activations]
                worst = max(worst, share if np.isfinite(error) else np.inf)
                print(f"{isa:8} {dtype:5} {mode:10} {activations:4} off by {error:.1e}")
    print("all within their tolerance" if worst <= 1 else "NOT within tolerance")
    return int(worst > 1)


def _cases() -> list[tuple[str, str, str]]:
    modes = [(mode, "f32", activations) for mode, activations in CASES]
    return modes + [("as-stored", dtype, activations) for dtype, activations in FILES]


def build(folder: Path) -> Path:
    """The program, for aarch64 and static; as slow to make as the kernels are twice."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = [*sorted((KERNELS / "ops").glob("*.cpp")), KERNELS / "logits/kernels.cpp"]
    kernels.append(KERNELS / "quantizer/search.cpp")
    schema = [sys.executable, ROOT / "tools" / "kernel_schema.py", folder / "schema"]
    subprocess.run(schema, check=True)
    objects = []
    for isa, flags in BUILDS.items():
        for source in kernels:
            name = str(source.relative_to(KERNELS))
            off = ["-ffp-contract=off"] if name in WITHOUT_FMA else []
            target = folder / f"{isa}-{source.parent.name}-{source.stem}.o"
            _compile(source, target, [*flags, *off, f"-DLLM_ISA={isa}"])
            objects.append(target)
    for name in (*COMMON, "plan/rope_angles"):
        target = folder / f"{name.replace('/', '-')}.o"
        _compile(KERNELS / f"{name}.cpp", target, [])
        objects.append(target)
    main = folder / "run_steps.o"
    _compile(Path(__file__).with_name("run_steps.cpp"), main, [])
    program = folder / "run_steps"
    link = [COMPILER, "-static", "-pthread", "-o", program, main, *objects]
    subprocess.run(link, check=True)
    return program


def _compile(source: Path, target: Path, flags: list[str]) -> None:
    """Anew only where a source of the kernels is younger."""
    headers = (*KERNELS.rglob("*.h"), *target.parent.rglob("*.h"))
    sources = [*headers, source]
    if target.exists() and target.stat().st_mtime > max(s.stat().st_mtime for s in sources):
        return
    includes = ("-I", KERNELS, "-I", target.parent / "schema" / "cpp")
    command = [COMPILER, *FLAGS, *flags, *includes, "-c", source, "-o", target]
    subprocess.run(command, check=True)


def write_case(path: Path, mode: str, dtype: str, activations: str) -> NDArray[np.float32]:
    """The plans, memory and steps of a small model as this machine laid them out; the logits that
    NumPy gives."""
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_llama(Path(folder) / "tiny.gguf", dtype=dtype, **SIZES)
        changes: dict[str, Any] = {"mode": mode, "activations": activations}
        with running(model, exact("numpy", **changes)) as runner:
            expected = [_logits(runner, step) for step in steps()]
        with running(model, exact("cpu", threads=1, **changes)) as runner:
            executor = runner.executor
            assert isinstance(executor, CpuExecutor)
            with path.open("wb") as file:
                _write(file, executor, runner.executor.program)
    return np.concatenate(expected)


def steps() -> list[Step]:
    """A prompt, one token, some more, one token."""
    random, found, start = np.random.default_rng(5), [], 0
    for count in (20, 1, 3, 1):
        found.append(Step(random.integers(0, 300, count).astype(np.int32), start, 1))
        start += count
    return found


def _logits(runner: Runner, step: Step) -> NDArray[np.float32]:
    return runner.executor.run(step).ravel()


def _write(file: Any, executor: CpuExecutor, program: Program) -> None:
    memory, offsets = _memory(executor)
    _numbers(file, len(memory))
    file.write(memory)
    _numbers(file, len(program.plans))
    for plan in program.plans:
        rows = [list(executor._tensor_row(tensor)) for tensor in plan.tensors]
        for row in rows:
            row[-1] = _moved(row[-1], offsets)
        _numbers(file, len(rows))
        np.array(rows, np.int64).tofile(file)
        _numbers(file, len(plan.ops))
        np.array([cpu._op_row(op) for op in plan.ops], np.int64).tofile(file)
        np.array([cpu._param_row(op) for op in plan.ops], np.float64).tofile(file)
    _numbers(file, len(steps()))
    for step in steps():
        plan = program.plan_for(step.count, step.outputs)
        logits = plan.tensors[plan.logits]
        words = step.pack(plan.max_tokens)
        at = _moved(executor._place(logits)[1], offsets)
        _numbers(file, program.plans.index(plan), at, 4 * logits.shape[1], len(words))
        words.tofile(file)


def _memory(executor: CpuExecutor) -> tuple[bytes, list[tuple[int, int, int]]]:
    """All that the plans point into, side by side; (address, bytes, place) of each part."""
    parts = [weight.data for weight in executor._weights.values()]
    parts += [np.asarray(state) for state in executor._state.values()]
    parts.append(np.asarray(executor._arena))
    memory, offsets = bytearray(), []
    for part in parts:
        flat = np.ascontiguousarray(part).view(np.uint8).ravel()
        offsets.append((int(part.ctypes.data), flat.nbytes, len(memory)))
        memory += flat.tobytes()
        memory += bytes(-len(memory) % _ALIGNMENT)
    return bytes(memory), offsets


def _moved(address: int, offsets: Iterable[tuple[int, int, int]]) -> int:
    for begin, size, place in offsets:
        if begin <= address < begin + size:
            return place + address - begin
    raise ValueError("a tensor lies outside all memory")


def _numbers(file: Any, *values: int) -> None:
    np.array(values, np.int64).tofile(file)


if __name__ == "__main__":
    sys.exit(main())
