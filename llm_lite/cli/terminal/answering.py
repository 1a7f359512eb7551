"""Waiting for the engine: answers are printed as they stream, warnings too."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

from msgspec import Struct, field

from llm_lite.cli.terminal import interrupts
from llm_lite.cli.terminal.output import note, shows_thoughts, stream, stream_thought, warn
from llm_lite.core.errors import DoesNotFitError, RequestError
from llm_lite.core.handles import Handle, WaitingEngine
from llm_lite.core.messages import (
    CacheRewritten,
    CacheStatus,
    Command,
    Ended,
    Event,
    ExecutorChanged,
    FileDamaged,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    LoadModel,
    LoadNeedsMemory,
    Logged,
    ModelLoaded,
    StopReason,
    Thinking,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import Split

_POLL_SECONDS = 0.2  # how long Ctrl-C may go unnoticed while nothing arrives


class StreamedAnswer(Struct):
    text: str = ""  # what is said
    thought: str = ""  # of a continued answer with what it thought before
    thought_tokens: int = 0
    split: Split | None = None  # of what was heard, where the model marks thoughts
    tokens: list[int] = field(default_factory=list)
    finished: GenerationFinished | None = None  # at its end
    rewritten: CacheRewritten | None = None  # where something was forgotten: what is left now
    cache: CacheStatus | None = None
    interrupted: bool = False


class _Cancelling:
    """Cancels a command at Ctrl-C, and says so where that takes long: a step that an executor of a
    package or a driver hangs in ends for nobody."""

    def __init__(self, interrupted: interrupts.Noted | None, handle: Handle) -> None:
        self._interrupted, self._handle = interrupted, handle
        self._since: float | None = None
        self._warned = False

    def poll(self) -> None:
        if self._interrupted is None or not self._interrupted.is_set():
            return
        if self._since is None:
            self._since = time.monotonic()
            self._handle.cancel()
        elif not self._warned and time.monotonic() - self._since > interrupts.PATIENCE:
            self._warned = True
            warn(
                "the step that is running does not end (does its executor hang?); Ctrl-C ends the "
                f"program, and once more after {interrupts.PATIENCE:g} seconds leaves at once"
            )


def generate(engine: WaitingEngine, command: Generate, *, shown: bool) -> StreamedAnswer:
    """The answer, streamed to standard output as it comes where it is `shown`; Ctrl-C ends it.

    RequestError where it could not be made.
    """
    answer, end = StreamedAnswer(), None
    with interrupts.noted() as interrupted:
        handle = engine.submit(command)
        cancelling = _Cancelling(interrupted, handle)
        while end is None:
            cancelling.poll()
            for one in engine.wait(_POLL_SECONDS):
                report(one.event)
                if one.command is command:
                    _take(answer, one.event, command, shown)
                    end = one.event if isinstance(one.event, Ended) else end
                elif isinstance(one.event, CacheStatus):
                    answer.cache = one.event
        answer.interrupted = interrupted.is_set()
    if answer.split is not None:
        _print_new(answer, answer.split.ended(), shown)
    if answer.finished is None:
        if not end.unwanted:
            raise RequestError(end.problem)
        answer.finished = GenerationFinished("stopped", GenerationStats())  # before it began
    _finish(answer, answer.finished, shown)
    return answer


def _take(answer: StreamedAnswer, event: Event, command: Generate, shown: bool) -> None:
    if isinstance(event, GenerationStarted):
        answer.split = _begun(event.thinking, command)
        answer.thought = answer.split.thought if answer.split else ""
    elif isinstance(event, TokenDecoded):
        answer.tokens.append(event.token)
        if answer.split is not None:
            _print_new(answer, answer.split.fed(event.text), shown)
            answer.thought_tokens += answer.split.marked and answer.split.phase != "after"
            return
        answer.text += event.text
        if shown:
            stream(event.text)
    elif isinstance(event, CacheRewritten):
        answer.rewritten = event
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


def _print_new(answer: StreamedAnswer, split: Split, shown: bool) -> None:
    """Print what is new of the thoughts and of the visible text, and store it in `answer`."""
    thought, visible = split.thought[len(answer.thought) :], split.visible_text[len(answer.text) :]
    if shown:
        stream_thought(thought)
        if visible and not answer.text and split.thought and shows_thoughts():
            stream("\n\n")
        stream(visible)
    answer.split, answer.thought, answer.text = split, split.thought, split.visible_text


def _finish(answer: StreamedAnswer, finished: GenerationFinished, shown: bool) -> None:
    if shown:
        stream("\n")  # now: what follows goes to another stream
    note(statistics(finished))
    if shown and answer.thought_tokens and not shows_thoughts():
        note(f"thoughts of {answer.thought_tokens} tokens are not in the output")
    if words := finished.message or ENDINGS.get(finished.stop_reason, ""):
        note(words)


def statistics(finished: GenerationFinished) -> str:
    stats = finished.stats
    return (
        f"[{finished.stop_reason}] {stats.prompt_tokens} prompt tokens "
        f"({stats.reused_tokens} reused) at {stats.prefill_tok_s:.1f} tok/s, "
        f"first token after {stats.ttft_ms:.0f} ms, "
        f"{stats.new_tokens} tokens at {stats.decode_tok_s:.1f} tok/s{_drafts(stats)}{_disk(stats)}"
    )


def _disk(stats: GenerationStats) -> str:
    each = stats.disk_bytes_per_token
    return f", {each / 2**20:.1f} MiB a token from the disk" if each else ""


def _drafts(stats: GenerationStats) -> str:
    if not stats.drafted:
        return ""
    by = " and ".join(f"{n.drafted} by {n.source}" for n in stats.drafted_by)
    accepted = f"{stats.accepted} of {stats.drafted} drafted tokens accepted"
    return f" in {stats.passes} passes, {accepted}" + (f" ({by})" if by else "")


def report(event: Event) -> None:
    """Print the warnings that an event carries."""
    if isinstance(event, Logged) and event.level == "warning":
        warn(event.text)
    elif isinstance(event, FileDamaged):
        warn(event.message)
    elif isinstance(event, ExecutorChanged):
        warn(f"inference moved to {event.executor.device}: {event.executor.reason}")


def execute(
    engine: WaitingEngine,
    command: Command,
    *,
    cancel: bool = False,
    take: Callable[[Event], None] = report,
) -> list[Event]:
    """Give the engine a command, wait for its end and return its events but the last, which says
    that it ended. All that the engine reports until then is given to `take`. RequestError where the
    command could not be carried out. With `cancel`, Ctrl-C ends it."""
    with interrupts.noted() if cancel else nullcontext() as interrupted:
        handle = engine.submit(command)
        cancelling = _Cancelling(interrupted, handle)
        events = list[Event]()
        while not (events and isinstance(events[-1], Ended)):
            cancelling.poll()
            for one in engine.wait(_POLL_SECONDS):
                take(one.event)
                if one.command is command:
                    events.append(one.event)
    try:
        handle.result()
    except RequestError as error:
        for event in events:
            if isinstance(event, LoadNeedsMemory):
                raise DoesNotFitError(str(error), event.fit, event.others) from None
        raise
    return events[:-1]


def load(engine: WaitingEngine, command: LoadModel, *, cancel: bool = False) -> ModelLoaded:
    """Load a model. RequestError where it cannot be."""
    events = execute(engine, command, cancel=cancel)
    return next(event for event in events if isinstance(event, ModelLoaded))
