"""How many tokens a second a server gives to one client and to eight, over HTTP, and how soon.

python -m tools.bench.http_serving [--model MODEL] [--mode int4] [--threads 2] [--clients 8]
    [--rounds 3] [--llama-server PROGRAM --gguf FILE]

Prompts of 64 tokens that share nothing, answers of 128 tokens, streamed, greedy. Then a new request
comes while one client fewer than there are places is being answered, again and again. Greedy texts
must be the same alone and together. Where llama.cpp's server is given, the two take turns: one
round of each, with as many places and threads; it is given GGUF, ours MODEL.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx2 as httpx

from tools.cross.served import served

PROMPT, NEW, SPACING = 64, 128, 997
_PATIENCE = 600.0


class Answered:
    """A streamed completion, and when its pieces came."""

    def __init__(self, address: str, prompt: list[int], new: int = NEW) -> None:
        self.prompt, self.new = prompt, new
        self.text, self.tokens, self.first = "", 0, 0.0
        self.is_left = False  # from now on nobody reads
        self._address = address

    def run(self) -> None:
        body = {"prompt": self.prompt, "max_tokens": self.new, "temperature": 0, "stream": True}
        body |= {"stream_options": {"include_usage": True}, "logit_bias": {"2": -100, "0": -100}}
        asked = time.perf_counter()
        url = f"{self._address}/v1/completions"
        with httpx.stream("POST", url, json=body, timeout=_PATIENCE) as made:
            for line in made.iter_lines():
                if self.is_left:
                    return
                if line.startswith("data: {"):
                    self._hear(json.loads(line[6:]), asked)

    def _hear(self, chunk: dict[str, object], asked: float) -> None:
        for choice in chunk.get("choices") or ():  # type: ignore[attr-defined]
            self.text += choice["text"]
            self.first = self.first or time.perf_counter() - asked
        if chunk.get("usage"):
            self.tokens = chunk["usage"]["completion_tokens"]  # type: ignore[index]


def prompt_of(number: int) -> list[int]:
    """Tokens that no other prompt begins with."""
    return [1000 + (number * SPACING + place * 31) % 40_000 for place in range(PROMPT)]


def together(address: str, clients: int, first: int) -> tuple[float, list[Answered]]:
    """Tokens a second of all."""
    asked = [Answered(address, prompt_of(first + number)) for number in range(clients)]
    threads = [threading.Thread(target=one.run) for one in asked]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(one.tokens for one in asked) / (time.perf_counter() - began), asked


def first_token_ms(address: str, clients: int, first: int, times: int = 8) -> list[float]:
    """Return milliseconds to the first token of requests that come while all places but one are
    taken by answers that decode."""
    busy = [Answered(address, prompt_of(first + n), 1500) for n in range(clients - 1)]
    threads = [threading.Thread(target=one.run, daemon=True) for one in busy]
    for thread in threads:
        thread.start()
    while not all(one.first for one in busy):
        time.sleep(0.05)
    taken = []
    for number in range(times):
        one = Answered(address, prompt_of(first + clients + number), 2)
        one.run()
        taken.append(1e3 * one.first)
        if not all(thread.is_alive() for thread in threads):
            break
    for one, thread in zip(busy, threads, strict=True):
        one.is_left = True
        thread.join()
    return taken


@contextlib.contextmanager
def llama_server(program: str, gguf: str, clients: int, threads: int) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [program, "-m", gguf, "--port", str(port), "-np", str(clients), "-t", str(threads)]
    words += ["-c", str(2048 * clients), "--no-webui"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{address}/health").status_code == 200:
                    break
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


class Measured:
    """Rates of one server: the best of its rounds, as a busy machine makes it slower, never
    faster."""

    def __init__(self, name: str, address: str, clients: int) -> None:
        self.name, self._address, self._clients = name, address, clients
        self.alone: list[float] = []
        self.all: list[float] = []
        self.first: list[float] = []
        self.differing = 0

    def round(self, number: int) -> None:
        begin = 10_000 * (number + 1)
        rate, _ = together(self._address, 1, begin + 500)
        self.alone.append(rate)
        rate, asked = together(self._address, self._clients, begin)
        self.all.append(rate)
        for both in asked[:2]:  # the same again, alone
            again = Answered(self._address, both.prompt)
            again.run()
            self.differing += again.text != both.text
        self.first += first_token_ms(self._address, self._clients, begin + 700)

    def told(self) -> str:
        alone, rate = max(self.alone), max(self.all)
        return (
            f"{self.name}: 1 client {alone:.1f} tokens/s; {self._clients}: {rate:.1f} "
            f"({rate / alone:.2f} x); first token while {self._clients - 1} decode: median "
            f"{statistics.median(self.first):.0f} ms, at most {max(self.first):.0f}; "
            f"texts that differ alone and together: {self.differing}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--llama-server")
    parser.add_argument("--gguf")
    arguments = parser.parse_args()
    clients, threads = arguments.clients, arguments.threads
    words = ["--parallel", str(clients), "--mode", arguments.mode, "--context", "2048"]
    words += ["--backend", "cpu", "--threads", str(threads)]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(served(arguments.model, *words))
        measured = [Measured("llm-lite", server.address, clients)]
        if arguments.llama_server:
            other = llama_server(arguments.llama_server, arguments.gguf, clients, threads)
            measured.append(Measured("llama-server", stack.enter_context(other), clients))
        for number in range(arguments.rounds):
            for one in measured:
                one.round(number)
        for one in measured:
            print(one.told())
    if len(measured) == 2:
        print(f"{max(measured[0].all) / max(measured[1].all):.2f} x of llama-server's with all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
