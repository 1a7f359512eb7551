"""The kernel study: every form gives NumPy's product, and what is shown of it is its source."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from llm_lite.core.errors import CancelledError, DeviceError, RequestError
from llm_lite.core.gpu.arithmetic import multiply_adds_gflop_s
from llm_lite.core.messages import KernelForm, KernelStudy
from llm_lite.core.metrics.kernel_study import forms
from llm_lite.core.metrics.kernel_study import study as measuring
from llm_lite.core.metrics.kernel_study.on_vulkan import VulkanProducts
from llm_lite.core.metrics.kernel_study.pacing import Paced
from llm_lite.core.metrics.kernel_study.study import (
    LEFT_OUT,
    code,
    operands,
    products_on,
    shown,
    source,
    study,
)
from llm_lite.core.processor import multiply_adds_gflop_s as processor_gflop_s
from tests.core.metrics.test_kernel_forms import SIZES, check_forms, quiet
from tests.paths import ROOT

OWN = (*forms.VULKAN_OWNS, forms.CPU_OWN)
PAIRS = [*pairwise(forms.VULKAN), *pairwise(forms.CPU)]


@pytest.mark.vulkan
@pytest.mark.parametrize("number", range(4), ids=[form.stem for form in forms.VULKAN])
@pytest.mark.parametrize("size", SIZES)
def test_every_shader_gives_the_product(device, size, number):
    """Each on a result that was NaN before."""
    a, b = operands(*size)
    with closing(VulkanProducts(device, a, b)) as products:
        check_forms(products, a, b, [forms.VULKAN[number]])


@pytest.mark.parametrize("backend", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
@pytest.mark.parametrize("size", [(1, 13, 32), (13, 127, 32), (127, 40, 96)])
def test_the_own_kernel_gives_the_product(device, backend, size):
    a, b = operands(*size)
    with closing(products_on(backend, device, 2)(a, b)) as products:
        check_forms(products, a, b, products.forms[-1:])


@pytest.mark.vulkan
@pytest.mark.parametrize("size", [(64, 64, 64), (64, 64, 40), (3, 64, 64)])
def test_the_own_kernel_is_the_shader_that_is_shown(device, size):
    with closing(VulkanProducts(device, *operands(*size))) as products:
        stem = Path(products.forms[-1].path).stem
        assert products._own_dispatch().variant.startswith(f"{stem}.f32")


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
