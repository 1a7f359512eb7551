"""An answer as an iterator: each item is what one step of the executor brought, or a forced token
that needed none.

Between two items the caller may do what it likes with the model, as long as the cache stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import CancelledError
from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation.guide import Guide
from llm_lite.core.generation.prefill import (
    PLAIN,
    Forgotten,
    Prefilled,
    PrefillOptions,
    Prepared,
)
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.generation.token_chooser import TokenChooser
from llm_lite.core.messages import SamplingOptions


class MaskPending(Struct, frozen=True):
    """Reports that the step is done, but not yet which tokens may come next: nothing was chosen."""


AnswerItem = Prefilled | Forgotten | MaskPending | TokenChoice


def prefill_steps(
    session: Session, prepared: Prepared, should_stop: StopCheck | None = None
) -> Iterator[Prefilled]:
    """Run what is left of a prompt, a chunk each time; ends early when stopped."""
    with suppress(CancelledError):  # the executor left a step half done
        yield from session.prefill_chunks(prepared, should_stop)


def answer_steps(
    session: Session,
    prepared: Prepared,
    chooser: TokenChooser,
    should_stop: StopCheck | None = None,
) -> Iterator[AnswerItem]:
    """Prefill, then tokens as they are chosen, the end token included.

    `prepared` is what the session made of `chooser.tokens`. Ends once the chooser is over, when the
    context is full and nothing may be forgotten, or when stopped. At most one step runs for each
    item; a token is decoded only when the caller asks for what follows it. RequestError and
    NotFiniteError as of `Session.prepare` and `TokenChooser.choose`.
    """
    with suppress(CancelledError):  # the executor left a step half done
        yield from _answer_steps(session, prepared, chooser, should_stop)


def generate_items(
    session: Session,
    prompt: Sequence[int],
    sampling: SamplingOptions,
    end_tokens: frozenset[int],
    should_stop: StopCheck | None = None,
    *,
    reading: PrefillOptions = PLAIN,
    guide: Guide | None = None,
    drafts: AnswerDrafts | None = None,
) -> Iterator[AnswerItem]:
    """Yield what `answer_steps` does, for an answer to a prompt that nobody has prepared. The guide
    is closed in the end. `drafts` count; left out, they are drafts of the session."""
    drafts = AnswerDrafts(end_tokens, session.speculation) if drafts is None else drafts
    vocabulary = session.executor.program.vocabulary
    chooser = TokenChooser(
        list(prompt), sampling, end_tokens, vocabulary, guide=guide, drafts=drafts
    )
    try:
        yield from answer_steps(session, session.prepare(prompt, reading), chooser, should_stop)
    finally:
        chooser.close()


def generate(
    session: Session,
    prompt: Sequence[int],
    sampling: SamplingOptions,
    end_tokens: frozenset[int],
    should_stop: StopCheck | None = None,
    reading: PrefillOptions = PLAIN,
) -> Iterator[TokenChoice]:
    """Yield the tokens of an answer, for callers with nothing to do between two steps."""
    for item in generate_items(session, prompt, sampling, end_tokens, should_stop, reading=reading):
        if isinstance(item, TokenChoice):
            yield item


def _answer_steps(
    session: Session, prepared: Prepared, chooser: TokenChooser, should_stop: StopCheck | None
) -> Iterator[AnswerItem]:
    session.check([*prepared.prompt, *chooser.forced_end], prepared.options)
    logits = np.empty(0, np.float32)
    chooser.prepare()  # beside the prompt
    for step in session.prefill_chunks(prepared, should_stop):
        logits = step.logits
        yield step
    while (forced := chooser.next_unscored()) is not None:
        yield forced
    while True:
        while not chooser.is_ready():
            yield MaskPending()  # meanwhile others may be served
        choice = chooser.choose(logits, session.tokens_ahead)
        is_last = chooser.is_over
        if not is_last and session.context_used == session.context:
            is_last = not session.try_make_room(prepared.options)
            if not is_last:
                yield Forgotten()
        yield choice
        if is_last:
            return
        chooser.prepare()
        logits = _decoded(session, chooser, should_stop)


def _decoded(
    session: Session, chooser: TokenChooser, should_stop: StopCheck | None
) -> NDArray[np.float32]:
    """Decode the next token, with drafts behind it; logits float32 [V] of what follows."""
    token = chooser.tokens[-1]
    if session.is_ahead(token):
        return session.decode(token, should_stop)
    drafted = chooser.propose(session.most_drafted, should_stop)
    logits = session.decode(token, should_stop, drafted)
    seconds, is_alone = session.step_seconds, not session.had_company
    chooser.drafts.note_step(len(drafted), seconds, is_alone=is_alone)
    return logits
