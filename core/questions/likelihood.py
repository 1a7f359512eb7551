"""Likelihood: how likely the model finds each token of a text, given those before it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.kv_cache.states import State
from llm_lite.core.messages import Event, StepRequest
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.interventions.changed_run import record
from llm_lite.core.questions.question import Parts, Question, RemoteText
from llm_lite.core.questions.replay import PART, Replay
from llm_lite.core.questions.running import parts_again
from llm_lite.core.questions.sites import logits_of
from llm_lite.core.records import about, replace

F32 = NDArray[np.float32]


class ReadLikelihood(StepRequest, frozen=True):
    """Ask for LikelihoodRead of tokens `first`..`last`-1, or up to the end."""

    first: Annotated[int, Meta(ge=0, description="Position of the first token.")] = 0
    last: Annotated[
        int | None, about("The position behind the last token; without it, the end.")
    ] = None


class LikelihoodRead(Event, frozen=True, eq=False):
    """The answer to ReadLikelihood: of each token, given those before it. Of the first token of a
    text nothing is known: nan, and a rank of -1."""

    first: Annotated[int, about("Position of the first token.")]
    log_probability: Annotated[F32, about("[n], in nats, before penalties and filters.")]
    entropy: Annotated[F32, about("[n], of all that could have stood there, in nats.")]
    rank: Annotated[NDArray[np.int32], about("[n], how many tokens are likelier.")]


def run(request: ReadLikelihood, replay: Replay) -> Parts[LikelihoodRead]:
    """Return the numbers. RequestError for positions that are not there, NotFiniteError where
    logits are no numbers."""
    last = replay.length if request.last is None else request.last
    if not 0 <= request.first < last <= replay.length:
        raise RequestError(
            f"positions {request.first} to {last - 1} are not in the cache, which holds "
            f"{replay.length} tokens"
        )
    tokens, begin = np.array(replay.tokens()), max(request.first, 1)
    known = np.full((2, last), np.nan, np.float32)
    rank = np.full(last, -1, np.int32)
    program = replay.executor.program
    sites = {"logits": logits_of(program.plans[0])}

    def run_part(start: int, state: State | None, step: Step) -> None:
        if start < begin - 1:  # for the states behind them
            record(replay, step, {})
            return
        logits = record(replay, _with_outputs(step), sites)["logits"]
        logits = replay.checked(logits, f"the logits of token {start}")
        behind = slice(start + 1, start + 1 + len(logits))
        shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        mine = log_p[np.arange(len(log_p)), tokens[behind]]
        known[:, behind] = mine, -(np.exp(log_p) * log_p).sum(axis=1)
        rank[behind] = (log_p > mine[:, None]).sum(axis=1)

    if begin < last:
        together = min(PART, program.max_outputs)
        for _ in parts_again(replay, begin - 1, last - 1, run_part, together):
            yield "executor"
    yield "anywhere"
    log_probability, entropy = known[:, request.first :]
    return LikelihoodRead(request.first, log_probability, entropy, rank[request.first :])


def _with_outputs(step: Step) -> Step:
    """Return the step with logits behind each of its tokens, which are of one sequence."""
    segments = tuple(replace(one, outputs=one.count) for one in step.segments)
    return replace(step, outputs=step.count, segments=segments)


def check_answer(request: ReadLikelihood, answer: LikelihoodRead, text: RemoteText) -> None:
    """Raise ValueError unless there are as many numbers as were asked for, each of its range."""
    ends = [min(length, request.last or length) for length in text.lengths]
    counts = {end - request.first for end in ends}
    count = len(answer.rank)
    if answer.first != request.first or count not in counts:
        raise ValueError(f"positions: expected {counts} from {request.first}, found {count}")
    unknown = np.arange(count) + request.first == 0
    for name in ("log_probability", "entropy"):
        values = getattr(answer, name)
        if values.shape != (count,) or (np.isfinite(values) == unknown).any():
            raise ValueError(f"{name}: expected {count} numbers, found {values.shape}")
    if (answer.log_probability > 1e-3).any() or ((answer.rank < 0) != unknown).any():
        raise ValueError("expected logarithms of probabilities, and ranks")


LIKELIHOOD = Question(
    "likelihood",
    ReadLikelihood,
    LikelihoodRead,
    run,
    "how likely its tokens are",
    ReadLikelihood(),
    check=check_answer,
    turn=2,
    of_pairs=True,
    runs_tokens=True,
)
