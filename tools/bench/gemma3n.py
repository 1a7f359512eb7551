"""Gemma 3n or 4 E4B on this machine: how it loads, what it holds, how fast it is beside llama.cpp.

    python -m tools.bench.gemma3n [--model gemma-4-e4b] [--folder build/peers] [--json FILE]

The weights are random, of the real shapes: ours in int4 as `llm-lite synth` writes them, the
peer's in Q4_0 (4 GB each, made once). `tools.bench.peers` builds the peer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil

from llm_lite.core.convert.synthetic import Form, write_synthetic
from llm_lite.core.loading.loader import open_model, start
from llm_lite.core.messages import EngineOptions
from llm_lite.core.processor import default_threads
from llm_lite.core.records import asdict
from tools.bench import peers
from tools.bench.compare import Peer, Sizes, compare, machine, our_runner

MODELS = ("gemma-3n-e4b", "gemma-4-e4b")
CHAT = 4096  # tokens of context, filled
SIZES = Sizes(prompt=128, new=16, depth=128)
LIMITS = {  # what the program promises of Gemma 3n
    "load_s": 2.0,
    "private_gb": 1.0,
    "resident_gb": 2.8,
    "bandwidth_share": 0.75,
    "decode_ratio": 1.2,
    "prefill_ratio": 2.0,
}


def make(name: str, folder: Path) -> tuple[Path, Path]:
    """Ours and the peer's."""
    (folder / "models").mkdir(parents=True, exist_ok=True)
    forms: tuple[tuple[str, Form], ...] = (("", "variant"), ("-q4_0.gguf", "gguf"))
    paths = [folder / "models" / f"{name}{suffix}" for suffix, _ in forms]
    for path, (_, form) in zip(paths, forms, strict=True):
        if not path.exists():
            print(f"writing {path}", file=sys.stderr, flush=True)
            write_synthetic(name, path, form=form, seed=1)
    return paths[0], paths[1]


def hold(model: Path, threads: int, tokens: int) -> dict[str, float]:
    """In a process of its own: a load, and what is held when the context is full. GB are 10^9
    bytes."""
    began = time.perf_counter()
    file = open_model(str(model), lambda *_: None, print)
    options = EngineOptions(backend="cpu", context=CHAT, threads=threads)
    runner = start(file, options, None, lambda *_: None)
    seconds = time.perf_counter() - began
    # Common tokens more often, as in text (Zipf): each row of the table is a page or two.
    draw = np.random.default_rng(1).zipf(1.2, 8 * tokens) + 300
    text = draw[draw < file.model.shape.vocabulary][: tokens - SIZES.new].tolist()
    runner.session.prefill(text)
    for token in text[: SIZES.new]:
        runner.session.decode(token)
    return {"load_s": seconds} | memory()


def memory() -> dict[str, float]:
    found = psutil.Process().memory_info()
    return {"resident_gb": found.rss / 1e9, "private_gb": (found.rss - found.shared) / 1e9}


def main() -> int:
    arguments = _arguments()
    name = arguments.model
    ours, theirs = make(name, arguments.folder)
    if arguments.hold:
        print(json.dumps(hold(ours, arguments.threads, arguments.hold)))
        return 0
    about = machine(arguments.threads)
    own = [sys.executable, "-m", "tools.bench.gemma3n", "--model", name]
    own += ["--folder", str(arguments.folder)]
    held = subprocess.run([*own, "--hold", str(CHAT)], check=True, capture_output=True, text=True)
    with our_runner(ours, "as-stored", arguments.threads) as runner:
        peer = Peer(arguments.folder, theirs, arguments.threads, SIZES)
        version = peer.version
        result = compare(runner, peer, "int4", "Q4_0", arguments.repeat, SIZES)
        peer.close()
    numbers = json.loads(held.stdout) | {
        "bandwidth_share": result.bandwidth_share["decode"].median,
        "decode_ratio": result.ratio["decode"].median,
        "prefill_ratio": result.ratio["prefill"].median,
    }
    report = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": about,
        "model": f"{name}, random",
        "peer": f"llama.cpp of llama-cpp-python {version}",
        "tokens": asdict(SIZES),
        "repeat": arguments.repeat,
        "numbers": numbers,
        "result": asdict(result),
    }
    for what, limit in LIMITS.items():
        promised = f"   limit {limit}" if name == MODELS[0] else ""
        print(f"{what:16} {numbers[what]:6.2f}{promised}")
    for what in ("decode", "prefill"):
        print(f"{what:16} {result.ours[what]} against {result.theirs[what]}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
