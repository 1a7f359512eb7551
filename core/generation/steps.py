"""An answer as an iterator: each item is what one step of the executor brought, or a forced token
that needed none.

Between two items the caller may do what it likes with the model, as long as the cache stays.
"""

from __future__ import annotations

import math
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
from llm_lite.core.generation.sampling import Sampler, TokenChoice, check_bias, score_token
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.answer_drafts import AnswerDrafts
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace


class MaskPending(Struct, frozen=True):
    """Reports that the step is done, but not yet which tokens may come next: nothing was chosen."""


AnswerItem = Prefilled | Forgotten | MaskPending | TokenChoice
PATIENCE = 0.01  # seconds in which an honest mask is there after a step


def prefill_steps(
    session: Session, prepared: Prepared, should_stop: StopCheck | None = None
) -> Iterator[Prefilled]:
    """Run what is left of a prompt, a chunk each time; ends early when stopped."""
    with suppress(CancelledError):  # the executor left a step half done
        yield from session.prefill_chunks(prepared, should_stop)


def answer_steps(
    session: Session,
    prepared: Prepared,
    sampling: SamplingOptions,
    end_tokens: frozenset[int],
    forced: Sequence[int] = (),
    should_stop: StopCheck | None = None,
    guide: Guide | None = None,
    drafts: AnswerDrafts | None = None,
) -> Iterator[AnswerItem]:
    """Prefill, then tokens as they are chosen, the end token included.

    Ends after an end token, after `max_new_tokens`, when the context is full and nothing may be
    forgotten, or when stopped. At most one step runs for each item; a token is decoded only when
    the caller asks for what follows it. The answer begins with `forced`: all but its last token
    are at the end of the prompt already, and the last is only scored. `guide` says which tokens
    may come, and hears those that do; it is closed in the end. `drafts` are the answer's, where
    it had some before; left out: new ones, where the session has a speculation. RequestError and
    NotFiniteError as of `Session.prepare`, `Sampler.choose` and `Guide`.
    """
    try:
        with suppress(CancelledError):  # the executor left a step half done
            yield from _answer_steps(
                session,
                prepared,
                sampling,
                end_tokens,
                forced,
                should_stop,
                guide,
                drafts or AnswerDrafts(end_tokens, session.speculation),
            )
    finally:
        if guide is not None:
            guide.close()


def generate(
    session: Session,
    prompt: Sequence[int],
    sampling: SamplingOptions,
    end_tokens: frozenset[int],
    should_stop: StopCheck | None = None,
    reading: PrefillOptions = PLAIN,
    guide: Guide | None = None,
) -> Iterator[TokenChoice]:
    """Yield the tokens of an answer, for callers with nothing to do between two steps."""
    prepared = session.prepare(prompt, reading)
    for item in answer_steps(session, prepared, sampling, end_tokens, (), should_stop, guide):
        if isinstance(item, TokenChoice):
            yield item


def _answer_steps(
    session: Session,
    prepared: Prepared,
    sampling: SamplingOptions,
    end_tokens: frozenset[int],
    forced: Sequence[int],
    should_stop: StopCheck | None,
    guide: Guide | None,
    drafts: AnswerDrafts,
) -> Iterator[AnswerItem]:
    sampler = Sampler(sampling, guide.token_bytes if guide else None)
    check_bias(sampling, session.executor.program.vocabulary)
    session.check([*prepared.prompt, *forced[-1:]], prepared.options)
    tokens, logits = list(prepared.prompt), np.empty(0, np.float32)
    if guide is not None and not forced:
        guide.prepare()  # beside the prompt
    for step in session.prefill_chunks(prepared, should_stop):
        logits = step.logits
        yield step
    yield from (TokenChoice(token, math.nan) for token in forced[:-1])
    if forced:
        choice, produced = _scored(guide, logits, forced), 0
    else:
        yield from _waits(guide)
        choice, produced = choose_next(sampler, guide, logits, tokens), 1
    while True:
        last = choice.token in end_tokens or produced == sampling.max_new_tokens
        if not last and session.context_used == session.context:
            last = not session.make_room(prepared.options)
            if not last:
                yield Forgotten()
        if accepted := session.is_ahead(choice.token):
            drafts.note_accepted()
        rejected = () if accepted else session.tokens_ahead
        yield replace(choice, accepted=accepted, rejected=rejected)
        if last:
            return
        tokens.append(choice.token)
        if guide is not None:
            guide.prepare()
        logits = _decoded(session, tokens, drafts, sampling.max_new_tokens - produced, should_stop)
        yield from _waits(guide)
        choice, produced = choose_next(sampler, guide, logits, tokens), produced + 1


def _decoded(
    session: Session,
    tokens: list[int],
    drafts: AnswerDrafts,
    left: int,
    should_stop: StopCheck | None,
) -> NDArray[np.float32]:
    """Decode the last token, with drafts of at most `left` tokens that may still be chosen; logits
    float32 [V] of what follows."""
    if session.is_ahead(tokens[-1]):
        return session.decode(tokens[-1], should_stop)
    drafted = drafts.propose(tokens, min(session.most_drafted, left - 1), should_stop)
    logits = session.decode(tokens[-1], should_stop, drafted)
    drafts.note_step(len(drafted), session.step_seconds, is_alone=not session.had_company)
    return logits


def _waits(guide: Guide | None) -> Iterator[MaskPending]:
    """Yield until it is known what may come next; meanwhile others may be served."""
    while guide is not None and not guide.is_ready(PATIENCE):
        yield MaskPending()


def _scored(guide: Guide | None, logits: NDArray[np.float32], forced: Sequence[int]) -> TokenChoice:
    """Return the last of the forced tokens, as if it had been chosen."""
    if guide is None:
        return score_token(logits, forced[-1])
    guide.take_all(forced[:-1])
    choice = score_token(logits, forced[-1], guide.mask())
    guide.take(forced[-1])
    return choice


def choose_next(
    sampler: Sampler, guide: Guide | None, logits: NDArray[np.float32], tokens: Sequence[int]
) -> TokenChoice:
    """Choose what follows `tokens` and feed the guide. Errors as `Sampler.choose` and `Guide`."""
    if guide is None:
        return sampler.choose(logits, tokens)
    due = guide.due()
    choice = (
        sampler.choose(logits, tokens, guide.mask()) if due is None else sampler.score(logits, due)
    )
    guide.take(choice.token)
    return choice
