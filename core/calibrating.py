"""Calibration of a model with a text: the program, the executor and the memory that it takes."""

from __future__ import annotations

import math
import mmap
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core import calibration
from core.calibration import Moments
from core.errors import FileError
from core.formats.json_text import read_bytes
from core.formats.mapping import let_go
from core.loading import ModelFile, start
from core.messages import EngineOptions

_MAX_TEXT_BYTES = 64 << 20

Progress = Callable[[str, float], None]


def calibrate(
    model: ModelFile,
    text_file: Path,
    folder: Path,
    progress: Progress = lambda stage, fraction: None,
    *,
    threads: int = 0,
) -> Moments:
    """Run a text through the model as it is stored, float32 activations, on the C++ executor.

    The moments lie in a nameless file in `folder`, not in memory. FileError for a text that cannot
    be read or is not UTF-8, RequestError for one that is too short.
    """
    raw = read_bytes(text_file, _MAX_TEXT_BYTES)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise FileError(text_file, f"is not valid UTF-8 at byte {error.start}") from None
    tokens = model.tokenizer.encode(text, add_special=True, parse_special=False)
    chunks = calibration.chunks_of(tokens, model.tokenizer.bos_id)
    context = min(calibration.CHUNK_TOKENS, model.model.shape.trained_context)
    chunks = [chunk[:context] for chunk in chunks]
    options = EngineOptions(
        backend="cpu", activations="a32", threads=threads, context=context, query_budget=0
    )
    runner = start(model, options, None, lambda *_: None, every_output=True)
    kept: list[NDArray[np.float32]] = []

    def room(shape: tuple[int, ...]) -> NDArray[np.float32]:
        kept.append(_on_disk(folder, shape))
        return kept[-1]

    def rest() -> None:
        let_go(next(iter(model.file.tensors.values())).data)
        for moment in kept:
            let_go(moment)

    try:
        return calibration.collect(
            runner.executor,
            chunks,
            lambda fraction: progress("calibrating", fraction),
            room=room,
            rest=rest,
        )
    finally:
        runner.close()


def _on_disk(folder: Path, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Zeros in a file without a name, which goes when the last array over it does."""
    size = 4 * math.prod(shape)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(size)
            mapping = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise FileError(folder, f"cannot be written: {error.strerror}") from None
    return np.frombuffer(mapping, np.float32).reshape(shape)
