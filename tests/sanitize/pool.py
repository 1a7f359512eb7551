"""The thread pool's stress program in its builds."""

from __future__ import annotations

import subprocess

from tests.sanitize import native

SCENARIOS = 8
SOURCES = (native.HERE / "pool_stress.cpp", native.KERNELS / "base" / "threads.cpp")
YIELDING = ("-DLLM_POOL_ATOMIC=stress::Atomic", "-include", str(native.HERE / "atomic.h"))
RACE = "-DLLM_PLANT_RACE"
BUILDS = {
    "pool_thread": (*native.THREAD, *YIELDING),
    "pool_thread_plain": native.THREAD,  # with std::atomic, as it ships
    "pool_address": (*native.ADDRESS, *YIELDING),
    "pool_race": (*native.THREAD, *YIELDING, RACE),
}


def stress(build: str, rounds: int) -> subprocess.CompletedProcess:
    program = native.program(build, SOURCES, "-O1", *BUILDS[build])
    return native.run(program, rounds)
