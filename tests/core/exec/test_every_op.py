"""Each op of the table is everywhere: a kernel for every executor, and a case in its tests."""

import pytest

from llm_lite.core.exec.vulkan.kernels import _KERNELS
from llm_lite.core.plan.ops import OPS
from tests.paths import ROOT

TESTS = ROOT / "tests" / "core" / "exec"
PLANS = {"cpu": "one_op.py", "vulkan": "vulkan/vulkan_program.py"}  # what its tests are made of
# The rows of one are copied by the shader of `columns`, those of two read by `embed`'s, and the
# shaders of `matmul` know experts.
OTHER_SHADERS = {"table_rows", "position_rows", "type_rows", "expert_matmul"}


def test_the_rows_of_vulkan_are_those_of_the_table():
    assert set(_KERNELS) == {name for name, spec in OPS.items() if spec.form == "custom"}


@pytest.mark.parametrize("op", OPS)
def test_an_op_has_files_of_its_name(op):
    assert (ROOT / f"kernels_cpp/ops/{op}.cpp").is_file()
    assert (ROOT / f"kernels_glsl/{op}.comp").is_file() or op in OTHER_SHADERS


@pytest.mark.parametrize("op", sorted(set(OPS) - {"quantize"}))  # `matmul` makes it where it fits
@pytest.mark.parametrize("executor", ["cpu", "vulkan"])
def test_an_op_has_cases_on_an_executor(executor, op):
    files = [*TESTS.glob(f"{executor}/test_*.py"), TESTS / PLANS[executor]]
    files += [TESTS / name for name in ("test_states.py", "test_experts.py")]
    files.append(ROOT / "core" / "exec" / "op_cases.py")
    assert any(f".{op}(" in file.read_text("utf-8") for file in files)
