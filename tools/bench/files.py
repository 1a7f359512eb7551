"""The same file in llama.cpp and in llm-lite, as stored: block formats, a line each.

    python -m tools.bench.files files|recurrent|llamas|llamas-avx2 [--repeat 5]
        [--models "Llama 1B"] [--types Q4_K_M MXFP4] [--short] [--json FILE] [--page PAGE.md]
        [--summary README.md]

All programs open one file that llama.cpp's quantizer wrote and run it on the processor, in turns,
as `tools.bench.compare` does; activations are what each chooses. `tools.bench.peers --files`
makes the files: of SmolLM2, and of random models of other shapes. Where a table has ik_llama.cpp,
it runs in each round too (`tools.bench.peers --ik`); where it has a limit, no program uses
instructions above it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.loading.runner import Runner
from llm_lite.core.metrics.bench import Spread, read_gb_s
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import default_threads
from llm_lite.core.quant.formats import TILE_ROWS
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import asdict
from tools.bench import peers
from tools.bench.compare import SHORT, Peer, Sizes, compare, machine, our_runner
from tools.bench.files_table import IK, SUMMARY_MARKERS, TABLES, markdown, markers_of, summary
from tools.bench.table import insert

_CACHED_BYTES = 256 << 10  # of a matrix, about
_PRODUCTS = 40  # of it, one after the other


def measure(
    table: str,
    folder: Path,
    models: list[str],
    types: list[str],
    threads: int,
    repeat: int,
    sizes: Sizes,
    keep: Callable[[dict[str, Any]], object],
) -> dict[str, Any]:
    """What the rounds found, file by file, and on what; kept after each file."""
    about = TABLES[table]
    builds = {"llama.cpp": about.isa or "cpu", IK: f"ik-{about.isa}" if about.isa else "ik"}
    report: dict[str, Any] = {
        "table": table,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(threads),
        "tokens": asdict(sizes),
        "repeat": repeat,
        "results": [],
    }
    memory: list[float] = []
    for title, name, path in _files(folder, models, types):
        with our_runner(path, "as-stored", threads) as runner:
            peer = Peer(folder, path, threads, sizes, build=builds["llama.cpp"])
            if about.isa == "avx2":
                peers.check_avx2(peer.system)
            report["peer"] = f"llama.cpp of llama-cpp-python {peer.version}"
            report["peer_system"] = peer.system
            others = {}
            if IK in about.aims:
                others[IK] = Peer(folder, path, threads, sizes, build=builds[IK])
            report["others"] = {
                fork: f"{fork} of ik-llama-cpp-python {one.version}" for fork, one in others.items()
            }
            found = compare(runner, peer, title, name, repeat, sizes, others)
            for one in (peer, *others.values()):
                one.close()
            memory.append(read_gb_s(runner))
            activations = runner.executor_info.activations
            cached = cached_gb_s(runner)
        facts = {"model": title, "activations": activations, "file_bytes": path.stat().st_size}
        facts["cached_gb_s"] = cached
        report["results"].append(facts | asdict(found) | {"mode": "as-stored"})
        report["read_gb_s"] = asdict(Spread.of(memory))
        keep(report)
    return report


def cached_gb_s(runner: Runner, repeat: int = 20) -> float:
    """The best rate of products of one token whose weights are in a core's second cache, in GB/s,
    of as many cores as the model runs on: some rows of the largest matrix of a layer."""
    matrices = [w for n, w in runner.weights.items() if len(w.shape) == 2 and n.startswith("blk.")]
    weight = max(matrices, key=lambda matrix: matrix.data.nbytes)
    form, (_, columns) = FORMATS[weight.dtype], weight.shape
    rows = max(1, _CACHED_BYTES // form.nbytes((TILE_ROWS, columns))) * TILE_ROWS
    data = weight.data.reshape(-1)[: form.nbytes((rows, columns))]
    x = np.random.default_rng(0).normal(size=columns).astype(np.float32).view(np.uint8)
    weights = {
        "x": TensorData("x", "f32", (1, columns), x),
        "w": TensorData("w", weight.dtype, (rows, columns), data),
    }
    integers = form.integers and runner.executor_info.activations == "a8"
    builder = PlanBuilder(weights, Bucket(1, 1), integer_activations=integers)
    values = builder.embed(builder.weight("x"), "x.rows")
    products = [builder.matmul(values, builder.weight("w"), f"y{i}") for i in range(_PRODUCTS)]
    plan = builder.finish(products[-1])
    executor = CpuExecutor(Program((plan,), 1, rows), weights, 1)
    step, first = Step(np.zeros(1, np.int32), 0), len(plan.ops) - _PRODUCTS
    executor.run_ops(plan, step, 0, len(plan.ops))
    best = float("inf")
    for _ in range(repeat):
        begun = time.perf_counter()
        executor.run_ops(plan, step, first, len(plan.ops))
        best = min(best, (time.perf_counter() - begun) / _PRODUCTS)
    executor.close()
    return runner.executor_info.threads * data.nbytes / best / 1e9


def _files(folder: Path, models: list[str], types: list[str]) -> Iterator[tuple[str, str, Path]]:
    """Title of the model, the peer's name of the type, the file; SystemExit before the first
    measurement where one is missing."""
    found = [
        (title, name, peers.block_file(folder, title, name))
        for title in models
        for name in peers.types_of(title)
        if name in (types or peers.types_of(title))
    ]
    if not found:
        raise SystemExit(f"{', '.join(models)}: none is measured in {', '.join(types)}")
    for _, _, path in found:
        if not path.exists():
            raise SystemExit(f"there is no {path}: run python -m tools.bench.peers --files first")
    yield from found


def main() -> int:
    arguments = _arguments()
    about = TABLES[arguments.table]
    if about.isa:
        os.environ["LLM_LITE_ISA"] = about.isa

    def keep(found: dict[str, Any]) -> None:
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")

    report = measure(
        arguments.table,
        arguments.folder,
        arguments.models or list(about.models),
        arguments.types,
        arguments.threads,
        arguments.repeat,
        SHORT if arguments.short else about.sizes,
        keep,
    )
    print(markdown(report))
    for page, text, markers in (
        (arguments.page, markdown(report), markers_of(report)),
        (arguments.summary, summary(report), SUMMARY_MARKERS),
    ):
        if page:
            page.write_text(insert(page.read_text(), text, markers))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=[*TABLES])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeat", type=int, default=5)
    models = [*peers.BLOCK_MODELS]
    parser.add_argument(
        "--models", nargs="+", choices=models, default=[], help="left out, those of the table"
    )
    types = sorted({name for title in models for name in peers.types_of(title)})
    parser.add_argument(
        "--types", nargs="+", choices=types, default=[], help="left out, all of each model"
    )
    parser.add_argument("--short", action="store_true", help="few tokens, to see that it works")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="replace the table between its markers")
    parser.add_argument("--summary", type=Path, help="replace the summary between its markers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
