"""llama.cpp's own drafts: llama-server with and without speculative decoding, a prompt at a time.

Its kinds that need no second model are those that look tokens up ("--spec-type" of llama-server);
another takes a file of a draft model. They are measured with the settings that the program has of
itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

NONE = "none"
LOOKUPS = ("ngram-simple", "ngram-mod", "ngram-cache")  # what --spec-type is called
DRAFT_MODEL = "draft-simple"
_PATIENCE = 120.0  # seconds, until a server is ready or has answered


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    tokens: int
    seconds: float  # behind the first token
    drafted: int
    accepted: int

    @property
    def rate(self) -> float:
        """Tokens per second, the first one aside."""
        return (self.tokens - 1) / self.seconds


@contextlib.contextmanager
def servers(
    program: Path, gguf: Path, threads: int, context: int, draft: Path | None = None
) -> Iterator[Mapping[str, str]]:
    """The address of a server for each kind: none, and LOOKUPS or, with the file of a draft model,
    DRAFT_MODEL. SystemExit where one does not start."""
    kinds: dict[str, list[str | Path]] = {NONE: [], **{kind: [] for kind in LOOKUPS}}
    if draft is not None:
        kinds = {NONE: [], DRAFT_MODEL: ["-md", draft, "-td", str(threads)]}
    words: list[str | Path] = [program, "-m", gguf, "-np", "1", "-c", str(context)]
    words += ["-t", str(threads), "-tb", str(threads), "--no-webui"]
    with contextlib.ExitStack() as stack:
        yield {
            kind: stack.enter_context(_server([*words, "--spec-type", kind, *own]))
            for kind, own in kinds.items()
        }


def ask(address: str, prompt: Sequence[int], new: int) -> PeerAnswer:
    """The greedy answer to the tokens of a prompt, at most `new` tokens, nothing of it cached."""
    body = {"prompt": list(prompt), "n_predict": new, "temperature": 0, "cache_prompt": False}
    kind = {"Content-Type": "application/json"}
    request = Request(f"{address}/completion", json.dumps(body).encode(), kind)
    with urlopen(request, timeout=_PATIENCE) as answer:
        timings = json.load(answer)["timings"]
    return PeerAnswer(
        timings["predicted_n"],
        timings["predicted_ms"] / 1000,
        timings.get("draft_n", 0),
        timings.get("draft_n_accepted", 0),
    )


@contextlib.contextmanager
def _server(words: Sequence[str | Path]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*words, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urlopen(f"{address}/health", timeout=_PATIENCE):
            return
        time.sleep(0.1)
    raise SystemExit(f"{' '.join(map(str, process.args))}: expected a server, found none")
