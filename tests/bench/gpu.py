"""What a graphics processor does with the Vulkan executor: rates, share of its bandwidth, frames.

    python -m tests.bench.gpu [--device N] [--large gemma-3n-e4b] [--json FILE]

Needs the repository and its build alone. The default model shows what a step costs beside its
bytes; `--large` writes random weights of a model's real shapes in int4, which fill a device as it
is filled in use. Then the tour runs and tells how long frames took while the same device answered;
with `--validate` it runs under the validation layers, which make it slower.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core import catalog
from core.synthetic import write_synthetic
from tests.bench.quantization_memory import run_command

MODES = ("as-stored", "int4", "int8", "fp16")
SHARE = 0.70  # of the device's bandwidth, int4 of a model that fills it
FRAME_MS = 16.7  # 95 % of the frames while a prompt is read and an answer written


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="llm-lite-gpu-") as folder:
        report = _measure(arguments, Path(folder))
    _print(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def _measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    rates = [_bench(arguments, None, mode) for mode in MODES]
    if arguments.large:
        print(f"writing {arguments.large} with random weights", file=sys.stderr, flush=True)
        write_synthetic(arguments.large, folder / arguments.large, form="variant", seed=1)
        rates.append(_bench(arguments, folder / arguments.large, "as-stored"))
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "rates": rates} | _tour(
        arguments, folder / "tour"
    )


def _bench(arguments: argparse.Namespace, model: Path | None, mode: str) -> dict[str, Any]:
    words = ["bench", "--mode", mode, "--json", "--repeat", str(arguments.repeat)]
    words += ["--prompt-tokens", str(arguments.prompt), "--new-tokens", str(arguments.new)]
    words += ["--conversation", "0", *_on(arguments), *([str(model)] if model else [])]
    found = json.loads(_run(words))
    kept = ("prefill_tok_s", "decode_tok_s", "bandwidth_share", "read_gb_s_measured")
    name = model.name if model else catalog.DEFAULT
    return {"model": name, "mode": mode} | {key: found[key] for key in kept}


def _tour(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if arguments.validate:
        os.environ["LLM_LITE_VALIDATION"] = "1"
    _run(["tour", str(folder), *_on(arguments)])
    report = json.loads((folder / "report.json").read_text("utf-8"))
    kept = ("device", "executor", "frame_ms", "startup", "validation_messages")
    return {key: report[key] for key in kept}


def _on(arguments: argparse.Namespace) -> list[str]:
    device = [] if arguments.device is None else ["--device", str(arguments.device)]
    return ["--backend", "vulkan", *device]


def _run(words: list[str]) -> str:
    print("llm-lite", *words, file=sys.stderr, flush=True)
    return run_command(words).output


def _print(report: dict[str, Any]) -> None:
    print(f"{report['device']['name']}, {report['device']['driver']}")
    for row in report["rates"]:
        print(
            f"{row['model']:24} {row['mode']:10} prefill {row['prefill_tok_s']['median']:9.1f} "
            f"decode {row['decode_tok_s']['median']:7.1f} tok/s, "
            f"{row['bandwidth_share']:.0%} of {row['read_gb_s_measured']:.0f} GB/s"
        )
    for phase, frames in report["frame_ms"].items():
        print(f"frames, {phase:8} p50 {frames['p50']:6.1f} ms, p95 {frames['p95']:6.1f} ms")
    slowest = max(report["frame_ms"][phase]["p95"] for phase in ("prefill", "decode"))
    print(
        f"slowest frames {slowest:.1f} ms, aim {FRAME_MS}; "
        f"share of bandwidth, aim {SHARE} with --large"
    )
    print(f"{len(report['validation_messages'])} messages of the validation layers")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", type=int, help="see `llm-lite doctor`")
    parser.add_argument("--large", help="a model of `llm-lite synth`")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--validate", action="store_true", help="with the validation layers")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
