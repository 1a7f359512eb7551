"""Waiting for the engine: answers are printed as they stream, warnings too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct, field

from llm_lite.cli.terminal import interrupts
from llm_lite.cli.terminal.output import say, shows_thoughts, stream, stream_thought, warn
from llm_lite.core.errors import DoesNotFitError, RequestError
from llm_lite.core.messages import (
    CacheRewritten,
    CacheStatus,
    CancelLoad,
    Command,
    Event,
    ExecutorChanged,
    FileDamaged,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    LoadFailed,
    LoadNeedsMemory,
    Logged,
    ModelLoaded,
    Stop,
    StopReason,
    Thinking,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import Split

_POLL_SECONDS = 0.2  # how long Ctrl-C may go unnoticed while nothing arrives

E = TypeVar("E")


class Engine(Protocol):
    """The engine that answers, in this process or on another machine."""

    def send(self, command: Command) -> None: ...

    def poll(self) -> list[Event]: ...

    def wait(self, timeout: float) -> list[Event]: ...

    def close(self, timeout: float = 2.0) -> object: ...


class HeardAnswer(Struct):
    text: str = ""  # what is said
    thought: str = ""  # of a continued answer with what it thought before
    thought_tokens: int = 0
    split: Split | None = None  # of what was heard, where the model marks thoughts
    tokens: list[int] = field(default_factory=list)
    finished: GenerationFinished | None = None
    rewritten: CacheRewritten | None = None  # where something was forgotten: what is left now
    cache: CacheStatus | None = None
    interrupted: bool = False


def generate(engine: Engine, command: Generate, *, shown: bool) -> HeardAnswer:
    """The answer, streamed to standard output as it comes where it is `shown`; Ctrl-C ends it.

    RequestError where it could not be made.
    """
    answer, stopping = HeardAnswer(), False
    with interrupts.noted() as interrupted:
        engine.send(command)
        while answer.finished is None:
            if interrupted.is_set() and not stopping:
                stopping = True
                engine.send(Stop())
            for event in engine.wait(_POLL_SECONDS):
                _take(answer, event, command, shown)
        answer.interrupted = interrupted.is_set()
    if answer.split is not None:
        _hear(answer, answer.split.ended(), shown)
    _finish(answer, answer.finished, shown)
    return answer


def _take(answer: HeardAnswer, event: Event, command: Generate, shown: bool) -> None:
    report(event)
    if getattr(event, "request", command.request) != command.request:  # that was given up
        return
    if isinstance(event, GenerationStarted):
        answer.split = _begun(event.thinking, command)
        answer.thought = answer.split.thought if answer.split else ""
    elif isinstance(event, TokenDecoded):
        answer.tokens.append(event.token)
        if answer.split is not None:
            _hear(answer, answer.split.fed(event.text), shown)
            answer.thought_tokens += answer.split.marked and answer.split.phase != "after"
            return
        answer.text += event.text
        if shown:
            stream(event.text)
    elif isinstance(event, CacheRewritten):
        answer.rewritten = event
    elif isinstance(event, CacheStatus):
        answer.cache = event
    elif isinstance(event, GenerationFinished):
        answer.finished = event


ENDINGS: dict[StopReason, str] = {  # that the reason's name does not tell
    "role": "the answer ends where the model began to write as somebody else",
    "repetition": "the answer was ended as it repeated itself; --no-repetition-guard, or "
    "/repetition-guard off, lets it go on",
}


def _begun(thinking: Thinking | None, command: Generate) -> Split | None:
    """How the answer is told apart; one that is continued may be within its thoughts."""
    last = command.messages[-1]
    if thinking is None or (command.continue_last and last.content):
        return None
    if not (command.continue_last and last.thought):
        return Split.of(thinking)
    return Split.of(replace(thinking, inside=True)).fed(last.thought)


def _hear(answer: HeardAnswer, split: Split, shown: bool) -> None:
    """Print what is new of the thoughts and of the visible text, and store it in `answer`."""
    thought, said = split.thought[len(answer.thought) :], split.visible_text[len(answer.text) :]
    if shown:
        stream_thought(thought)
        if said and not answer.text and split.thought and shows_thoughts():
            stream("\n\n")
        stream(said)
    answer.split, answer.thought, answer.text = split, split.thought, split.visible_text


def _finish(answer: HeardAnswer, finished: GenerationFinished, shown: bool) -> None:
    if finished.stop_reason == "error":
        raise RequestError(finished.message)
    if shown:
        stream("\n")  # now: what follows goes to another stream
    say(statistics(finished))
    if shown and answer.thought_tokens and not shows_thoughts():
        say(f"thoughts of {answer.thought_tokens} tokens are not in the output")
    if words := finished.message or ENDINGS.get(finished.stop_reason, ""):
        say(words)


def statistics(finished: GenerationFinished) -> str:
    stats = finished.stats
    return (
        f"[{finished.stop_reason}] {stats.prompt_tokens} prompt tokens "
        f"({stats.reused_tokens} reused) at {stats.prefill_tok_s:.1f} tok/s, "
        f"first token after {stats.ttft_ms:.0f} ms, "
        f"{stats.new_tokens} tokens at {stats.decode_tok_s:.1f} tok/s{_drafts(stats)}"
    )


def _drafts(stats: GenerationStats) -> str:
    if not stats.drafted:
        return ""
    by = " and ".join(f"{n.drafted} by {n.source}" for n in stats.drafted_by)
    accepted = f"{stats.accepted} of {stats.drafted} drafted tokens accepted"
    return f" in {stats.passes} passes, {accepted}" + (f" ({by})" if by else "")


def wait_for_model(engine: Engine) -> ModelLoaded:
    """Wait for the model. RequestError if it cannot be loaded."""
    return wait_for(engine, ModelLoaded)


def wait_for(engine: Engine, kind: type[E], *, cancel: bool = False) -> E:
    """Wait for the next event of a kind. RequestError for a LoadFailed before it. With `cancel`,
    Ctrl-C cancels the load."""
    if not cancel:
        return _next(engine, kind)
    with interrupts.noted() as interrupted:
        return _next(engine, kind, interrupted.is_set)


def _next(engine: Engine, kind: type[E], cancelled: Callable[[], bool] = lambda: False) -> E:
    cancelling, needs = False, None
    while True:
        if not cancelling and cancelled():
            cancelling = True
            engine.send(CancelLoad())
        for event in engine.wait(_POLL_SECONDS):
            report(event)
            if isinstance(event, LoadNeedsMemory):
                needs = event
            if isinstance(event, LoadFailed):
                if needs is not None:
                    raise DoesNotFitError(event.message, needs.fit, needs.others)
                raise RequestError(event.message)
            if isinstance(event, kind):
                return event


def report(event: Event) -> None:
    """Print the warnings that an event carries."""
    if isinstance(event, Logged) and event.level == "warning":
        warn(event.text)
    elif isinstance(event, FileDamaged):
        warn(event.message)
    elif isinstance(event, ExecutorChanged):
        warn(f"inference moved to {event.executor.device}: {event.executor.reason}")
