"""llama.cpp and llm-lite on one machine in one run, in turns; the table is written by script.

    python -m tools.bench.compare [--backend vulkan | --isa avx2] [--repeat 5] [--page PAGE.md]
        [--json FILE]

Every round measures the memory, the peer and us, one after the other, with the same numbers of
tokens and threads; the ratio is taken within a round. `tools.bench.peers` makes the peer's files.
With `--backend vulkan` both run on the same device, on a software driver with few tokens.
With `--isa avx2` neither uses instructions above AVX2, whatever the processor has.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from llm_lite.core.gpu.info import DeviceInfo
from llm_lite.core.hub import catalog
from llm_lite.core.loading.loader import open_model, start
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import EngineOptions, Mode
from llm_lite.core.messages.options import Backend
from llm_lite.core.metrics.bench import Spread, read_bytes_per_token, read_gb_s, run_once
from llm_lite.core.processor import default_threads, isa_name, processor_name
from tools.bench import peers
from tools.bench.table import insert, markdown, markers_of

PAIRS: tuple[tuple[Mode, str], ...] = (
    ("int4", "Q4_0"),
    ("as-stored", "Q4_1"),
    ("int8", "Q8_0"),
    ("fp16", "F16"),
    ("fp32", "F32"),
)
MODES = {"cpu": tuple(mode for mode, _ in PAIRS), "vulkan": ("int4", "int8", "fp16")}
_ALL_LAYERS = 99  # on the GPU
CONTEXT = 2048
_SETTLE_SECONDS = 0.2  # threads of whoever ran last spin for a while

Rates = dict[str, float]  # tokens per second by measurement: "prefill", "decode", "deep"


@dataclass(frozen=True)
class Sizes:
    """Tokens: of a prompt, of an answer, and in the cache before the deep one; 0: there is none."""

    prompt: int = 512
    new: int = 128
    depth: int = 1024


USUAL = Sizes()
SHORT = Sizes(64, 8, 64)  # for a software driver


@dataclass(frozen=True)
class Result:
    mode: str
    peer: str  # the peer's name of its format
    ours: dict[str, Spread]
    theirs: dict[str, Spread]
    ratio: dict[str, Spread]
    read_bytes: dict[str, int]  # a decoded token must read, by measurement
    bandwidth_share: dict[str, Spread]  # of what memory gave in the same round
    # Rates of other peers and our ratio to them, by peer: {"rates": ..., "ratio": ...}
    others: dict[str, dict[str, dict[str, Spread]]] = field(default_factory=dict)


class Peer:
    """llama.cpp or ik_llama.cpp in a process of its own."""

    def __init__(
        self,
        folder: Path,
        file: Path,
        threads: int,
        sizes: Sizes = USUAL,
        device: DeviceInfo | None = None,
        build: str = "cpu",
    ) -> None:
        """Compare with that build of `peers`; with a device on that one, else on the processor."""
        self._sizes = sizes
        python, worker = peers.python_of(folder, build), peers.worker_of(build)
        numbers = [str(threads), str(_ALL_LAYERS if device else 0)]
        chosen = {"GGML_VK_VISIBLE_DEVICES": str(device.index)} if device else {}
        self._process = subprocess.Popen(
            [python, worker, "measure", file, *numbers],
            env={**os.environ, **chosen, **peers.environment_of(folder, build)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        about = self._read()
        self.version, self.system = str(about["version"]), str(about["system"])

    def rates(self) -> Rates:
        return rates_of(self._run, self._sizes)

    def _run(self, depth: int) -> tuple[float, float]:
        assert self._process.stdin is not None
        sizes = self._sizes
        tokens = {"prompt_tokens": sizes.prompt, "new_tokens": sizes.new, "depth": depth}
        self._process.stdin.write(json.dumps(tokens) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return float(answer["prefill_tok_s"]), float(answer["decode_tok_s"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> dict[str, float | str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the peer ended early: run python -m tools.bench.peers first")
        return dict(json.loads(line))


@contextmanager
def our_runner(
    model: Path, mode: Mode, threads: int, context: int = CONTEXT, backend: Backend = "cpu"
) -> Iterator[Runner]:
    model_file = open_model(str(model), lambda *_: None, print)
    options = EngineOptions(backend=backend, mode=mode, threads=threads, context=context)
    runner = start(model_file, options, None, lambda *_: None)
    try:
        run_once(runner, 32, 4, depth=0)
        yield runner
    finally:
        runner.close()
        model_file.close()


def rates_of(run: Callable[[int], tuple[float, float]], sizes: Sizes) -> Rates:
    """run(tokens in the cache) -> (prefill, decode); by measurement"""
    prefill, decode = run(0)
    rates = {"prefill": prefill, "decode": decode}
    return rates | {"deep": run(sizes.depth)[1]} if sizes.depth else rates


def our_rates(runner: Runner, sizes: Sizes) -> Rates:
    return rates_of(lambda d: run_once(runner, sizes.prompt, sizes.new, depth=d), sizes)


def compare(
    runner: Runner,
    peer: Peer,
    mode: str,
    name: str,
    repeat: int,
    sizes: Sizes = USUAL,
    others: Mapping[str, Peer] = MappingProxyType({}),
) -> Result:
    ours: list[Rates] = []
    theirs: list[Rates] = []
    of_others: dict[str, list[Rates]] = {one: [] for one in others}
    memory: list[float] = []
    for index in range(repeat):
        memory.append(read_gb_s(runner))
        for rates, one in ((theirs, peer), *((of_others[n], p) for n, p in others.items())):
            rates.append(one.rates())
            time.sleep(_SETTLE_SECONDS)
        ours.append(our_rates(runner, sizes))
        time.sleep(_SETTLE_SECONDS)
        print(f"{mode} and {name}, round {index + 1} of {repeat}", file=sys.stderr, flush=True)
    depths = {"decode": 0, "deep": sizes.depth} if sizes.depth else {"decode": 0}
    read = {k: read_bytes_per_token(runner, depth + sizes.new // 2) for k, depth in depths.items()}
    return Result(
        mode,
        name,
        _spreads(ours),
        _spreads(theirs),
        _ratios(ours, theirs),
        read,
        {
            k: Spread.of(
                [r[k] * read[k] / 1e9 / gb_s for r, gb_s in zip(ours, memory, strict=True)]
            )
            for k in read
        },
        {n: {"rates": _spreads(r), "ratio": _ratios(ours, r)} for n, r in of_others.items()},
    )


def _spreads(rounds: list[Rates]) -> dict[str, Spread]:
    return {key: Spread.of([rates[key] for rates in rounds]) for key in rounds[0]}


def _ratios(ours: list[Rates], theirs: list[Rates]) -> dict[str, Spread]:
    """Return our rate divided by the peer's, of each round."""
    return _spreads([{k: a[k] / b[k] for k in a} for a, b in zip(ours, theirs, strict=True)])


def machine(threads: int) -> dict[str, str | int | float]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": processor_name(),
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "instructions": isa_name(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": os.getloadavg()[0],
    }


@dataclass
class _Found:
    """What the rounds found, and on what."""

    sizes: Sizes = USUAL
    device: str = ""  # "": the processor
    version: str = ""  # of the peer
    system: str = ""  # the peer's line about its build
    memory: list[float] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


def _measure(arguments: argparse.Namespace, model: Path) -> _Found:
    found = _Found()
    files = peers.files_of(arguments.folder, model)
    build = arguments.isa or arguments.backend
    for mode, name in PAIRS:
        if mode not in (arguments.only or MODES[arguments.backend]):
            continue
        with our_runner(model, mode, arguments.threads, backend=arguments.backend) as runner:
            device = runner.choice.device.info if runner.choice.device else None
            if device:
                found.device = device.name
                found.sizes = SHORT if device.kind == "software" else USUAL
            file, threads = files[name], arguments.threads
            peer = Peer(arguments.folder, file, threads, found.sizes, device, build)
            found.version, found.system = peer.version, peer.system
            if arguments.isa == "avx2":
                peers.check_avx2(peer.system)
            found.results.append(compare(runner, peer, mode, name, arguments.repeat, found.sizes))
            found.memory.append(read_gb_s(runner))
            peer.close()
    return found


def main() -> int:
    arguments = _arguments()
    if arguments.isa:
        os.environ["LLM_LITE_ISA"] = arguments.isa
    model = catalog.resolve(None)
    about = machine(arguments.threads)
    found = _measure(arguments, model)
    report = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": about,
        "device": found.device,
        "isa": arguments.isa,
        "model": model.stem,
        "peer": f"llama.cpp of llama-cpp-python {found.version}",
        "peer_system": found.system,
        "tokens": asdict(found.sizes),
        "repeat": arguments.repeat,
        "read_gb_s": asdict(Spread.of(found.memory)),
        "results": [asdict(result) for result in found.results],
    }
    table = markdown(report)
    print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.page:
        page = insert(arguments.page.read_text(), table, markers_of(report))
        arguments.page.write_text(page)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--backend", choices=("cpu", "vulkan"), default="cpu")
    parser.add_argument("--isa", choices=("avx2",), default="", help="the highest to use")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="modes of ours; all are left out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="replace the table between its markers")
    arguments = parser.parse_args()
    if arguments.isa and arguments.backend != "cpu":
        parser.error("--isa is of the backend cpu")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
