"""Our server and llama.cpp's with the same clients: tokens a second over HTTP, in turns.

    python -m tools.bench.peers --server
    python -m tools.bench.servers [--clients 8] [--threads 2] [--rounds 3]

Each client sends a prompt of 64 tokens that no other sends and gets 128 new ones, greedily; the
prompts differ from round to round. The bundled model: int4 of ours, Q4_0 and Q4_1 of theirs. Every
round measures each server with one client and with all; the best round counts, as a busy machine
makes answers slower, never quicker.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from llm_lite.core.hub import catalog
from tools.bench import peers

_PROMPT, _NEW, _CONTEXT = 64, 128, 512
_VOCABULARY = 40_000  # ids of words; special ones are elsewhere
_PATIENCE = 600.0


def main() -> int:
    arguments = _arguments()
    servers = _servers(arguments)
    rng = np.random.default_rng(0)
    best: dict[str, dict[int, float]] = {name: {} for name in servers}
    for _ in range(arguments.rounds):
        for name, command in servers.items():
            with _running(command, arguments.port):
                for clients in (1, arguments.clients):
                    rate = _measure(arguments.port, clients, rng)
                    best[name][clients] = max(rate, best[name].get(clients, 0.0))
    for name, rates in best.items():
        one, all_ = rates[1], rates[arguments.clients]
        print(f"{name:22} 1 client {one:7.1f} tokens/s, {arguments.clients}: {all_:7.1f}", end=" ")
        print(f"({all_ / one:.2f} x)")
    return 0


def _servers(arguments: argparse.Namespace) -> dict[str, list[str]]:
    model = catalog.resolve(None)
    port, threads, clients = (
        str(n) for n in (arguments.port, arguments.threads, arguments.clients)
    )
    ours = [sys.executable, "-m", "llm_lite", "serve", "--port", port, "--backend", "cpu"]
    ours += ["--threads", threads, "--parallel", clients, "--mode", "int4"]
    ours += ["--context", str(_CONTEXT)]
    found = {"llm-lite int4": ours}
    server = peers.server_of(arguments.folder)
    if not server.exists():
        print(f"{server} is not there: python -m tools.bench.peers --server", file=sys.stderr)
        return found
    theirs = [str(server), "--port", port, "-t", threads, "-tb", threads, "-np", clients]
    theirs += ["-c", str(_CONTEXT * arguments.clients), "--no-webui", "-m"]
    files = peers.files_of(arguments.folder, model)
    for name in ("Q4_0", "Q4_1"):
        if files[name].exists():
            found[f"llama-server {name}"] = [*theirs, str(files[name])]
    return found


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said) as process,
    ):
        try:
            if not _is_ready(process, port):
                said.seek(0)
                raise SystemExit(f"{' '.join(command)}: {said.read()[-2000:]}")
            yield
        finally:
            process.terminate()


def _is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            _answer(port, _model(port), [1, 2, 3], 1)
            return True
        except (OSError, _NotYetError):
            time.sleep(0.2)
    return False


def _measure(port: int, clients: int, rng: np.random.Generator) -> float:
    """Tokens a second of all of them together."""
    prompts = [rng.integers(1000, _VOCABULARY, _PROMPT).tolist() for _ in range(clients)]
    made, model = [0] * clients, _model(port)

    def ask(client: int) -> None:
        made[client] = _answer(port, model, prompts[client], _NEW)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(made) / (time.perf_counter() - began)


class _NotYetError(Exception):
    pass


def _model(port: int) -> str:
    models = _ask(port, "GET", "/v1/models")["data"]
    if not models:
        raise _NotYetError
    return str(models[0]["id"])


def _answer(port: int, model: str, prompt: list[int], new: int) -> int:
    """Tokens that came."""
    body = {"model": model, "prompt": prompt, "max_tokens": new, "temperature": 0}
    answer = _ask(port, "POST", "/v1/completions", json.dumps(body))
    return int(answer["usage"]["completion_tokens"])


def _ask(port: int, method: str, path: str, body: str | None = None) -> Any:
    """OSError or _NotYetError where the server is not ready."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status == 503:
        raise _NotYetError
    if response.status != 200:
        raise SystemExit(f"{path}: {response.status} {answer}")
    return answer


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=_free_port())
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
