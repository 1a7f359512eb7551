"""The same file in llama.cpp and in llm-lite, as stored: block formats, a line each.

    python -m tests.bench.files [--repeat 5] [--models "Llama 1B"] [--types Q4_K_M MXFP4] [--ik]
        [--short] [--json FILE] [--page PAGE.md] [--summary README.md]

All programs open one file that llama.cpp's quantizer wrote and run it on the processor, in turns,
as `tests.bench.compare` does; activations are what each chooses. `tests.bench.peers --files`
makes the files: of SmolLM2, and of random models of other shapes. With --ik, ik_llama.cpp runs in
each round too (`tests.bench.peers --ik`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llm_lite.core.metrics.bench import Spread, read_gb_s
from llm_lite.core.processor import default_threads
from llm_lite.core.records import asdict
from tests.bench import peers
from tests.bench.compare import SHORT, USUAL, Peer, Sizes, compare, machine, our_runner
from tests.bench.files_table import IK, SUMMARY_MARKERS, markdown, markers_of, summary
from tests.bench.table import insert


def measure(
    folder: Path,
    models: list[str],
    types: list[str],
    threads: int,
    repeat: int,
    sizes: Sizes,
    ik: bool = False,
) -> dict[str, Any]:
    """What the rounds found, file by file, and on what."""
    report: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(threads),
        "tokens": asdict(sizes),
        "repeat": repeat,
        "results": [],
    }
    memory: list[float] = []
    for title, name, path in _files(folder, models, types):
        with our_runner(path, "as-stored", threads) as runner:
            peer = Peer(folder, path, threads, sizes)
            report["peer"] = f"llama.cpp of llama-cpp-python {peer.version}"
            report["peer_system"] = peer.system
            others = {IK: Peer(folder, path, threads, sizes, build="ik")} if ik else {}
            report["others"] = {
                fork: f"{fork} of ik-llama-cpp-python {one.version}" for fork, one in others.items()
            }
            found = compare(runner, peer, title, name, repeat, sizes, others)
            for one in (peer, *others.values()):
                one.close()
            memory.append(read_gb_s(runner))
            activations = runner.executor_info.activations
        about = {"model": title, "activations": activations, "file_bytes": path.stat().st_size}
        report["results"].append(about | asdict(found) | {"mode": "as-stored"})
    return report | {"read_gb_s": asdict(Spread.of(memory))}


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
            raise SystemExit(f"there is no {path}: run python -m tests.bench.peers --files first")
    yield from found


def main() -> int:
    arguments = _arguments()
    report = measure(
        arguments.folder,
        arguments.models,
        arguments.types,
        arguments.threads,
        arguments.repeat,
        SHORT if arguments.short else USUAL,
        arguments.ik,
    )
    print(markdown(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    for page, text, markers in (
        (arguments.page, markdown(report), markers_of(report)),
        (arguments.summary, summary(report), SUMMARY_MARKERS),
    ):
        if page:
            page.write_text(insert(page.read_text(), text, markers))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeat", type=int, default=5)
    models = [*peers.BLOCK_MODELS]
    parser.add_argument("--models", nargs="+", choices=models, default=models)
    types = sorted({name for title in models for name in peers.types_of(title)})
    parser.add_argument(
        "--types", nargs="+", choices=types, default=[], help="left out, all of each model"
    )
    parser.add_argument("--ik", action="store_true", help="beside ik_llama.cpp too")
    parser.add_argument("--short", action="store_true", help="few tokens, to see that it works")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="replace the table between its markers")
    parser.add_argument("--summary", type=Path, help="replace the summary between its markers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
