"""Defects on purpose are reported, and end what runs: the sanitizers can see what they are for."""

import pytest

from llm_lite.core.processor import available_isas
from tests.sanitize import native, pool

pytestmark = [
    pytest.mark.skipif(bool(native.why_not()), reason=native.why_not()),
    pytest.mark.timeout(native.PATIENCE + 300),
]

AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = (*AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl")
FLAGS = {"scalar": (), "neon": (), "avx2": AVX2, "avx512": AVX512}
WIDTHS = [isa for isa in FLAGS if isa in available_isas()]  # of vectors, rising
DEFECTS = {
    "read": "READ of size",
    "write": "WRITE of size",
    "half": "READ of size",
    "buffer": "READ of size",
    "freed": "heap-use-after-free",
    "overflow": "signed integer overflow",
    "shift": "shift exponent 32 is too large",
    "address": "misaligned address",
    "cast": "outside the range of representable values",
}


@pytest.mark.parametrize("isa", sorted({WIDTHS[0], WIDTHS[-1]}))
def test_a_planted_defect_is_reported(isa):
    flags = (*native.ADDRESS, *FLAGS[isa], f"-DLLM_ISA={isa}", "-O0")
    planted = native.program(f"planted_{isa}", [native.HERE / "planted.cpp"], *flags)
    for name, report in DEFECTS.items():
        done = native.run(planted, name)
        assert done.returncode != 0 and report in done.stdout, (name, done.stdout)
    done = native.run(planted, "none of them")
    assert (done.returncode, done.stdout) == (0, "nobody has noticed\n")


def test_a_planted_race_is_reported():
    """The pool with atomics that order nothing."""
    done = pool.stress("pool_race", rounds=2)
    assert done.returncode != 0 and "data race" in done.stdout, done.stdout
