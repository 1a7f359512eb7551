"""Measures the forms one after the other, at a size that takes a second or so for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from textwrap import dedent
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from llm_lite.core.errors import DeviceError, FileError, RequestError
from llm_lite.core.messages import KernelForm, KernelStudy, StudyBackend
from llm_lite.core.metrics.kernel_study.forms import Form
from llm_lite.core.metrics.kernel_study.pacing import Check, Paced
from llm_lite.core.records import replace

if TYPE_CHECKING:
    from llm_lite.core.gpu.device import Device


LEFT_OUT = "…"
_COMMON = re.compile(r"#|//|namespace |\}  // namespace")
_SIGNATURE = re.compile(r"void study_\w+\(")


SMALLEST, LARGEST = 256, 4096  # M, N and K
LONGEST_S = 0.25  # of the naive form at the size that is chosen
F32 = NDArray[np.float32]
Progress = Callable[[str, float], None]  # what, 0..1; may raise CancelledError
Emit = Callable[[KernelStudy], None]


class Products(Protocol):
    """One product in every form, on a device."""

    @property
    def backend(self) -> StudyBackend: ...
    @property
    def device(self) -> str: ...
    @property
    def software(self) -> bool: ...
    @property
    def forms(self) -> tuple[Form, ...]: ...

    def peaks(self, check: Check) -> tuple[float, float]: ...
    def paced(self, form: Form) -> Paced: ...
    def close(self) -> None: ...


MakeProducts = Callable[[F32, F32], Products]  # of a [M,K] and b [N,K]


def products_on(backend: StudyBackend, device: Device | None, threads: int = 0) -> MakeProducts:
    """Return what makes the products, on the Vulkan device or in C++ on this processor. DeviceError
    without such a device."""
    if backend == "cpu":
        from llm_lite.core.metrics.kernel_study.on_cpu import CpuProducts

        return lambda a, b: CpuProducts(a, b, threads)
    if device is None:
        raise DeviceError("no Vulkan device is open to measure kernels on")
    from llm_lite.core.metrics.kernel_study.on_vulkan import VulkanProducts

    return lambda a, b: VulkanProducts(device, a, b)


def study(
    make: MakeProducts, progress: Progress, emit: Emit = lambda _: None, size: int = 0
) -> KernelStudy:
    """Study products with M = N = K = `size`; 0: as large as the device computes in the naive form
    in LONGEST_S.

    `emit` is called after each form. CancelledError where `progress` raises it, RequestError for a
    size that the program's own kernel does not have.
    """
    if size and (size % 32 or not 32 <= size <= LARGEST):
        raise RequestError(f"size: expected a multiple of 32 from 32 to {LARGEST}, found {size}")
    size = size or _chosen_size(make, progress)
    products = make(*operands(size, size, size))
    try:
        where = products.backend, products.device, products.software
        arithmetic, memory = _peaks(products, progress, 0.1)
        found = KernelStudy(*where, size, size, size, arithmetic, memory)
        for number in range(len(products.forms)):
            found = replace(found, forms=(*found.forms, _measured(products, number, progress)))
            emit(found)
        again = _peaks(products, progress, 0.95)  # other work may have disturbed the first
    finally:
        products.close()
    found = replace(found, arithmetic_gflop_s=max(arithmetic, again[0]))
    found = replace(found, memory_gb_s=max(memory, again[1]))
    emit(found)
    return found


def _peaks(products: Products, progress: Progress, done: float) -> tuple[float, float]:
    def check() -> None:
        progress("measuring arithmetic and memory", done)

    check()
    return products.peaks(check)


def operands(m: int, n: int, k: int) -> tuple[F32, F32]:
    """Return random a [M,K] and b [N,K], the same every time."""
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k), np.float32)
    return a, random.standard_normal((n, k), np.float32)


def _chosen_size(make: MakeProducts, progress: Progress) -> int:
    size = SMALLEST
    while size < LARGEST:
        products = make(*operands(size, size, size))
        try:
            naive = products.paced(products.forms[0])
            seconds = naive.whole(lambda: progress("choosing a size", 0.0))
        finally:
            products.close()
        if 8 * seconds > LONGEST_S:  # twice the size is 8 times the work
            break
        size *= 2
    return size


def _measured(products: Products, number: int, progress: Progress) -> KernelForm:
    forms = products.forms
    form, done = forms[number], 0.2 + 0.7 * number / len(forms)
    times = products.paced(form).times(lambda: progress(f"measuring: {form.name}", done))
    before = forms[number - 1] if number and form.stem != "own" else None
    code = shown(form, before)
    return KernelForm(form.name, form.why, form.language, form.path, code, *astuple(times))


@cache
def source(path: str) -> str:
    """Return a source file, by its path in the repository. FileError if the build lacks it."""
    place = resources.files("llm_lite_kernels").joinpath("sources", path)
    try:
        return place.read_text("utf-8")
    except OSError as error:
        raise FileError(str(place), "the source is missing; build the kernels first") from error


def code(form: Form) -> list[str]:
    """Return the lines that are the form's own: without what every file of its kind begins and ends
    with.

    For a form with a `function` these are the lines of that function.
    """
    lines = source(form.path).splitlines()
    if form.function:
        begins = re.compile(rf"\S.*\b{form.function}\(")
        first = next(i for i, line in enumerate(lines) if begins.match(line))
        return lines[first : lines.index("}", first) + 1]
    lines = [line for line in lines if not _COMMON.match(line)]
    written = [i for i, line in enumerate(lines) if line]
    return lines[written[0] : written[-1] + 1]


@cache
def shown(form: Form, before: Form | None) -> str:
    """Return what the form's code has beyond that of the form before; all if there is none."""
    lines = code(form)
    if before is None:
        return "\n".join(lines)
    parts = []
    compared = SequenceMatcher(None, code(before), lines, False)
    for kind, _, _, first, last in compared.get_opcodes():
        if kind in ("replace", "insert"):
            part = [line for line in lines[first:last] if line and not _SIGNATURE.match(line)]
            if part:
                parts.append("\n".join(part + _closing(part, lines[last:])))
    return dedent(f"\n{LEFT_OUT}\n".join(parts))


def _closing(part: list[str], behind: list[str]) -> list[str]:
    """Return the braces right behind a part that close those that it opens."""
    text = "".join(part)
    opened = max(0, text.count("{") - text.count("}"))
    braces = next((i for i, line in enumerate(behind) if line.strip() != "}"), len(behind))
    return behind[: min(opened, braces)]
