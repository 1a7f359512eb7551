"""Reads again what the chat's cache held, behind work that used its session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from llm_lite.core.engine.task_context import TaskContext
from llm_lite.core.errors import CancelledError
from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.generation.session import Session


@contextmanager
def cache_restored(context: TaskContext) -> Iterator[None]:
    """Work inside may change the gains, shifts and cache of the chat's session: on exit it has
    those from before.

    What the cache held is read again although the work was cancelled, since maps and all that is
    asked next are of it. The reading ends early only where the engine closes, or a command waits
    that reads or replaces the cache itself: that one goes on from the chunks that were read.
    """
    runner, session = context.runner, context.runner.session
    gains, shifts = runner.gains, session.changes.shifts
    tokens, version = session.tokens(), session.committed.version
    try:
        yield
    finally:
        if session.committed.version != version:
            runner.set_gains(gains, shifts, throughout=True)
            if tokens:
                _read(session, tokens, context)


def _read(session: Session, tokens: tuple[int, ...], context: TaskContext) -> None:
    """Read the tokens into the cache, afresh: what is reused has no queries, and maps of it would
    be empty."""

    def is_over() -> bool:
        return context.closing() or context.cache_wanted()

    prepared = session.prepare(tokens, PrefillOptions(afresh=True))
    with suppress(CancelledError):
        for _ in session.prefill_chunks(prepared, is_over):
            context.between()
