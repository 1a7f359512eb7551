"""C++ built with sanitizers and run so that every report is a failure."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.paths import ROOT

KERNELS, HERE, BUILD = ROOT / "kernels_cpp", Path(__file__).parent, ROOT / "build" / "sanitize"
COMPILER = "g++"
PATIENCE = 900  # seconds: a pool that hangs ends the run, a busy machine does not
TESTS_PATIENCE = 7200  # of all tests of a run, at a tenth of their speed and beside other programs
ADDRESS = ("-fsanitize=address,undefined,float-cast-overflow", "-DLLM_BUFFERS_ON_HEAP")
THREAD = ("-fsanitize=thread",)
COMMON = ("-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
OPTIONS = {
    # What Python keeps until it ends is no leak of ours.
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}
# Run by every Python that finds the folder of `module` on its path: an editable install answers for
# the package before the path is asked.
_FIRST_ON_THE_PATH = """
import sys

sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
"""
_ADDR_NO_RANDOMIZE = 0x0040000  # <sys/personality.h>


def why_not() -> str:
    """Why nothing can run under sanitizers here; "" on Linux, where all must run."""
    return "" if sys.platform == "linux" else "the sanitizers are run on Linux"


def program(name: str, sources: Sequence[Path], *flags: str) -> Path:
    """Compiled and linked in build/sanitize/; CalledProcessError where it does not compile."""
    BUILD.mkdir(parents=True, exist_ok=True)
    words = [COMPILER, "-std=c++17", "-Wall", "-Wextra", *COMMON, *flags, "-I", KERNELS, *sources]
    subprocess.run([*words, "-o", BUILD / name, "-pthread", "-ldl"], check=True)
    return BUILD / name


def run(*command: object, patience: int = PATIENCE, **changes: str) -> subprocess.CompletedProcess:
    """Runs to its end, both streams as one text; -1 as its code where it did not end."""
    words, environment = [str(word) for word in command], {**os.environ, **OPTIONS, **changes}
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=_place_memory_as_linked,
    ) as process:
        try:
            output = process.communicate(timeout=patience)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0]
            return subprocess.CompletedProcess(words, -1, f"{output}\nhas not ended\n")
    return subprocess.CompletedProcess(words, process.returncode, output)


def _place_memory_as_linked() -> None:
    """As `setarch -R`: where a kernel places memory with more than 28 random bits, sanitizers of
    GCC 12 find their own place taken. Some containers forbid it, and mostly need it not."""
    ctypes.CDLL(None).personality(_ADDR_NO_RANDOMIZE)


def module(isa: str = "") -> Path:
    """A folder with the compiled package, under AddressSanitizer and UndefinedBehaviorSanitizer.

    Without optimization: it compiles four times as fast, and no access is left out. With `isa`
    that build of the kernels alone, and bindings without the latter: half of all compiling else."""
    folder = BUILD / (isa or "all")
    flags = " ".join((*COMMON, *ADDRESS, "-O0"))
    tools = Path(sys.executable).parent
    configure = [tools / "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-Wno-dev"]
    variables = {
        "CMAKE_MAKE_PROGRAM": tools / "ninja",
        "CMAKE_CXX_COMPILER": COMPILER,
        "CMAKE_BUILD_TYPE": "None",
        "CMAKE_CXX_FLAGS": flags,
        "CMAKE_INTERPROCEDURAL_OPTIMIZATION": "OFF",  # else pybind11 switches it on
        "LLM_ISAS": isa,
        "LLM_BIND_OPTIONS": "-fno-sanitize=undefined" if isa else "",
        "Python_EXECUTABLE": sys.executable,
    }
    configure += [f"-D{name}={value}" for name, value in variables.items()]
    for command in (configure, [tools / "cmake", "--build", folder, "--target", "_cpp"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    (folder / "sitecustomize.py").write_text(_FIRST_ON_THE_PATH)
    return folder


# `-s`: what UndefinedBehaviorSanitizer says last, no file has and pytest would keep to itself.
def run_tests(package: Path, *arguments: str, isa: str = "") -> subprocess.CompletedProcess:
    """pytest with the package of `module`. What the sanitizers report is in the output, also of
    processes that a test started, and makes the code no 0. `isa` as LLM_LITE_ISA."""
    reports = package / "reports"
    reports.mkdir(exist_ok=True)
    for old in reports.iterdir():
        old.unlink()
    place = f"log_path={reports}/report"
    plugins = ("-p", "tests.sanitize.separate", "-p", "no:faulthandler", "-p", "no:cacheprovider")
    done = run(
        sys.executable,
        *("-m", "pytest", "-s", *plugins, *arguments),
        patience=TESTS_PATIENCE,
        LD_PRELOAD=" ".join(_runtime(name) for name in ("libasan.so", "libstdc++.so")),
        PYTHONPATH=str(package),
        PYTHONMALLOC="malloc",
        LLM_LITE_ISA=isa,
        ASAN_OPTIONS=f"{OPTIONS['ASAN_OPTIONS']}:{place}",
        UBSAN_OPTIONS=f"{OPTIONS['UBSAN_OPTIONS']}:{place}",
    )
    found = "\n".join(filter(None, map(_report, sorted(reports.iterdir()))))
    code = done.returncode or int(bool(found))
    return subprocess.CompletedProcess(done.args, code, done.stdout + found)


def _report(file: Path) -> str:
    """Without what tests ask for: more memory than there is."""
    lines = file.read_text().splitlines()
    return "\n".join(line for line in lines if "failed to allocate" not in line)


def _runtime(name: str) -> str:
    """The compiler's library. The C++ one comes along, as the interpreter has none, and the
    sanitizer would not know how exceptions are thrown."""
    words = [COMPILER, f"-print-file-name={name}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
