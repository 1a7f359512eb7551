"""What the weight modes lose, and what our formats lose beside llama.cpp's on the same weights.

    python -m tools.bench.quantization --text FILE --matrices FILE [--calibration FILE]
                                       --peer FILE [--model MODEL] [--bytes 40000]
                                       [--large MODEL] [--page docs/quantization.md]

Every number is one of `llm-lite perplexity` or `llm-lite quantize`, run as a person would; the
commands stand beside the numbers in the report. `--text` is English prose; calibration is done with
another one (by default the topics of Python's own help). `--matrices` is a safetensors file of
float matrices that were never quantized; their comparison needs the `gguf` package. `--peer` is the
same model as llama.cpp quantizes it to Q4_K_M. `--large` is another model, of which only the memory
of quantizing is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_lite.core.hub import catalog
from llm_lite.core.processor import default_threads, isa_name, processor_name
from tools.bench.quantization_matrices import compare_matrices
from tools.bench.quantization_memory import measure_quantizing, measure_sharing, run_command
from tools.bench.quantization_table import BEGIN, END, markdown
from tools.bench.table import insert

CHUNK = 512  # tokens
RESULTS = Path(__file__).parent / "results" / "quantization.json"
_KEPT = (
    *("ppl", "ppl_reference", "kld_mean", "kld_error", "kld_median", "kld_p99", "kld_max"),
    *("delta_p_rms", "same_top", "tokens_scored", "bits_per_weight", "matrix_bits_per_weight"),
)


@dataclass(frozen=True)
class Case:
    """One line of the table: what is tested against what, and the most that may be lost."""

    name: str
    model: str  # a variant's name
    arguments: tuple[str, ...]
    limit: float | None  # of the mean divergence, nats; None: not ours


_PEER = "peer.gguf"
A32, A8 = ("--activations", "a32"), ("--activations", "a8")
CASES = (
    Case("fp16 a32", "fp32", ("--mode", "fp16", *A32), 1e-5),
    Case("int8 a32", "fp32", ("--mode", "int8", *A32), 0.0015),
    Case("int4 a32", "fp32", ("--mode", "int4", *A32), 0.10),
    Case("int4 calibrated a32", "int4-calibrated", A32, 0.05),
    Case("int4 calibrated by its own text a32", "int4-self", A32, 0.043),
    Case("Q4_K_M of llama.cpp a32", _PEER, A32, None),
    Case("int8 a8 from a32", "int8", (*A8, "--reference-mode", "as-stored"), 1e-3),
    Case("int4 a8 from a32", "int4", (*A8, "--reference-mode", "as-stored"), 3e-3),
)


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="llm-lite-quantization-") as folder:
        report = _measure(options, Path(folder))
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    for row in report["divergence"]:
        print(f"{row['name']:22} {row['kld_mean']:.3g} {_verdict(row)}")
    print(json.dumps({k: report[k] for k in ("matrices", "memory", "sharing")}, indent=1))
    if options.page is not None:
        options.page.write_text(insert(options.page.read_text(), markdown(report), (BEGIN, END)))


def _verdict(row: dict[str, Any]) -> str:
    if row["limit"] is None:
        return ""
    verdict = "met" if row["kld_mean"] <= row["limit"] else "MISSED"
    return f"of {row['limit']:g}: {verdict}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default=catalog.DEFAULT)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--bytes", type=int, default=40_000, help="of the text, from its beginning")
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--calibration-bytes", type=int, default=90_000)
    parser.add_argument("--matrices", type=Path, required=True)
    parser.add_argument("--peer", type=Path, required=True, help="llama.cpp's Q4_K_M of the model")
    parser.add_argument("--large", help="a model to measure the memory of quantizing with")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, help="a page whose table is written anew")
    return parser.parse_args()


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    text = _cut(options.text, options.bytes, folder / "text.txt")
    source = options.calibration or _python_topics(folder)
    calibration = _cut(source, options.calibration_bytes, folder / "calibration.txt")
    (folder / _PEER).symlink_to(options.peer.resolve())
    memory = _make_variants(options.model, folder)
    report: dict[str, Any] = {
        "machine": _machine(),
        "model": options.model,
        "text": _described(options.text.name, text),
        "calibration": _described(source.name, calibration),
        "chunk": CHUNK,
        "divergence": [_diverge(case, folder, text) for case in CASES],
        "matrices": compare_matrices(options.matrices),
        "sharing": measure_sharing(folder / "int4"),
    }
    if options.large:
        memory.append(measure_quantizing(options.large, folder / "large", "int4"))
    return report | {"memory": [asdict(row) for row in memory]}


def _make_variants(model: str, folder: Path) -> list[Any]:
    """The model in float32, as its file has it, and from that all others."""
    run_command(["quantize", model, str(folder / "fp32"), "--mode", "fp32"])
    exact, text = str(folder / "fp32"), folder / "calibration.txt"
    return [
        measure_quantizing(exact, folder / "int8", "int8"),
        measure_quantizing(exact, folder / "int4", "int4"),
        measure_quantizing(exact, folder / "int4-calibrated", "int4", calibrate=text),
        measure_quantizing(exact, folder / "int4-self", "int4", calibrate="self"),
    ]


def _diverge(case: Case, folder: Path, text: Path) -> dict[str, Any]:
    words = ["perplexity", str(folder / case.model), "--file", str(text), "--ctx", str(CHUNK)]
    words += ["--backend", "cpu", *case.arguments, "--json"]
    if "--reference-mode" not in case.arguments:
        words += ["--reference", str(folder / "fp32"), "--reference-mode", "fp32"]
    found = json.loads(run_command(words).output)
    shown = " ".join(["llm-lite", *words]).replace(f"{folder}{os.sep}", "")
    kept = {key: found[key] for key in _KEPT}
    return {"name": case.name, "limit": case.limit, "command": shown, **kept}


def _python_topics(folder: Path) -> Path:
    from pydoc_data import topics

    file = folder / "topics.txt"
    file.write_text("\n".join(topics.topics.values()))
    return file


def _cut(source: Path, size: int, target: Path) -> Path:
    """The first `size` bytes, up to the last whole character."""
    target.write_text(source.read_bytes()[:size].decode(errors="ignore"))
    return target


def _described(name: str, file: Path) -> dict[str, Any]:
    raw = file.read_bytes()
    return {"name": name, "bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()[:16]}


def _machine() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor_name(),
        "threads": default_threads(),
        "instructions": isa_name(),
        "system": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
    }


if __name__ == "__main__":
    main()
