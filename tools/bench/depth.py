"""Speed far into a context, beside llama.cpp: tokens decoded behind thousands of others.

    python -m tools.bench.depth [--model smollm2-135m] [--depths 0 4096 16384 32768] [--caches fp16]
        [--repeat 5] [--folder build/peers] [--json FILE] [--page PAGE.md] [--chart FILE.svg]
    python -m tools.bench.depth --draw FILE.json --page PAGE.md --chart FILE.svg

Both programs read one GGUF file of random Q4_0 weights, made once, and hold a cache of one type
(llama.cpp's Q8_0 beside our int8, its Q4_0 beside our int4). Caches are filled with random keys and
values, as what they hold does not change what a step costs. In every round memory is measured, then
llama.cpp, then we; the ratio and the share of the memory's speed are taken within a round.
`tools.bench.peers` builds the peer; `--draw` only writes table and chart of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.convert.synthetic import write_synthetic
from llm_lite.core.loading.loader import open_model, start
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions, KvType
from llm_lite.core.metrics.bench import Spread, read_bytes_per_token, read_gb_s
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.processor import default_threads
from llm_lite.core.quant import rows
from tools.bench import peers
from tools.bench.compare import machine
from tools.bench.depth_chart import chart
from tools.bench.depth_table import MARKERS, markdown
from tools.bench.table import insert

CONTEXT = 65_536  # that the model says it has
DEPTHS = (0, 1024, 4096, 8192, 16_384, 32_768)
# Ours, the peer's name
CACHES: dict[KvType, str] = {"fp16": "F16", "int8": "Q8_0", "int4": "Q4_0"}
# The peer's flash attention: its default, but off where that decodes faster; others need it.
FLASH = {"F16": "off", "Q8_0": "on", "Q4_0": "on"}
PREFILL_AT = (16_384,)  # depths at which a prompt is read too
PROMPT = 512  # tokens
_NEW = 16  # tokens of an answer
_FILLED_ROWS = 256  # of random values, which repeat
_SETTLE_SECONDS = 0.2  # threads of whoever ran last spin for a while


@dataclass(frozen=True)
class Point:
    """Rates in tokens per second; shares of what memory gave in the same round."""

    cache: KvType
    peer: str
    depth: int
    what: str  # decode or prefill
    ours: Spread
    theirs: Spread
    ratio: Spread
    read_bytes: int  # that a decoded token reads; 0 of a prompt
    bandwidth_share: Spread
    read_gb_s: Spread


class DeepPeer:
    """llama.cpp in a process of its own, with a cache of one type."""

    def __init__(self, folder: Path, model: Path, threads: int, context: int, cache: str) -> None:
        worker = Path(peers.__file__).with_name("llama_cpp_depth.py")
        numbers = [str(threads), str(context)]
        self._process = subprocess.Popen(
            [peers.python_of(folder), worker, model, *numbers, cache, FLASH[cache]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        about = self._read()
        self.version, self.system = str(about["version"]), str(about["system"])

    def ask(self, what: str, count: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({what: count}) + "\n")
        self._process.stdin.flush()
        return float(self._read()["tok_s"] or 0)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the peer ended early: run python -m tools.bench.peers first")
        return dict(json.loads(line))


class Ours:
    """A runner whose cache is full of random keys and values."""

    def __init__(self, runner: Runner) -> None:
        self._runner, self._session = runner, runner.session
        self._random = np.random.default_rng(1)
        for layer in self._session.cache.layers:
            for tensor in layer.tensors:
                self._fill(tensor)

    def at(self, depth: int) -> None:
        session = self._session
        session.clear()
        made = session.conditions
        session.cache.append(self._tokens(depth), made)

    def rate(self, what: str, count: int) -> float:
        depth, tokens = len(self._session.cache), self._tokens(count)
        began = time.perf_counter()
        if what == "prefill":
            self._session.prefill([*self._session.tokens(), *tokens])
        else:
            for token in tokens:
                self._session.decode(token)
        seconds = time.perf_counter() - began
        self._session.forget_after(depth)
        return count / seconds

    def _tokens(self, count: int) -> list[int]:
        return self._random.integers(0, self._runner.model_info.vocabulary, count).tolist()

    def _fill(self, tensor: Tensor) -> None:
        values = self._random.normal(0, 1, (_FILLED_ROWS, tensor.shape[1])).astype(np.float32)
        data = rows.encode(values, tensor.dtype, tensor.block)
        for first in range(0, tensor.shape[0], _FILLED_ROWS):
            part = data[: tensor.shape[0] - first]
            self._runner.executor.write_state(tensor.name, first, part)


def model_file(name: str, folder: Path) -> Path:
    """Random weights of that shape in Q4_0, with a long context; made once."""
    path = folder / "models" / f"{name}-{CONTEXT // 1024}k.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"writing {path}", file=sys.stderr, flush=True)
        write_synthetic(name, path, form="gguf", seed=1, context=CONTEXT)
    return path


def measure(
    runner: Runner, peer: DeepPeer, cache: KvType, depths: list[int], repeat: int
) -> list[Point]:
    ours, points = Ours(runner), []
    for depth in depths:
        ours.at(depth)
        peer.ask("depth", depth)
        for what, count in (("decode", _NEW), ("prefill", PROMPT)):
            if what == "prefill" and depth not in PREFILL_AT:
                continue
            ours.rate("decode", 2)
            peer.ask("decode", 2)
            rounds = [_round(runner, ours, peer, what, count) for _ in range(repeat)]
            point = _point(runner, cache, depth, what, rounds)
            print(f"{cache} {what} at {depth}: {point.ours} {point.theirs}", file=sys.stderr)
            points.append(point)
    return points


_Round = tuple[float, float, float]  # memory in GB/s, theirs and ours in tokens per second


def _round(runner: Runner, ours: Ours, peer: DeepPeer, what: str, count: int) -> _Round:
    memory = read_gb_s(runner)
    time.sleep(_SETTLE_SECONDS)
    theirs = peer.ask(what, count)
    time.sleep(_SETTLE_SECONDS)
    own = ours.rate(what, count)
    time.sleep(_SETTLE_SECONDS)
    return max(memory, read_gb_s(runner)), theirs, own


def _point(runner: Runner, cache: KvType, depth: int, what: str, rounds: list[_Round]) -> Point:
    read = read_bytes_per_token(runner, depth + _NEW // 2) if what == "decode" else 0
    return Point(
        cache,
        CACHES[cache],
        depth,
        what,
        Spread.of([own for _, _, own in rounds]),
        Spread.of([theirs for _, theirs, _ in rounds]),
        Spread.of([own / theirs for _, theirs, own in rounds]),
        read,
        Spread.of([own * read / 1e9 / memory for memory, _, own in rounds]),
        Spread.of([memory for memory, _, _ in rounds]),
    )


def main() -> int:
    arguments = _arguments()
    if arguments.draw:
        report = json.loads(arguments.draw.read_text("utf-8"))
    else:
        report = _report(arguments)
    table = markdown(report)
    print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if arguments.page:
        page = insert(arguments.page.read_text("utf-8"), table, MARKERS)
        arguments.page.write_text(page, "utf-8")
    if arguments.chart:
        arguments.chart.write_text(chart(report), "utf-8")
    return 0


def _report(arguments: argparse.Namespace) -> dict[str, Any]:
    about = machine(arguments.threads)
    path = model_file(arguments.model, arguments.folder)
    context = max(arguments.depths) + 2 * PROMPT
    points: list[Point] = []
    for cache in arguments.caches:
        file = open_model(str(path), lambda *_: None, print)
        options = EngineOptions(
            backend="cpu", threads=arguments.threads, context=context, keys=cache, values=cache
        )
        runner = start(file, options, None, lambda *_: None)
        peer = DeepPeer(arguments.folder, path, arguments.threads, context, CACHES[cache])
        points += measure(runner, peer, cache, arguments.depths, arguments.repeat)
        peer.close()
        runner.close()
        file.close()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": about,
        "model": f"{arguments.model} in Q4_0, random",
        "peer": f"llama.cpp of llama-cpp-python {peer.version}",
        "peer_system": peer.system,
        "tokens": {"new": _NEW, "prompt": PROMPT},
        "repeat": arguments.repeat,
        "read_gb_s": statistics.median(p.read_gb_s.median for p in points),
        "points": [asdict(point) for point in points],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--model", default="smollm2-135m", help="a shape of `llm-lite synth`")
    parser.add_argument("--depths", type=int, nargs="+", default=list(DEPTHS))
    parser.add_argument("--caches", nargs="+", choices=tuple(CACHES), default=list(CACHES))
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--draw", type=Path, help="a JSON file of an earlier run")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="replace the table between its markers")
    parser.add_argument("--chart", type=Path, help="an SVG file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
