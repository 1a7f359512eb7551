"""The short form of `make sanitize`: the tests of all ops, weight formats and the quantizers, with
the build of the kernels that this machine computes with; the long form has every build."""

import re

import pytest

from llm_lite.core.processor import isa_name
from tests.sanitize import native

pytestmark = [
    pytest.mark.skipif(bool(native.why_not()), reason=native.why_not()),
    pytest.mark.timeout(native.PATIENCE + 300),
]

FILES = ("test_cpu_ops.py", "test_cpu_matmul.py", "test_cpu_attention.py")
LEAST = 150  # tests that these hold


@pytest.fixture(scope="module")
def package():
    return native.module(isa_name())


def test_kernels_have_nothing_to_report(package):
    ops = [f"tests/core/exec/cpu/{name}" for name in FILES]
    done = native.run_tests(package, *ops, "tests/core/quant/test_search.py")
    assert done.returncode == 0, done.stdout[-10_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= LEAST, done.stdout[-2000:]


@pytest.mark.parametrize(
    ("case", "report"),
    [
        ("half", "AddressSanitizer: "),
        ("odd", "runtime error: load of misaligned address"),
    ],
)
def test_a_planted_defect_is_reported(package, case, report):
    """The same way, with a weight that lacks half its bytes or begins at an odd address."""
    done = native.run_tests(package, f"tests/sanitize/planted_case.py::test_planted[{case}]")
    assert done.returncode != 0
    assert report in done.stdout and "embed" in done.stdout, done.stdout[-10_000:]
