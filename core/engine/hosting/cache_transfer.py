"""Moves a conversation from one executor to another, and to a file and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from llm_lite.core.errors import (
    DeviceError,
    FileError,
    LlmLiteError,
    OutOfDeviceMemoryError,
    OutOfMemoryError,
    RequestError,
)
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.translation import Translator
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.kv_cache.contents import Prefix
from llm_lite.core.loading.encoder_starting import AnyRunner
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import Level, OpenCache, SaveCache
from llm_lite.core.records import replace

Log = Callable[[Level, str], None]
OUT_OF_MEMORY = (OutOfMemoryError, OutOfDeviceMemoryError)


def copy_prefix(runner: AnyRunner, log: Log) -> Prefix | None:
    """Return what the cache holds; None if that is nothing, or the device cannot return it."""
    if not isinstance(runner, Runner) or not runner.model_info.continues:
        return None
    if not runner.session.context_used:
        return None
    try:
        return runner.session.copy_prefix()
    except DeviceError as error:
        log("warning", f"the cache is lost with the device ({error}); it is computed again")
        return None


def hand_over(kept: Prefix | None, old: AnyRunner, new: AnyRunner) -> None:
    """Move the conversation, and the prefixes of others, to a new executor of the same model. For
    an encoder-decoder the source and its target are read again with the gains of its heads; for an
    encoder, which keeps no conversation, only these gains move."""
    if not isinstance(old, Runner) or not isinstance(new, Runner):
        new.set_gains(old.gains)
        return
    budget = new.session.pool.budget
    new.session.pool = old.session.pool
    new.session.pool.budget = budget
    if new.translator is not None and old.source_encoder is not None:
        new.set_gains(old.gains)
        _read_again(new.translator, old.source_encoder.tokens(), old.session)
    elif kept is not None:
        new.session.restore_prefix(kept)


def _read_again(translator: Translator, source: Sequence[int], old: Session) -> None:
    """Read the source and its target again; if that fails, as in a context that is too small, the
    new executor holds nothing."""
    if not source or not old.context_used:
        return
    try:
        translator.read_source(source)
        translator.read_target(old.tokens()[1:])
    except LlmLiteError:
        translator.forget()


def _check_kept(runner: Runner) -> None:
    """Raise RequestError for an encoder-decoder, whose cache no file can hold."""
    if not runner.model_info.continues:
        raise RequestError(
            f"{runner.model_info.name} is an encoder-decoder: its cache belongs to a source, which "
            "no file of a cache has; both are read again in a moment"
        )


def save(runner: Runner, path: Path) -> int:
    """Save the cache and return the bytes written. RequestError where there is nothing to save and
    for an encoder-decoder, FileError where it cannot be written."""
    _check_kept(runner)
    return on_disk.save(path, runner.session.copy_prefix(), identity(runner))


def open_saved(
    runner: Runner, path: Path, known: on_disk.Identity | None = None, conversation: int = 0
) -> int:
    """Restore a saved cache and return how many positions it has. FileError where the file is
    another model's or damaged."""
    _check_kept(runner)
    session = runner.session
    vocabulary = runner.model_info.vocabulary
    prefix = on_disk.load(path, known or identity(runner), session.cache, vocabulary)
    if len(prefix.contents.tokens) > session.context:
        raise on_disk.OtherCacheError(
            path,
            f"expected at most {session.context} tokens, as many as the context holds, "
            f"found {len(prefix.contents.tokens)}",
            "context",
        )
    count = session.restore_prefix(replace(prefix, conversation=conversation))
    try:
        on_disk.files_of(prefix).check()
    except FileError:
        session.clear()  # nobody knows what was copied
        raise
    return count


def file_away(runner: Runner, command: SaveCache | OpenCache, log: Log) -> None:
    """Save a cache to a file, or open one; a failure is only logged."""
    path = Path(command.path)
    try:
        if isinstance(command, SaveCache):
            size = save(runner, path)
            log("info", f"{path}: the cache was saved, {size / 2**20:.1f} MiB")
        else:
            count = open_saved(runner, path)
            log("info", f"{path}: {count} tokens came back into the cache")
    except LlmLiteError as error:
        log("warning", str(error))


def identity(runner: Runner) -> on_disk.Identity:
    session = runner.session
    return on_disk.Identity(runner.model_file.identity, session.conditions)
