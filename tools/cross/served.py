"""`llm-lite serve` as a person starts it, for runs that ask it much."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.children import PATIENCE
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT


class ServedProcess:
    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.address, self.port = address, int(address.rpartition(":")[2])
        self._process = psutil.Process(process.pid)

    def memory(self) -> int:
        """Bytes resident."""
        return int(self._process.memory_info().rss)

    def files(self) -> int:
        return self._process.num_fds()

    def threads(self) -> int:
        return self._process.num_threads()

    def kill(self) -> None:
        self._process.kill()

    def is_running(self) -> bool:
        return self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE


@contextmanager
def served(
    model: str | None = None, *words: str, data: Path | None = None
) -> Iterator[ServedProcess]:
    """A model, or a tiny one of random weights. `data`: the folder of its history, a new one
    without it."""
    with tempfile.TemporaryDirectory() as folder:
        if model is None:
            path = write_tiny_llama(Path(folder) / "tiny.gguf", context=512, seed=2)
            model = str(path)
        process = subprocess.Popen(
            [sys.executable, "-m", "llm_lite", "serve", model, "--port", "0", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "XDG_DATA_HOME": str(data or folder), "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            found = re.search(r"is served at (http://\S+)", line)
            if found is None:
                raise SystemExit(f"the server did not start: {line}")
            yield ServedProcess(process, found[1])
        finally:
            process.terminate()
            process.wait(PATIENCE)
