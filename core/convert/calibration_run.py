"""Calibration of a model with a text: the options, the executor and the memory that it takes."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.convert import calibration
from llm_lite.core.convert.calibration import CHUNK_TOKENS, Moments
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.cpu.self_test import validated_isa
from llm_lite.core.files.mapping import drop_pages
from llm_lite.core.files.text_input import read_text
from llm_lite.core.files.writing import unwritable
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import generate
from llm_lite.core.loading import loader
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.quant.modes import AS_STORED, convert, convert_table
from llm_lite.core.quant.tensor import files_of, find_non_finite, not_finite
from llm_lite.core.text.tokenizer import Tokenizer

CHUNKS = 16  # twice as many lose a fourteenth less, and take twice the time to write
_SEED = 1  # the same text each time


Progress = Callable[[str, float], None]


def calibrate(
    model: ModelFile,
    text_file: Path | None,
    folder: Path,
    progress: Progress = lambda stage, fraction: None,
    *,
    threads: int = 0,
) -> Moments:
    """Run a text through the model as it is stored, float32 activations, on the C++ executor.

    Without a file the text is one that the model writes itself. The moments lie in nameless files
    in `folder`, not in memory. FileError for a text that cannot be read or is not UTF-8, for
    weights that are not finite and for a full disk; RequestError for a text that is too short.
    """
    context = min(calibration.CHUNK_TOKENS, model.model.shape.trained_context)
    with files_of(model.file.tensors.values()).unchanged():
        if text_file is None:
            _check_finite(model)
            chunks = write_chunks(model, progress, threads=threads)
        else:
            chunks = _read_chunks(model, text_file, context)
        return _collect(model, chunks, context, folder, progress, threads)


def _read_chunks(model: ModelFile, text_file: Path, context: int) -> list[list[int]]:
    text = read_text(text_file)
    tokens = model.tokenizer.encode(text, add_special=True, parse_special=False)
    return calibration.chunks_of(tokens, model.tokenizer.bos_id, context)


def _collect(
    model: ModelFile,
    chunks: list[list[int]],
    context: int,
    folder: Path,
    progress: Progress,
    threads: int,
) -> Moments:
    _check_finite(model)
    executor = _executor(model, context, threads)

    def rest(moment: NDArray[np.float32]) -> None:
        drop_pages(moment)
        for tensor in model.file.tensors.values():
            drop_pages(tensor.data)

    try:
        return calibration.collect(
            executor,
            chunks,
            lambda fraction: progress("calibrating", fraction),
            room=lambda shape: _on_disk(folder, shape),
            rest=rest,
        )
    finally:
        executor.close()


def _check_finite(model: ModelFile) -> None:
    for tensor in model.file.tensors.values():
        if find_non_finite(tensor):
            raise not_finite(model.path, tensor.name)
        drop_pages(tensor.data)


def _executor(model: ModelFile, context: int, threads: int) -> CpuExecutor:
    """Make the executor; it takes a chunk in one step, since adding to the moments takes as long
    for few tokens."""
    on_disk = model.model.on_disk
    weights = {
        name: convert_table(tensor) if name in on_disk else convert(tensor, AS_STORED)
        for name, tensor in model.file.tensors.items()
    }
    options = BuildOptions(
        context=context,
        k_dtype="f32",
        v_dtype="f32",
        q_dtype="f32",
        integer_activations=False,
        buckets=(Bucket(context, context),),
    )
    program = read_model(model.file.metadata, weights, model.path).build(options)
    return CpuExecutor(program, weights, threads=threads, isa=validated_isa())


def _on_disk(folder: Path, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return zeros in a file without a name, which is deleted with the last array over it."""
    size = 4 * math.prod(shape)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            _reserve(file.fileno(), size)
            mapping = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise unwritable(folder, error) from None
    return np.frombuffer(mapping, np.float32).reshape(shape)


def _reserve(file: int, size: int) -> None:
    """Return zeros that the disk has room for: a full one is an error here, not a fault on
    writing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    piece = bytes(1 << 20)
    for begin in range(0, size, len(piece)):
        os.write(file, piece[: size - begin])


def write_chunks(
    model: ModelFile,
    progress: Progress = lambda stage, fraction: None,
    *,
    threads: int = 0,
) -> list[list[int]]:
    """Let the model write CHUNKS pieces of CHUNK_TOKENS tokens, or of as many as it was trained
    for.

    The CPU writes them with int8 weights, which read twice as fast as float16 and choose the same
    token 98 times of 100. RequestError and MemoryError as of `loader.start`.
    """
    size = min(CHUNK_TOKENS, model.model.shape.trained_context)
    options = EngineOptions(
        backend="cpu", mode="int8", threads=threads, context=size, query_budget=0, pool_budget=0
    )
    chunks = []
    with loader.started(model, options, None) as runner:
        for begin in _beginnings(model.tokenizer):
            chunks.append(_written(runner.session, begin, size))
            progress("writing a text to calibrate with", len(chunks) / CHUNKS)
    return chunks


def _beginnings(tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Yield beginnings of texts: the begin token, if the model has one, and a random plain
    token."""
    start = tokenizer.around[0]
    plain = [i for i in range(tokenizer.vocab_size) if not tokenizer.is_special(i)]
    for first in np.random.default_rng(_SEED).choice(plain, CHUNKS):
        yield [*start, int(first)]


def _written(session: Session, begin: list[int], size: int) -> list[int]:
    """Write one piece; the model may end its text and begin another, as it does with turns of a
    chat."""
    sampling = SamplingOptions(
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        seed=_SEED + begin[-1],
        max_new_tokens=max(1, size - len(begin)),
    )
    session.clear()
    ends: frozenset[int] = frozenset()
    return [*begin, *(choice.token for choice in generate(session, begin, sampling, ends))][:size]
