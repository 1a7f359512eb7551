"""The program's side of a tokenizer that the `tokenizers` library runs in the sandbox."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.errors import FileError
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, sandbox

_MEMORY = 512 << 20  # bytes, and as many for every byte that is read:
_MEMORY_OF_FILE, _MEMORY_OF_TEXT = 64, 512
_LOAD_SECONDS, _ENCODE_SECONDS = 0.4, 2.0  # of processor time for a MB
# The first text of a tokenizer also waits for its lists of tokens and merges.
_TRACING = Limits(cpu_seconds=10.0, wall_seconds=60.0, memory_bytes=2 << 30)


class SandboxedEncoder:
    """The ids of texts, by the tokenizer at `path`, which runs in the sandbox.

    `action` and `request` are those of `core.text.sandbox.tokenizers`; `data` gives the bytes that
    it loads, again where a sandbox was started again, so that nobody keeps tens of MB for it. For
    any thread.
    """

    def __init__(
        self, path: Path, action: str, request: Mapping[str, Any], data: Callable[[], bytes]
    ) -> None:
        self._path, self._load_action, self._request, self._data = path, action, request, data
        self.digest = ""  # SHA-256 of what was loaded, in hex

    def load(self, for_size: int = 0) -> dict[str, Any]:
        """Load the tokenizer, for texts of so many characters, and return what the sandbox knows
        of it. FileError if it cannot be loaded."""
        data = self._data()
        digest = hashlib.sha256(data).hexdigest()
        if self.digest not in ("", digest):
            raise FileError(self._path, "has changed since it was loaded: load the model again")
        self.digest = digest
        limits = _limits(len(data), _LOAD_SECONDS, _MEMORY_OF_FILE)
        answer = self._call(self._load_action, self._request, data, limits, for_size)
        if "failed" in answer:
            problem = f"is not a tokenizer that can be read: {answer['failed']}"
            raise FileError(self._path, problem)
        return answer

    def encode_all(self, texts: Sequence[str], *, bare: bool = False) -> list[list[int]]:
        """Return the ids of each text; loads the tokenizer if need be. `bare`: without the space
        that the tokenizer puts before a text. FileError if it fails."""
        return [list(map(int, ids)) for ids in self._found("ids", texts, bare=bare)]

    def pieces_of_all(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens themselves, as `encode_all` returns ids; what the vocabulary lacks is
        spelled as in the text."""
        return [list(map(str, pieces)) for pieces in self._found("pieces", texts)]

    def _found(self, what: str, texts: Sequence[str], *, bare: bool = False) -> list[list[Any]]:
        if not any(texts):
            return [[] for _ in texts]
        answer = self._encode(what, texts, bare)
        if answer.get("unknown"):
            self.load(_size(texts))
            answer = self._encode(what, texts, bare)
        if what not in answer:
            problem = answer.get("failed", "it is lost as soon as it is loaded")
            raise FileError(self._path, f"the tokenizer fails at this text: {problem}")
        found: list[list[Any]] = answer[what]
        return found

    def trace_all(
        self, texts: Sequence[str], *, stepped: int, control: bool = False, bare: bool = False
    ) -> dict[str, Any]:
        """Return the stages of each text, as `core.text.sandbox.tokenizers` describes them; `bare`
        as of `encode_all`. FileError."""
        asked = {"texts": list(texts), "stepped": stepped, "control": control, "bare": bare}
        size = _size(texts)
        answer = self._call("trace", asked, b"", _TRACING, size)
        if answer.get("unknown"):
            self.load(size)
            answer = self._call("trace", asked, b"", _TRACING, size)
        if "traced" not in answer:
            problem = answer.get("failed", "it is lost as soon as it is loaded")
            raise FileError(self._path, f"the steps of this text can not be told: {problem}")
        return answer

    def _encode(self, what: str, texts: Sequence[str], bare: bool) -> dict[str, Any]:
        size = _size(texts)
        limits = _limits(size, _ENCODE_SECONDS, _MEMORY_OF_TEXT)
        request = {"texts": list(texts), "pieces": what == "pieces", "bare": bare}
        return self._call("encode", request, b"", limits, size)

    def _call(
        self, action: str, request: Mapping[str, Any], data: bytes, limits: Limits, size: int
    ) -> dict[str, Any]:
        keyed = {**request, "key": f"{self._load_action}: {self.digest}"}
        try:
            return sandbox().call(action, keyed, data, limits=limits, size=size)
        except SandboxError as error:
            return {"failed": str(error)}


def _size(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


def _limits(size: int, seconds_a_mb: float, memory_a_byte: int) -> Limits:
    cpu = 1.5 + seconds_a_mb * size / 1e6
    return Limits(cpu, 60.0 + 2 * cpu, _MEMORY + memory_a_byte * size)
