"""The kernel study: every form gives NumPy's product, and what is shown of it is its source."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from llm_lite.core.errors import CancelledError, DeviceError, RequestError
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.gpu.arithmetic import multiply_adds_gflop_s
from llm_lite.core.messages import KernelForm, KernelStudy
from llm_lite.core.metrics.kernel_study import forms, own
from llm_lite.core.metrics.kernel_study import study as measuring
from llm_lite.core.metrics.kernel_study.on_cpu import CpuProducts
from llm_lite.core.metrics.kernel_study.on_vulkan import VulkanProducts
from llm_lite.core.metrics.kernel_study.pacing import Paced
from llm_lite.core.metrics.kernel_study.sources import LEFT_OUT, code, shown, source
from llm_lite.core.metrics.kernel_study.study import operands, products_on, study
from llm_lite.core.processor import available_isas
from llm_lite.core.processor import multiply_adds_gflop_s as processor_gflop_s
from tests.paths import ROOT

# M, N, K: one, odd, prime, about a tile and about a vector, several tiles and a rest
SIZES = [(1, 1, 1), (13, 127, 1), (1, 13, 127), (127, 1, 13), (17, 16, 15), (65, 130, 67)]
OWN = (forms.VULKAN_OWN, forms.SOFTWARE_OWN, forms.CPU_OWN)
PAIRS = [*pairwise(forms.VULKAN), *pairwise(forms.CPU)]


def quiet(*_):
    pass


def check_forms(products, a, b, known):
    expected = a.astype(np.float64) @ b.T.astype(np.float64)
    scale = np.sqrt(a.shape[1])
    for form in known:
        products.forget()
        assert products.paced(form).whole(quiet) > 0
        found = products.result()
        assert np.abs(found - expected).max() <= 1e-5 * scale, form.name


@pytest.mark.vulkan
@pytest.mark.parametrize("size", SIZES)
def test_every_shader_gives_the_product(device, size):
    a, b = operands(*size)
    products = VulkanProducts(device, a, b)
    try:
        check_forms(products, a, b, forms.VULKAN)
    finally:
        products.close()


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("size", SIZES)
def test_every_form_in_cpp_gives_the_product(isa, size):
    a, b = operands(*size)
    for threads in (1, 3):
        check_forms(CpuProducts(a, b, threads, isa), a, b, forms.CPU)


def test_bad_shapes_are_refused():
    a, b = operands(3, 4, 5)
    products = CpuProducts(a, b, 1)
    for arguments in [(a, a, 0, 3), (a, b, 0, 4), (a, b, 2, 2), (a, b, -1, 3)]:
        x, y, first, last = arguments
        with pytest.raises(ValueError):
            products._study.run("naive", x, y, products._c, first, last)
    with pytest.raises(ValueError):
        products._study.run("fastest", a, b, products._c, 0, 3)


def test_the_own_kernel_is_measured_at_the_same_product():
    """Its plan makes a . b^T, by the executor that defines what ops are."""
    a, b = operands(32, 64, 96)
    weights = own.tensors(a, b)
    program = own.program(weights)
    found = NumpyExecutor(program, weights).run(own.step_of(32))
    assert np.abs(found - a @ b.T).max() < 1e-4
    assert [plan.max_tokens for plan in program.plans] == [16, 32]


@pytest.mark.vulkan
def test_the_own_kernel_is_the_shader_that_is_shown(device):
    weights = own.tensors(*operands(64, 64, 64))
    program = own.program(weights)
    products, executor = VulkanProducts(device, *operands(64, 64, 64)), None
    try:
        stem = Path(products.forms[-1].path).stem
        executor = VulkanExecutor(device, program, weights)
        for plan in program.plans:
            (dispatch,) = executor._calls(plan)[own.product_op(plan)]
            assert dispatch.variant.startswith(f"{stem}.f32")
    finally:
        products.close()
        if executor is not None:
            executor.close()


def test_pieces_grow_until_they_take_long_enough():
    calls = []

    def run(first, count):
        calls.append((first, count))
        return count * 1e-3

    paced = Paced(run, 20, 1, 8e-3)
    assert paced.piece == 4 and calls == [(0, 1), (0, 2), (0, 4)]
    calls.clear()
    assert paced.whole(quiet) == pytest.approx(20e-3)
    assert calls == [(0, 4), (4, 4), (8, 4), (12, 4), (16, 4)]


@pytest.mark.parametrize("form", [*forms.VULKAN, *forms.CPU, *OWN], ids=lambda f: f.path)
def test_sources_are_those_that_were_compiled(form):
    assert source(form.path) == (ROOT / form.path).read_text("utf-8")
    assert set(code(form)) <= set(source(form.path).splitlines())
    assert len(code(form)) > 5


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p[1].path)
def test_what_differs_is_shown_and_nothing_else(pair):
    before, form = pair
    lines = [line.strip() for line in shown(form, before).splitlines()]
    known = {line.strip() for line in code(before)}
    own_lines = {line.strip() for line in code(form)}
    assert set(lines) <= own_lines | {LEFT_OUT, "}"}
    new = own_lines - known - {""}
    assert {line for line in new if not line.startswith("void study_")} <= set(lines)


def test_a_coalesced_read_is_one_line():
    assert shown(forms.VULKAN[1], forms.VULKAN[0]).count("\n") == 0


@pytest.mark.parametrize("backend", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_a_whole_study(device, backend):
    told: list[KernelStudy] = []
    make = products_on(backend, device, threads=2)
    found = study(make, quiet, told.append, size=64)
    assert [len(one.forms) for one in told] == [1, 2, 3, 4, 5, 5]
    assert told[-1] == found
    assert (found.backend, found.m, found.n, found.k) == (backend, 64, 64, 64)
    assert found.forms[-1].name == forms.OWN
    for form in found.forms:
        assert 0 < form.fastest <= form.seconds <= form.slowest
        assert form.code and form.why
    assert found.arithmetic_gflop_s > 0 and found.memory_gb_s > 0
    assert found.software == (backend == "vulkan" and device.info.kind == "software")


def test_the_size_is_what_the_device_does(monkeypatch):
    """Twice as large as long as the naive form would end in time."""

    class Fake:
        forms = (forms.VULKAN[0],)

        def __init__(self, a, b):
            self.rows = len(a)

        def paced(self, form):
            return Paced(lambda first, count: count * self.rows**2 * 1e-9, self.rows, 1, 1e-3)

        def close(self):
            closed.append(self.rows)

    closed: list[int] = []
    assert measuring._chosen_size(Fake, quiet) == 512  # 1024^3 ns are too many
    assert closed == [256, 512]
    monkeypatch.setattr(measuring, "LONGEST_S", 1e9)
    assert measuring._chosen_size(Fake, quiet) == measuring.LARGEST


@pytest.mark.parametrize("size", [31, 33, 4128])
def test_sizes_that_the_own_kernel_does_not_have(size):
    with pytest.raises(RequestError, match=f"a multiple of 32 from 32 to 4096, found {size}"):
        study(products_on("cpu", None), quiet, size=size)


def test_without_a_device_a_sentence_says_so():
    with pytest.raises(DeviceError, match="no Vulkan device"):
        products_on("vulkan", None)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
@pytest.mark.parametrize("stage", ["arithmetic", "naive", "own"])
def test_it_can_be_stopped_anywhere(device, backend, stage):
    def stop(words, _):
        if stage in words:
            raise CancelledError("stopped")

    with pytest.raises(CancelledError):
        study(products_on(backend, device), stop, size=32)


@pytest.mark.vulkan
def test_the_limits_of_arithmetic(device):
    for measured in (multiply_adds_gflop_s(device, 2), processor_gflop_s(1)):
        assert 0.01 < measured < 1e6


def test_roofs():
    form = KernelForm("naive", "", "cpp", "", "", seconds=0.002, fastest=0.001, slowest=0.003)
    found = KernelStudy("cpu", "", False, 100, 200, 300, 48.0, 16.0, (form,))
    assert found.operations == 12_000_000
    assert found.gflop_s(form) == pytest.approx(6.0)
    assert found.without_reuse_gflop_s == pytest.approx(4.0)
    assert found.least_bytes == 4 * (30_000 + 60_000 + 20_000)
    assert found.memory_roof_gflop_s == pytest.approx(16 * 12_000_000 / 440_000)
    assert found.roof_gflop_s == 48.0 and found.share(form) == pytest.approx(0.125)
