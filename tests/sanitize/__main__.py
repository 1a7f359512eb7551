"""The C++ half under sanitizers: `python -m tests.sanitize`. Any report ends it with 1.

Under AddressSanitizer and UndefinedBehaviorSanitizer the tests of kernels, quantizers, logits, the
plan interpreter and mapped files run with every build of the kernels; what a test gives no build
runs with each in turn as LLM_LITE_ISA. The thread pool runs its stress program under
ThreadSanitizer and under both others.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from tests.sanitize import native, pool

ROUNDS = 50
# Each test is there once for each build.
EVERY_BUILD = (
    "core/exec/cpu/test_cpu_ops.py",
    "core/exec/cpu/test_cpu_matmul.py",
    "core/exec/cpu/test_cpu_bf16_products.py",
    "core/exec/cpu/test_cpu_attention.py",
    "core/exec/cpu/test_cpu_encoder_attention.py",
    "core/exec/cpu/test_cpu_shared.py",
    "core/exec/cpu/test_cpu.py",
    "core/metrics/test_kernel_forms.py",
    "core/quant/test_search.py",
    "core/generation/test_token_choice.py",
)
# These run with one build, the highest.
ONE_BUILD = (
    "core/exec/cpu/test_cpu_weights.py",
    "core/exec/test_shared_families.py",
    "core/exec/test_shifting.py",
    "core/exec/test_large_tables.py",
    "core/quant/test_a8.py",
    "core/quant/test_tiles.py",
    "core/quant/test_formats.py",
    "core/generation/test_sampling.py",
    "core/formats/test_mapping.py",
)
# Shaders are not built; what a busy machine does to the pool is the stress program's; faults on
# purpose end a process by a signal, which AddressSanitizer takes for a defect.
NOT = " and ".join(
    f"not {name}"
    for name in ("vulkan", "test_busy_neighbours", "test_faults_that", "test_a_write_ends")
)


def files(names: tuple[str, ...]) -> list[str]:
    return [f"tests/{name}" for name in names]


def main() -> int:
    if reason := native.why_not():
        print(reason)
        return 1
    began = time.monotonic()
    package = native.module()
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    runs: dict[str, Callable[[], subprocess.CompletedProcess]] = {
        build: lambda build=build: pool.stress(build, ROUNDS)
        for build in ("pool_thread", "pool_thread_plain", "pool_address")
    }
    parallel = ("-n", "auto", "--dist", "worksteal", "-k", NOT)
    runs["every build"] = lambda: native.run_tests(package, *parallel, *files(EVERY_BUILD))
    for isa in builds():
        runs[isa] = lambda isa=isa: native.run_tests(package, *parallel, *files(ONE_BUILD), isa=isa)
    failed = [name for name, start in runs.items() if not passes(name, start)]
    print(f"reports or failures: {', '.join(failed)}" if failed else "no reports")
    return int(bool(failed))


def builds() -> list[str]:
    from llm_lite_kernels import _cpp

    return list(_cpp.available_isas())


def passes(name: str, start: Callable[[], subprocess.CompletedProcess]) -> bool:
    began = time.monotonic()
    done = start()
    print(f"{name}: {'passed' if done.returncode == 0 else 'FAILED'}", end=" ")
    print(f"({time.monotonic() - began:.0f} s) {last_line(done.stdout)}", flush=True)
    if done.returncode:
        print(done.stdout)
    return done.returncode == 0


def last_line(output: str) -> str:
    return (output.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
