"""The program's side of a tokenizer that the `tokenizers` library runs in the sandbox."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, give_up_when_cancelled, sandbox

_MEMORY = 512 << 20  # bytes, and as many for every byte that is read:
_MEMORY_OF_FILE, _MEMORY_OF_TEXT = 64, 512
_LOAD_SECONDS, _ENCODE_SECONDS = 0.4, 2.0  # of processor time for a MB


class SandboxedEncoder:
    """Ids of texts, by what `path` says. It runs in the sandbox.

    `action` and `request` are those of `core.text.sandbox.tokenizers`; `data` is kept, because a
    sandbox that was started again has to load it again. `begin` loads it on a thread of its own;
    whatever needs the end of that waits for it, and raises FileError where it failed.
    """

    def __init__(self, path: Path, action: str, request: dict[str, Any], data: bytes) -> None:
        self._path, self._action, self._data = path, action, data
        key = hashlib.sha256(action.encode() + data).hexdigest()
        self._request = {**request, "key": key}
        self._key = {"key": key}
        self._lock = threading.Lock()
        self._loaded: Future[dict[str, Any]] | None = None

    def begin(self) -> Future[dict[str, Any]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = Future()
                work = partial(self._load_into, self._loaded)
                threading.Thread(target=work, name="tokenizer", daemon=True).start()
            return self._loaded

    def about(self) -> dict[str, Any]:
        """What the sandbox told when it loaded the tokenizer."""
        loaded = self.begin()
        while True:
            try:
                return loaded.result(timeout=0.02)
            except TimeoutError:
                give_up_when_cancelled()

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text its ids. FileError where the tokenizer fails at one."""
        self.about()
        if not any(texts):
            return [[] for _ in texts]
        answer = self._encode(texts)
        if answer.get("unknown"):
            self._load()
            answer = self._encode(texts)
        if "ids" not in answer:
            problem = answer.get("failed", "it is lost as soon as it is loaded")
            raise FileError(self._path, f"the tokenizer fails at this text: {problem}")
        return [list(map(int, ids)) for ids in answer["ids"]]

    def _load_into(self, loaded: Future[dict[str, Any]]) -> None:
        try:
            loaded.set_result(self._load())
        except BaseException as error:
            loaded.set_exception(error)

    def _load(self) -> dict[str, Any]:
        size = len(self._data)
        limits = _limits(size, _LOAD_SECONDS, _MEMORY_OF_FILE)
        answer = self._call(self._action, self._request, self._data, limits)
        if "failed" in answer:
            problem = f"is not a tokenizer that can be read: {answer['failed']}"
            raise FileError(self._path, problem)
        return answer

    def _encode(self, texts: Sequence[str]) -> dict[str, Any]:
        size = sum(map(len, texts))
        limits = _limits(size, _ENCODE_SECONDS, _MEMORY_OF_TEXT)
        return self._call("encode", {**self._key, "texts": list(texts)}, b"", limits)

    def _call(
        self, action: str, request: dict[str, Any], data: bytes, limits: Limits
    ) -> dict[str, Any]:
        try:
            return sandbox().call(action, request, data, limits=limits)
        except SandboxError as error:
            return {"failed": str(error)}


def _limits(size: int, seconds_a_mb: float, memory_a_byte: int) -> Limits:
    cpu = 1.5 + seconds_a_mb * size / 1e6
    return Limits(cpu, 60.0 + 2 * cpu, _MEMORY + memory_a_byte * size)
