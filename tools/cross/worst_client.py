"""A small chat beside the worst client: how long until it begins, while all the rest is asked.

python -m tools.cross.worst_client [--model MODEL|tiny] [--chats 10]

The worst client sends without a pause, by one name or by as many as it has requests: long texts to
/tokenize, schemas that cost seconds to compile and others that are only large, long and costly
Markdown to the page, chats that do not end for long, and long prompts. The small chat comes from
the same address and from another one. Each line is the median and the longest time to its first
piece of text, in seconds; the last column counts what the worst client was answered meanwhile. The
run fails where a small chat took more than a second to begin.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx2 as httpx

from tests.children import PATIENCE
from tools.cross.served import ServedProcess, served

_MOST_SECONDS = 1.0
_TEXT = "The quick brown fox jumps over 12 lazy dogs; 그리고 고양이도. " * 60_000  # some 3 MB
_DEEP = "> " * 20 + "*a _b `c` " * 900
_longest = len(_TEXT)  # characters that the server takes, as it is asked first
_ADDRESSES = {"same address": "127.0.0.1", "another": "127.0.0.2"}


def _tokenize(number: int) -> tuple[str, Any]:
    return "/tokenize", {"content": f"{number} {_TEXT[:_longest]}"}


def _schema(number: int) -> tuple[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "multipleOf": 99_999_989 + number}
    if number % 2:
        names = {f"p{number}_{index}": {"type": "integer"} for index in range(6500)}
        schema = {"type": "object", "properties": names}
    return "/v1/chat/completions", {**_chat("Fill this in."), "json_schema": schema}


def _markdown(number: int) -> tuple[str, Any]:
    return "/page/markdown", {"text": _DEEP + _TEXT[: 90_000 * (number % 3)] + str(number)}


def _endless(number: int) -> tuple[str, Any]:
    words = f"Count from {number} to a million, one number a line."
    return "/v1/chat/completions", {**_chat(words), "max_tokens": 400}


def _form(number: int) -> tuple[str, Any]:
    names = {f"q{number}_{index}": {"type": "integer"} for index in range(900)}
    schema = {"type": "object", "properties": names, "required": list(names)}
    return "/v1/chat/completions", {**_chat("Fill this in."), "json_schema": schema}


def _prompt(number: int) -> tuple[str, Any]:
    text = " ".join(f"{number} and {index}" for index in range(_longest // 800))
    return "/v1/chat/completions", _chat(text)


def _chat(words: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": words}], "max_tokens": 4}


_WORST: dict[str, tuple[Callable[[int], tuple[str, Any]], int]] = {
    "16 long texts": (_tokenize, 16),
    "32 costly schemas": (_schema, 32),
    "32 large schemas": (_form, 32),
    "16 Markdown texts": (_markdown, 16),
    "24 long answers": (_endless, 24),
    "24 long prompts": (_prompt, 24),
}


class Worst:
    """So many threads, of which each asks again as soon as it is answered."""

    def __init__(
        self, server: ServedProcess, ask: Callable[[int], tuple[str, Any]], count: int, named: bool
    ) -> None:
        self.statuses: Counter[str] = Counter()
        self._server, self._ask, self._named = server, ask, named
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(count)
        ]

    def __enter__(self) -> Worst:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(_MOST_SECONDS)  # what is costly may go on for long

    def _run(self, number: int) -> None:
        path, body = self._ask(number)
        headers = {"User-Agent": f"worst {number}" if self._named else "worst"}
        with httpx.Client(timeout=PATIENCE, headers=headers) as client:
            while not self._is_over:
                try:
                    with client.stream("POST", self._server.address + path, json=body) as made:
                        for _ in made.iter_raw():
                            if self._is_over:
                                break
                        self.statuses[str(made.status_code)] += 1
                except httpx.HTTPError as error:
                    self.statuses[type(error).__name__] += 1


def first_text(server: ServedProcess, address: str, number: int) -> float:
    """Return the seconds until a small chat has its first piece of text."""
    transport = httpx.HTTPTransport(local_address=address)
    body = {**_chat(f"Say {number}."), "stream": True}
    began = time.perf_counter()
    with httpx.Client(transport=transport, timeout=PATIENCE) as client:
        path = "/v1/chat/completions"
        with client.stream("POST", server.address + path, json=body) as made:
            for line in made.iter_lines():
                if '"content":"' in line.replace(" ", "") and '"content":""' not in line:
                    return time.perf_counter() - began
            raise SystemExit(f"the small chat was answered {made.status_code} without a text")


def find_longest(server: ServedProcess) -> None:
    """Find how long a text may be: some tokens of the model are long, and so may its context be."""
    global _longest
    while True:
        path, body = _tokenize(0)
        if httpx.post(server.address + path, json=body, timeout=PATIENCE).status_code == 200:
            return
        _longest = _longest * 3 // 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="the bundled one without it; tiny: of random weights")
    parser.add_argument("--chats", type=int, default=10)
    parser.add_argument("--only", choices=_WORST, help="of the worst clients")
    asked = parser.parse_args()
    slowest = 0.0
    model = None if asked.model == "tiny" else asked.model or "smollm2-135m"
    with served(model) as server:
        find_longest(server)
        print(f"long texts have {_longest:,} characters")
        first_text(server, "127.0.0.1", 0)
        _print("alone", "", [first_text(server, "127.0.0.1", n) for n in range(asked.chats)], "")
        for what, (ask, count) in _WORST.items():
            if asked.only in (None, what):
                slowest = max(slowest, _beside(server, what, ask, count, asked.chats))
    print(f"{'held' if slowest <= _MOST_SECONDS else 'FAILED'}: at most {_MOST_SECONDS:g} s wanted")
    raise SystemExit(slowest > _MOST_SECONDS)


def _beside(
    server: ServedProcess, what: str, ask: Callable[[int], tuple[str, Any]], count: int, chats: int
) -> float:
    slowest = 0.0
    for named in (False, True):
        with Worst(server, ask, count, named) as worst:
            time.sleep(3.0)
            for where, address in _ADDRESSES.items():
                found = [first_text(server, address, n) for n in range(chats)]
                names = "many names" if named else "one name"
                told = ", ".join(f"{n} times {status}" for status, n in worst.statuses.items())
                _print(f"{what}, {names}", where, found, told)
                slowest = max(slowest, *found)
    return slowest


def _print(what: str, where: str, found: list[float], told: str) -> None:
    middle, most = statistics.median(found), max(found)
    print(f"{what:32} {where:13} {middle:6.2f} {most:6.2f}  {told}", flush=True)


if __name__ == "__main__":
    main()
