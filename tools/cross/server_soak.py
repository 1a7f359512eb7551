"""A server that is asked for a long time, and that is held up by many who say nothing.

python -m tools.cross.server_soak [--requests 10000] [--clients 8] [--model MODEL]

Requests of all kinds, of clients some of which leave in the middle; memory, open files and threads
are the same behind the first tenth and at the end. Then 1,000 idle connections and
as many that send a request's head byte by byte, while others are answered as before.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import sys
import threading
import time
from collections import Counter

import httpx2 as httpx

from tests.children import PATIENCE
from tools.cross.served import ServedProcess, served

_GROWTH = 24 << 20  # bytes that may come: buffers of allocators
_SLOW = 1000  # connections


class Soak:
    def __init__(self, server: ServedProcess, requests: int, clients: int) -> None:
        self._server, self._requests, self._clients = server, requests, clients
        self._left = requests
        self._lock = threading.Lock()
        self.statuses: Counter[str] = Counter()
        self.marks: list[tuple[int, int, int, int]] = []  # done, memory, files, threads

    def run(self) -> None:
        threads = [threading.Thread(target=self._client, args=(i,)) for i in range(self._clients)]
        for thread in threads:
            thread.start()
        step = max(1, self._requests // 10)
        for mark in range(step, self._requests + 1, step):
            while self._requests - self._left < mark and any(t.is_alive() for t in threads):
                time.sleep(0.1)
            self._mark(mark)
        for thread in threads:
            thread.join()
        time.sleep(1)
        self._mark(self._requests)

    def _mark(self, done: int) -> None:
        server = self._server
        self.marks.append((done, server.memory(), server.files(), server.threads()))
        megabytes = server.memory() / (1 << 20)
        print(f"{done:6} requests: {megabytes:7.1f} MiB, {server.files()} files", flush=True)

    def _client(self, number: int) -> None:
        rng = random.Random(number)
        with httpx.Client(base_url=self._server.address, timeout=PATIENCE) as client:
            while True:
                with self._lock:
                    if self._left <= 0:
                        return
                    self._left -= 1
                kind = rng.choice(KINDS)
                self.statuses[f"{kind.__name__} {kind(client, rng)}"] += 1


def whole(client: httpx.Client, rng: random.Random) -> int:
    body = {"messages": _messages(rng), "max_tokens": rng.randint(1, 12)}
    return client.post("/v1/chat/completions", json=body).status_code


def streamed(client: httpx.Client, rng: random.Random) -> int:
    body = {"messages": _messages(rng), "max_tokens": 12, "stream": True, "logprobs": True}
    with client.stream("POST", "/v1/chat/completions", json=body) as made:
        said = made.read()
        return made.status_code if b"[DONE]" in said else 0


def left(client: httpx.Client, rng: random.Random) -> int:
    """A client that goes in the middle."""
    body = {"prompt": _words(rng), "max_tokens": 200, "stream": True}
    with client.stream("POST", "/v1/completions", json=body) as made:
        for _ in made.iter_raw():
            break
        return made.status_code


def broken(client: httpx.Client, rng: random.Random) -> int:
    content = rng.choice([b"{", b"[]", b'{"messages": 3}', b"\xff\xfe"])
    headers = {"content-type": "application/json"}
    return client.post("/v1/chat/completions", content=content, headers=headers).status_code


def inside(client: httpx.Client, rng: random.Random) -> int:
    made = client.post("/v1/completions", json={"prompt": _words(rng), "max_tokens": 2}).json()
    if "id" not in made:
        return 0
    query = {"response": made["id"], "layer": 0}
    return client.get("/inspect/attention", params=query).status_code


def vectors(client: httpx.Client, rng: random.Random) -> int:
    return client.post("/v1/embeddings", json={"input": _words(rng)}).status_code


def tokens(client: httpx.Client, rng: random.Random) -> int:
    return client.post("/tokenize", json={"content": _words(rng)}).status_code


KINDS = (whole, whole, streamed, streamed, left, broken, inside, vectors, tokens)


def _words(rng: random.Random) -> str:
    return " ".join(rng.choice(("one", "two", "three", "four", "five")) for _ in range(20))


def _messages(rng: random.Random) -> list[dict[str, str]]:
    return [{"role": "user", "content": _words(rng)}]


def _slow_ones(server: ServedProcess) -> list[socket.socket]:
    """Idle connections, and heads that never end."""
    made = []
    for number in range(_SLOW):
        one = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        if number % 2:
            one.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-")
        made.append(one)
    return made


def _answer_ms(server: ServedProcess, count: int = 30) -> list[float]:
    taken = []
    body = json.dumps({"prompt": "one two", "max_tokens": 4})
    headers = {"content-type": "application/json"}
    for _ in range(count):
        began = time.perf_counter()
        made = httpx.post(f"{server.address}/v1/completions", content=body, headers=headers)
        assert made.status_code == 200, made.text
        taken.append(1e3 * (time.perf_counter() - began))
    return taken


def _held_up(server: ServedProcess) -> bool:
    before = _answer_ms(server)
    slow = _slow_ones(server)
    during = _answer_ms(server)
    files = server.files()
    for one in slow:
        one.close()
    mid, most = statistics.median(during), max(during)
    print(
        f"{_SLOW} connections that say nothing or little: answers take {mid:.1f} ms, at most "
        f"{most:.1f}; without them {statistics.median(before):.1f}; {files} files are open"
    )
    return most < 2000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--model")
    arguments = parser.parse_args()
    with served(arguments.model, "--parallel", "4", "--backend", "cpu") as server:
        began = time.perf_counter()
        soak = Soak(server, arguments.requests, arguments.clients)
        soak.run()
        seconds = time.perf_counter() - began
        print(
            f"{arguments.requests / seconds:.0f} requests/s; {dict(sorted(soak.statuses.items()))}"
        )
        held = _held_up(server)
        first, last = soak.marks[0], soak.marks[-1]
        grown = last[1] - first[1]
        print(f"memory grew by {grown / (1 << 20):.1f} MiB behind the first tenth")
        bad = [name for name in soak.statuses if name.split()[1] in ("0", "500", "503")]
        is_flat = grown < _GROWTH and last[2] <= first[2] + 8
        return int(not (held and is_flat and not bad))


if __name__ == "__main__":
    sys.exit(main())
