"""Conversations' caches, kept in files from one day to another, without waiting for a disk.

The engine's thread copies what the cache holds and goes on; another one writes the copy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import CancelledError, FileError, LlmLiteError, RequestError
from llm_lite.core.files.private import private_folder
from llm_lite.core.generation.answer import Emit, cache_status
from llm_lite.core.generation.prompt import Encoded, check_size, encode, is_open_answer
from llm_lite.core.generation.token_texts import labelled, lacks_tokens
from llm_lite.core.handles import Handle
from llm_lite.core.kv_cache import on_disk
from llm_lite.core.kv_cache.contents import Prefix, longest_usable
from llm_lite.core.kv_cache.prefix_pool import LEAST
from llm_lite.core.kv_cache.provenance import common
from llm_lite.core.loading.runner import Runner
from llm_lite.core.memory import available_bytes
from llm_lite.core.messages import (
    CacheKept,
    CheckKept,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    Level,
    ResumeKept,
    Unfit,
)
from llm_lite.core.records import replace

SHARE = 0.5  # of the memory that is free, which a copy may take
CLOSING_SECONDS = 0.7  # for a file that is being written when the program ends


class _Copy(Struct):
    handle: Handle
    command: KeepConversation
    prefix: Prefix
    identity: on_disk.Identity
    begun: float
    held_up: float


class KeptConversations:
    """Keeps and resumes conversations' caches, on the engine's thread; `finish` is for when the
    program ends."""

    def __init__(self, emit: Emit, log: Callable[[Level, str], None]) -> None:
        self._emit = emit
        self._log = log
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._known: dict[str, tuple[on_disk.Identity, tuple[int, ...]]] = {}  # what a file has

    def keep(self, runner: Runner | None, handle: Handle, command: KeepConversation) -> None:
        """Copy what the cache holds and have it written; the handle ends then."""
        if runner is None or runner.session.context_used < LEAST:
            handle.end()
            return
        begun = time.perf_counter()
        try:
            identity = cache_transfer.identity(runner)
            made = runner.session.cache.contents.conditions
            if made:  # the gains in force may be those of the conversation that comes next
                changes = made[0].interventions
                now = replace(identity.conditions, interventions=changes)
                identity = replace(identity, conditions=now)
            holds = (identity, runner.session.tokens())
            if self._known.get(command.path) == holds and Path(command.path).is_file():
                handle.end()
                return
            problem = self._obstacle(runner, command)
            if problem:
                self._log("info", f"the cache was not kept: {problem}")
                handle.end()
                return
            prefix = runner.session.copy_prefix()
        except LlmLiteError as error:  # the device gives it no more; the model's file has changed
            handle.end(str(error))
            return
        held_up = time.perf_counter() - begun
        self._known[command.path] = holds
        copy = _Copy(handle, command, prefix, identity, begun, held_up)
        self._thread = threading.Thread(target=self._write, args=(copy,), name="keeping")
        self._thread.daemon = True  # a disk that hangs holds up nobody
        self._thread.start()

    def check(self, runner: Runner | None, command: CheckKept, emit: Emit) -> None:
        """Emit how much of the conversation the file has, or why it cannot be used."""
        if runner is None:
            return
        try:
            emit(KeptChecked(*self._worth(runner, command)))
        except LlmLiteError as error:
            emit(KeptChecked(unfit=_unfit(error, command.path), problem=_problem(error)))

    def _worth(self, runner: Runner, command: CheckKept) -> tuple[int, int, int, Unfit]:
        """Return tokens in common, tokens of the conversation, bytes of the file. LlmLiteError."""
        size, path = _size(command.path), Path(command.path)
        identity, vocabulary = cache_transfer.identity(runner), runner.model_info.vocabulary
        cache = runner.session.cache
        prefix = on_disk.load(path, identity, cache, vocabulary, summed=False)
        encoded = _encoded(runner, command)
        total = len(encoded.ids)
        same = common(prefix.contents.tokens, encoded.ids, total)
        tokens = longest_usable(prefix, cache.layers, same)
        if tokens < LEAST or prefix.contents.gaps:
            return 0, total, size, "beginning"
        if len(prefix.contents.tokens) > runner.session.context:
            return 0, total, size, "context"
        return tokens, total, size, ""

    def resume(self, runner: Runner | None, command: ResumeKept, emit: Emit) -> None:
        """Bring the file's rows into the cache."""
        if runner is None:
            emit(KeptResumed(unfit="failed", problem="no model is loaded"))
            return
        begun = time.perf_counter()
        session, path = runner.session, Path(command.path)
        try:
            encoded = _encoded(runner, command)
            identity = cache_transfer.identity(runner)
            cache_transfer.open_saved(runner, path, identity, command.conversation)
        except LlmLiteError as error:
            emit(KeptResumed(unfit=_unfit(error, command.path), problem=_problem(error)))
            return
        self._known[command.path] = (identity, session.tokens())
        same = common(session.tokens(), encoded.ids, len(encoded.ids))
        session.forget_after(session.cache.longest_usable(same))
        if session.tokens() != tuple(encoded.ids[: session.context_used]):
            session.clear()  # what was forgotten within, or a window that can not go back
        whole, used = labelled(runner.model_file.tokenizer, encoded), session.context_used
        is_cut, seconds = lacks_tokens(whole, used, command.messages), time.perf_counter() - begun
        unfit: Unfit = "" if used else "beginning"
        emit(KeptResumed(whole[:used], len(whole), seconds, unfit, is_cut=is_cut))
        self._emit(cache_status(session, session.context_used))

    def finish(self) -> None:
        """Wait a moment for what is being written; then give it up."""
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)
            self._stop.set()

    def _obstacle(self, runner: Runner, command: KeepConversation) -> str:
        """Return why nothing can be kept now; "" if it can."""
        if runner.session.cache.gaps:
            return "something of the conversation was forgotten"
        size = runner.session.cache.copy_bytes
        if size > command.most_bytes:
            return f"it takes {size >> 20} MiB, more than all of them may"
        free = available_bytes()
        if free is not None and size > SHARE * free:
            return "too little memory is free to copy it"
        if self._thread is not None and self._thread.is_alive():
            return "another one is still being written"
        return ""

    # On the thread that writes

    def _write(self, copy: _Copy) -> None:
        command = copy.command
        path, size, problem = Path(command.path), 0, ""
        try:
            private_folder(path.parent)
            size = on_disk.save(path, copy.prefix, copy.identity, self._stop.is_set)
        except (CancelledError, RequestError) as error:
            self._log("info", f"the cache was not kept: {error}")
            self._known.pop(command.path, None)
            copy.handle.end()
            return
        except LlmLiteError as error:
            problem = f"The conversation's cache could not be kept: {error}"
        except Exception as error:
            problem = f"The conversation's cache could not be kept: {error!r}"
        if problem:
            self._known.pop(command.path, None)
            copy.handle.end(problem)
            return
        count, seconds = len(copy.prefix.contents.tokens), time.perf_counter() - copy.begun
        kept = CacheKept(count, size, copy.identity.model, copy.held_up, seconds)
        copy.handle.finish(kept)


def _encoded(runner: Runner, command: CheckKept | ResumeKept) -> Encoded:
    """Encode the conversation as a `Read` of it does."""
    messages, file = command.messages, runner.model_file
    check_size(file.tokenizer, messages, runner.session.context)
    continue_last = is_open_answer(messages)
    return encode(file, messages, continue_last, command.thinking, command.tools, command.values)


def _problem(error: LlmLiteError) -> str:
    """Return the error's sentence without the path, which tells a person nothing."""
    return error.problem if isinstance(error, FileError) else str(error)


def _unfit(error: LlmLiteError, path: str) -> Unfit:
    """Return why a kept file is unfit; damage is of the kept file, not of the model's."""
    if isinstance(error, on_disk.OtherCacheError):
        return error.what
    return "damaged" if isinstance(error, FileError) and error.path == path else "failed"


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError as error:
        raise FileError(path, "is not there any more") from error
