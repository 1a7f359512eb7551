"""`llm-lite kernels`: one matrix product in five forms, and how fast each is on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from llm_lite.cli.terminal.output import say, show, show_json
from llm_lite.core.gpu.device import Device, list_devices
from llm_lite.core.messages import (
    KernelStudy,
    StudyBackend,
)
from llm_lite.core.messages.inspecting.profiling import REFERENCE_SPEEDUP, SOFTWARE_DRIVER
from llm_lite.core.metrics.kernel_study.study import products_on, study


def run(arguments: argparse.Namespace) -> int:
    reports = []
    for backend in _backends(arguments):
        found = _study(backend, arguments)
        reports.append(_report(found))
        if not arguments.json:
            _print(found)
    if arguments.json:
        show_json({"studies": reports})
    return 0


def _backends(arguments: argparse.Namespace) -> Iterator[StudyBackend]:
    """Yield the backends to measure; if both are meant, Vulkan only if there is a device."""
    named = arguments.on == "vulkan" or arguments.device is not None
    if named or (arguments.on == "both" and any(device.usable for device in list_devices())):
        yield "vulkan"
    if arguments.on in ("cpu", "both"):
        yield "cpu"


def _study(backend: StudyBackend, arguments: argparse.Namespace) -> KernelStudy:
    told: set[str] = set()

    def progress(stage: str, _: float) -> None:
        if stage not in told:
            told.add(stage)
            say(f"{backend}, {stage}")

    with Device.open(arguments.device) if backend == "vulkan" else nullcontext() as device:
        products = products_on(backend, device, arguments.threads)
        return study(products, progress, size=arguments.size)


def _report(found: KernelStudy) -> dict[str, Any]:
    rows = [
        {
            "name": form.name,
            "source": form.path,
            "seconds": {"median": form.seconds, "min": form.fastest, "max": form.slowest},
            "gflop_s": found.gflop_s(form),
            "share_of_roof": found.share(form),
            "times_naive": found.times_naive(form),
        }
        for form in found.forms
    ]
    sizes = {"backend": found.backend, "device": found.device, "software": found.software}
    sizes |= {"m": found.m, "n": found.n, "k": found.k}
    limits = {
        "arithmetic_gflop_s": found.arithmetic_gflop_s,
        "memory_gb_s": found.memory_gb_s,
        "memory_roof_gflop_s": found.memory_roof_gflop_s,
        "without_reuse_gflop_s": found.without_reuse_gflop_s,
        "roof_gflop_s": found.roof_gflop_s,
    }
    return {**sizes, **limits, "forms": rows}


def _print(found: KernelStudy) -> None:
    show(f"{found.device}: {found.m} x {found.n} x {found.k}, float32")
    for form in found.forms:
        show(
            f"  {form.name:24}{1e3 * form.seconds:9.2f} ms{found.gflop_s(form):9.1f} GFLOP/s"
            f"{found.share(form):7.1%} of the roof{found.times_naive(form):8.1f} x naive"
            f"   ({1e3 * form.fastest:.2f} to {1e3 * form.slowest:.2f} ms)"
        )
    show(
        f"  the roof: {found.roof_gflop_s:.1f} GFLOP/s. Arithmetic allows "
        f"{found.arithmetic_gflop_s:.1f}; memory reads {found.memory_gb_s:.1f} GB/s, which allows "
        f"{found.memory_roof_gflop_s:.0f} if each value is read once, and "
        f"{found.without_reuse_gflop_s:.1f} if two are read for each multiply-add."
    )
    if found.backend == "vulkan":
        here, there = f"{found.tiled_speedup:.1f} x here", f"{REFERENCE_SPEEDUP} x in a study"
        show(f"  naive to tiled: {here}; {there} on a GPU.")
    if found.software:
        show(f"  {SOFTWARE_DRIVER}")
