"""`llm-lite doctor`: devices, queues, features, and what auto would choose and why."""

from __future__ import annotations

import argparse
import os
from typing import Any

from llm_lite.cli.commands.models import PLACES
from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.terminal.output import note, show, show_json, size_text, warn
from llm_lite.core.errors import LlmLiteError, RequestError
from llm_lite.core.exec.cpu.self_test import validated_isa
from llm_lite.core.generation.speculation import ngram_file as learned
from llm_lite.core.gpu.device import list_devices
from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.hub.local import disk_usage
from llm_lite.core.loading import backends, loader
from llm_lite.core.loading.accelerators import (
    accelerator,
    accelerator_names,
    ignored_accelerators,
)
from llm_lite.core.metrics.modes import measure_modes, recommend
from llm_lite.core.plain_text import one_line
from llm_lite.core.processor import (
    available_isas,
    cpu_features,
    default_threads,
    left_out_isas,
    processor_name,
)
from llm_lite.core.records import asdict


def run(arguments: argparse.Namespace) -> int:
    if arguments.model is not None and not arguments.benchmark_modes:
        raise RequestError("--model: expected --benchmark-modes too, which measures with it")
    report = _report(arguments)
    if arguments.benchmark_modes:
        report["modes"] = _benchmark(arguments)
    if arguments.json:
        show_json(report)
    else:
        _print(report)
    return 0


def _report(arguments: argparse.Namespace) -> dict[str, Any]:
    choice = backends.choose(engine_options(arguments), None)
    try:
        chosen = {
            "backend": choice.backend,
            "device": backends.device_name(choice),
            "activations": backends.activations(choice, arguments.activations),
            "reason": choice.reason or _reason(choice, arguments.backend),
        }
    finally:
        if choice.owns_device and choice.device is not None:
            choice.device.close()
    return {
        "processor": _processor(),
        "devices": [_device(device) for device in list_devices()],
        "auto": chosen,
        "accelerators": [_accelerator(name) for name in accelerator_names()],
        "ignored_accelerators": ignored_accelerators(),
        "learned_drafts": {"folder": str(learned.learned_folder()), "size": learned.disk_bytes()},
        "models": [{**asdict(place), "folder": str(place.folder)} for place in disk_usage.sizes()],
    }


def _processor() -> dict[str, Any]:
    kernels = validated_isa()
    return {
        "name": processor_name(),
        "threads": default_threads(),
        "kernels": kernels,
        "kernels_available": available_isas(),
        "kernels_left_out": left_out_isas(),
        "kernels_reason": _kernels_reason(),
        "features": cpu_features(),
    }


def _kernels_reason() -> str:
    limit = os.environ.get("LLM_LITE_ISA")
    if limit and limit not in left_out_isas():
        return f"LLM_LITE_ISA={limit} leaves out what is higher"
    if failed := left_out_isas():
        return f"{', '.join(failed)} failed the self-test on this processor"
    return "they are the highest that this processor runs, and passed their self-test"


def _benchmark(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure speed and size of every mode that fits into memory, and recommend one."""
    file = loader.open_model(arguments.model, lambda *_: None, warn)
    reported: set[str] = set()

    def progress(stage: str, fraction: float) -> None:
        mode = stage.removeprefix("measuring ")
        if mode != stage and mode not in reported:
            reported.add(mode)
            note(f"measuring {mode}")

    try:
        rows = measure_modes(file, engine_options(arguments), None, progress)
    finally:
        file.close()
    best, reason = recommend(rows)
    return {
        "model": str(file.path),
        "rows": [asdict(row) for row in rows],
        "recommended": rows[best].mode,
        "reason": reason,
    }


def _accelerator(name: str) -> dict[str, str]:
    """Return what an executor from outside runs on, or why it cannot be used."""
    try:
        return {"name": name, "device": one_line(accelerator(name).device), "why_not": ""}
    except LlmLiteError as error:
        return {"name": name, "device": "", "why_not": str(error)}


def _reason(choice: backends.ExecutorChoice, asked: str) -> str:
    if asked != "auto":
        return f"--backend {asked} asks for it"
    return f"{backends.device_name(choice)} computes in hardware"


def _device(info: DeviceInfo) -> dict[str, Any]:
    return {
        "index": info.index,
        "name": info.name,
        "kind": info.kind,
        "driver": info.driver,
        "api_version": ".".join(map(str, info.api_version)),
        "memory_bytes": info.memory_bytes,
        "queue_families": [asdict(family) for family in info.queue_families],
        "subgroup_size": info.subgroup_size,
        "max_storage_buffer_range": info.max_storage_buffer_range,
        "features": dict(info.features),
        "usable": info.usable,
        "why_not": info.why_not,
    }


def _print(report: dict[str, Any]) -> None:
    processor = report["processor"]
    features = ", ".join(name for name, has in processor["features"].items() if has) or "none"
    lacking = ", ".join(name for name, has in processor["features"].items() if not has)
    show(f"Processor   {processor['name']}")
    show(f"            {processor['threads']} threads, kernels: {processor['kernels']}")
    show(f"            because {processor['kernels_reason']}")
    show(f"            kernels that run here: {', '.join(processor['kernels_available'])}")
    show(f"            features: {features}" + (f"; not: {lacking}" if lacking else ""))
    if not report["devices"]:
        show("Vulkan      no device found (is a driver installed?)")
    for device in report["devices"]:
        _print_device(device)
    for problem in report["ignored_accelerators"]:
        show(f"Package     {problem}")
    for found in report["accelerators"]:
        show(f"Package     {found['name']}: {found['device'] or found['why_not']}")
    auto = report["auto"]
    show(f"Auto        {auto['backend']} on {auto['device']}, activations {auto['activations']}")
    show(f"            because {auto['reason']}")
    _print_places(report["models"])
    drafts = report["learned_drafts"]
    show(f"Drafts      learned from answers: {size_text(drafts['size'])}, {drafts['folder']}")
    if "modes" in report:
        _print_modes(report["modes"])


def _print_places(places: list[dict[str, Any]]) -> None:
    for number, place in enumerate(places):
        models = "1 model" if place["models"] == 1 else f"{place['models']} models"
        what = f"{size_text(place['size'])}, {models}, {place['folder']}"
        head = "Models" if number == 0 else ""
        show(f"{head:<12}{PLACES[place['origin']]}: {what}")
        if place["problem"]:
            show(f"{'':<12}  {place['problem']}")


def _print_device(device: dict[str, Any]) -> None:
    queues = ", ".join(
        f"{family['count']} (flags {family['flags']:#x})" for family in device["queue_families"]
    )
    used = ", ".join(name for name, has in device["features"].items() if has) or "none"
    show(f"Vulkan {device['index']}    {device['name']} ({device['kind']}), {device['driver']}")
    show(
        f"            Vulkan {device['api_version']}, {device['memory_bytes'] / 2**30:.1f} GiB, "
        f"subgroups of {device['subgroup_size']}, buffers up to "
        f"{device['max_storage_buffer_range'] / 2**20:.0f} MiB"
    )
    show(f"            queues a family: {queues}")
    show(f"            features used: {used}")
    if not device["usable"]:
        show(f"            not usable: {device['why_not']}")


def _twice(row: dict[str, Any]) -> str:
    """Return what a mode rounds a second time and how much that changes it; "" for nothing."""
    if not row["rounded_again"]:
        return ""
    return f"  rounds {row['rounded_again']:.0%} twice, by {row['again_error']:.1%}"


def _print_modes(modes: dict[str, Any]) -> None:
    show(f"\n{'mode':<12}{'activations':<13}{'weights':>11}{'prompt':>13}{'answer':>13}")
    for row in modes["rows"]:
        show(
            f"{row['mode']:<12}{row['activations']:<13}{row['weight_bytes'] / 2**20:>7.1f} MiB"
            f"{row['prefill_tok_s']:>7.1f} tok/s{row['decode_tok_s']:>7.1f} tok/s" + _twice(row)
        )
    show(f"Recommended {modes['recommended']}: {modes['reason']}")
