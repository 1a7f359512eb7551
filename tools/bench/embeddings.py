"""Sentences a second: our encoder beside sentence-transformers, on this machine in this run.

    python -m tools.bench.embeddings --peer PYTHON_WITH_SENTENCE_TRANSFORMERS [--threads 2]

The same sentences, tokenization included, two threads each by default; one sentence at a time and
64 at once. Both processes stay loaded and take turns, `--rounds` times; the best round of each
counts, as others may use the machine meanwhile. The peer computes in float32, and so do we, and
then in int8.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from llm_lite.core.hub import catalog
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_starting import encoder
from llm_lite.core.messages import EngineOptions, Mode
from llm_lite.core.processor import processor_name

SINGLES, BATCH = 32, 64
_TEXT = (
    "the quick brown fox jumps over a lazy dog while rain falls on old roofs and children read "
    "long stories about ships, maps and distant mountains that nobody has seen before"
)
_PEER = """
import json, sys, time
import torch
torch.set_num_threads(int(sys.argv[2]))
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    began = time.perf_counter()
    for at in range(0, len(asked["texts"]), asked["batch"]):
        part = asked["texts"][at : at + asked["batch"]]
        model.encode(part, batch_size=asked["batch"], show_progress_bar=False)
    print(time.perf_counter() - began, flush=True)
"""


def sentences(count: int) -> list[str]:
    """Return sentences of 6 to 29 words, as people write."""
    words = _TEXT.split()
    return [
        " ".join(words[(i * 7 + j) % len(words)] for j in range(6 + i * 5 % 24)).capitalize()
        + f", number {i}."
        for i in range(count)
    ]


class Peer:
    def __init__(self, python: str, model: Path, threads: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            [python, "-c", _PEER, str(model), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", "the peer did not start"

    def seconds(self, texts: list[str], batch: int) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"texts": texts, "batch": batch}) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def measure(peer: Peer, mode: Mode, threads: int, rounds: int) -> dict[int, tuple[float, float]]:
    """Return by batch the sentences a second, ours and the peer's, of the best rounds."""
    file = loader.open_model("all-minilm-l6-v2", lambda *_: None, lambda text: None)
    options = EngineOptions(backend="cpu", mode=mode, threads=threads)
    best: dict[int, tuple[float, float]] = {}
    with encoder(file, options) as runner:
        for batch, texts in ((1, sentences(SINGLES)), (BATCH, sentences(2 * BATCH))):
            ours = theirs = 0.0
            for _ in range(rounds + 1):  # the first warms both
                began = time.perf_counter()
                for at in range(0, len(texts), batch):
                    runner.embed(texts[at : at + batch])
                ours = max(ours, len(texts) / (time.perf_counter() - began))
                theirs = max(theirs, len(texts) / peer.seconds(texts, batch))
            best[batch] = ours, theirs
    file.close()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", required=True, metavar="PYTHON")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    peer = Peer(arguments.peer, catalog.resolve("all-minilm-l6-v2"), arguments.threads)
    print(f"{processor_name()}, {arguments.threads} threads each; sentences a second")
    try:
        for mode in ("fp32", "int8"):
            found = measure(peer, mode, arguments.threads, arguments.rounds)
            for batch, (ours, theirs) in found.items():
                ratio = f"{ours / theirs:.2f}x"
                print(f"{mode} batch {batch:2}: {ours:7.1f}  peer fp32 {theirs:7.1f}  {ratio}")
            sys.stdout.flush()
    finally:
        peer.close()


if __name__ == "__main__":
    main()
