"""The kernels' NEON builds, cross-compiled and run under emulation, against this machine's.

    python -m tools.cross.aarch64 [--folder build/aarch64]

Needs aarch64-linux-gnu-g++ and qemu-aarch64 (Debian: g++-aarch64-linux-gnu, qemu-user-static). A
small llama in every weight mode and with every type of cache reads a prompt and decodes; the logits
of each build are compared with those of the NumPy executor, and those of i8mm with the bits of
neondot, whose integers it sums in another way.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.cpu.plan_rows import plan_rows
from llm_lite.core.loading.runner import Runner
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT
from tests.runners import exact, running

KERNELS = ROOT / "kernels_cpp"
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
DOTS = "-march=armv8.2-a+dotprod"
BUILDS = {"neon": [], "neondot": [DOTS], "i8mm": [f"{DOTS}+i8mm"]}
ALIKE = {"i8mm": "neondot"}  # what has other products of many tokens only, with the same bits
FLAGS = ["-std=c++20", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
WITHOUT_FMA = ("ops/quantize.cpp", "quantizer/search.cpp")
COMMON = ("base/isa", "base/threads", "plan/check", "plan/interpreter", "plan/plan")
SIZES = {"width": 128, "layers": 2, "heads": 8, "kv_heads": 4, "ffn": 256}


class Case(NamedTuple):
    mode: str = "as-stored"
    activations: str = "a8"
    dtype: str = "f32"  # of the file
    cache: str = "fp32"

    @property
    def options(self) -> dict[str, Any]:
        types = {"keys": self.cache, "values": self.cache}
        return {"mode": self.mode, "activations": self.activations, **types}


CASES = (
    *(Case(mode, "a32") for mode in ("fp32", "fp16", "int8", "int4")),
    *(Case(mode) for mode in ("int8", "int4")),
    *(Case(dtype=dtype) for dtype in ("q4_0", "q4_1", "q8_0")),
    Case(activations="a32", dtype="q4_1"),
    *(Case("fp32", "a32", cache=cache) for cache in ("fp16", "int8", "int4")),
    *(Case("int4", cache=cache) for cache in ("fp16", "int8", "int4")),
)
TOLERANCE = {"a32": 1e-5, "a8": 1e-3}  # of the largest logit; a8 may round a level otherwise
CACHE_TOLERANCE = {"fp16": 1e-3, "int8": 1e-2, "int4": 1e-2}  # a value may round otherwise
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
    right = [runs_right(case, [emulator, program]) for case in CASES]
    print("all right" if all(right) else "NOT all right")
    return int(not all(right))


def runs_right(case: Case, program: list[Any]) -> bool:
    """Return whether every build is within the tolerance of NumPy, and has the bits that it must
    have."""
    found: dict[str, NDArray[np.float32]] = {}
    right = True
    with tempfile.TemporaryDirectory() as folder:
        at, out = Path(folder) / "case", Path(folder) / "out"
        expected = write_case(at, case)
        for isa in BUILDS:
            subprocess.run([*program, isa, at, out], check=True)
            found[isa] = np.fromfile(out, np.float32)
            error = float(np.abs(found[isa] - expected).max() / np.abs(expected).max())
            same = np.array_equal(found[isa], found[ALIKE.get(isa, isa)])
            right &= bool(error <= tolerance(case)) and same
            bits = "" if isa not in ALIKE else "  same bits" if same else "  OTHER BITS"
            print(f"{isa:8} {' '.join(case):26} off by {error:.1e}{bits}", flush=True)
    return right


def tolerance(case: Case) -> float:
    return max(TOLERANCE[case.activations], CACHE_TOLERANCE.get(case.cache, 0))


def build(folder: Path) -> Path:
    """The program, for aarch64 and static; as slow to make as the kernels are twice."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = [*sorted((KERNELS / "ops").glob("*.cpp")), KERNELS / "logits/kernels.cpp"]
    kernels.append(KERNELS / "quantizer/search.cpp")
    schema = [sys.executable, ROOT / "tools" / "kernel_schema.py", folder / "schema"]
    subprocess.run(schema, check=True)
    objects = []
    for isa, flags in BUILDS.items():
        for source in [KERNELS / isa / "table.cpp"] if isa in ALIKE else kernels:
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


def write_case(path: Path, case: Case) -> NDArray[np.float32]:
    """The plans, memory and steps of a small model as this machine laid them out; the logits that
    NumPy gives."""
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_llama(Path(folder) / "tiny.gguf", dtype=case.dtype, **SIZES)
        with running(model, exact("numpy", **case.options)) as runner:
            expected = [_logits(runner, step) for step in steps(runner.executor.program)]
        with running(model, exact("cpu", threads=1, **case.options)) as runner:
            executor = runner.executor
            assert isinstance(executor, CpuExecutor)
            with path.open("wb") as file:
                _write(file, executor, runner.executor.program)
    return np.concatenate(expected)


def steps(program: Program) -> list[Step]:
    """A prompt, one token, some more, one token."""
    random, found, start = np.random.default_rng(5), [], 0
    for count in (20, 1, 3, 1):
        found.append(program.step(random.integers(0, 300, count).tolist(), start))
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
        tensors, ops, params, shape = plan_rows(program, plan, executor._place)
        tensors[:, -1] = [_moved(address, offsets) for address in tensors[:, -1].tolist()]
        _numbers(file, len(tensors))
        tensors.tofile(file)
        _numbers(file, len(ops))
        ops.tofile(file)
        params.tofile(file)
        _numbers(file, *shape)
    _numbers(file, len(steps(program)))
    for step in steps(program):
        plan = program.plan_for(step.count, step.outputs)
        logits = plan.tensors[plan.logits]
        words = step.pack(plan.max_tokens, program.pages, plan.max_outputs)
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
