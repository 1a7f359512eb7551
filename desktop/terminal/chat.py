"""`llm-lite chat`: the answer streams to standard output, everything else to standard error."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from core.engine import Engine
from core.errors import LlmLiteError, RequestError
from core.messages import (
    ChatMessage,
    Event,
    ExecutorChanged,
    FileDamaged,
    Generate,
    GenerationFinished,
    LoadFailed,
    LoadModel,
    Logged,
    ModelLoaded,
    SamplingOptions,
    Stop,
    TokenDecoded,
)
from desktop.cli import engine_options, sampling_options

_POLL_SECONDS = 0.2  # how long Ctrl-C may go unnoticed while nothing arrives


@dataclass(slots=True)
class _Answer:
    finished: GenerationFinished
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    interrupted: bool = False


def run(arguments: argparse.Namespace) -> int:
    sampling = sampling_options(arguments)
    engine = Engine(None)
    try:
        engine.send(LoadModel(arguments.model, engine_options(arguments)))
        loaded = _wait_for_model(engine)
        if arguments.prompt is None and sys.stdin.isatty() and not arguments.json:
            return _converse(engine, loaded, arguments, sampling)
        return _ask_once(engine, arguments, sampling)
    finally:
        engine.close()


def _ask_once(engine: Engine, arguments: argparse.Namespace, sampling: SamplingOptions) -> int:
    if arguments.prompt is None:
        text, source = _standard_input(), "standard input"
    else:
        text, source = arguments.prompt, "--prompt"
    if not text.strip() and not arguments.raw:
        raise RequestError(f"{source} is empty: expected a question")
    messages = (*_system(arguments), ChatMessage("user", _checked(text, source)))
    answer = _generate(engine, 1, messages, sampling, arguments, show=not arguments.json)
    if arguments.json:
        stats = asdict(answer.finished.stats)
        print(
            json.dumps(
                {
                    "text": answer.text,
                    "tokens": answer.tokens,
                    "prompt_tokens": stats["prompt_tokens"],
                    "stop_reason": answer.finished.stop_reason,
                    "stats": stats,
                },
                ensure_ascii=False,
                allow_nan=False,
            )
        )
    return 130 if answer.interrupted else 0


def _converse(
    engine: Engine, loaded: ModelLoaded, arguments: argparse.Namespace, sampling: SamplingOptions
) -> int:
    _say(f"{loaded.model.name} on {loaded.executor.device}. Ctrl-C stops an answer, Ctrl-D leaves.")
    messages: tuple[ChatMessage, ...] = _system(arguments)
    request = 0
    while True:
        try:
            text = input("> ")
        except (EOFError, KeyboardInterrupt):
            _say("")
            return 0
        except UnicodeDecodeError as error:
            _say(f"llm-lite: the line is not valid UTF-8 at byte {error.start}")
            continue
        if not text.strip():
            continue
        request += 1
        asked = (*messages, ChatMessage("user", _checked(text, "the line")))
        try:
            answer = _generate(engine, request, asked, sampling, arguments, show=True)
        except LlmLiteError as error:
            _say(f"llm-lite: {error}")
            continue
        messages = (*asked, ChatMessage("assistant", answer.text, tuple(answer.tokens)))


def _generate(
    engine: Engine,
    request: int,
    messages: tuple[ChatMessage, ...],
    sampling: SamplingOptions,
    arguments: argparse.Namespace,
    *,
    show: bool,
) -> _Answer:
    text: list[str] = []
    tokens: list[int] = []
    stopping = False
    with _interrupts() as interrupted:
        engine.send(Generate(request, messages, sampling, raw=arguments.raw))
        while True:
            if interrupted.is_set() and not stopping:
                stopping = True
                engine.send(Stop())
            for event in engine.wait(_POLL_SECONDS):
                _report(event)
                if isinstance(event, TokenDecoded):
                    text.append(event.text)
                    tokens.append(event.token)
                    if show:
                        print(event.text, end="", flush=True)
                elif isinstance(event, GenerationFinished):
                    return _finish(event, "".join(text), tokens, interrupted.is_set(), show=show)


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """The first Ctrl-C only sets the event, so that no token is lost; the second one interrupts."""
    pressed = threading.Event()

    def note(_signal: int, _frame: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _finish(
    event: GenerationFinished, text: str, tokens: list[int], interrupted: bool, *, show: bool
) -> _Answer:
    if event.stop_reason == "error":
        raise RequestError(event.message)
    if show:
        print(flush=True)
    stats = event.stats
    _say(
        f"[{event.stop_reason}] {stats.prompt_tokens} prompt tokens ({stats.reused_tokens} reused) "
        f"at {stats.prefill_tok_s:.1f} tok/s, first token after {stats.ttft_ms:.0f} ms, "
        f"{stats.new_tokens} tokens at {stats.decode_tok_s:.1f} tok/s"
    )
    if event.message:
        _say(event.message)
    return _Answer(event, text, tokens, interrupted)


def _wait_for_model(engine: Engine) -> ModelLoaded:
    while True:
        for event in engine.wait(_POLL_SECONDS):
            _report(event)
            if isinstance(event, LoadFailed):
                raise RequestError(event.message)
            if isinstance(event, ModelLoaded):
                return event


def _report(event: Event) -> None:
    if isinstance(event, Logged) and event.level == "warning":
        _say(f"llm-lite: {event.text}")
    elif isinstance(event, FileDamaged):
        _say(f"llm-lite: {event.message}")
    elif isinstance(event, ExecutorChanged):
        _say(f"llm-lite: inference moved to {event.executor.device}: {event.executor.reason}")


def _system(arguments: argparse.Namespace) -> tuple[ChatMessage, ...]:
    return (
        (ChatMessage("system", _checked(arguments.system, "--system")),) if arguments.system else ()
    )


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise RequestError(f"standard input is not valid UTF-8 at byte {error.start}") from None


def _checked(text: str, source: str) -> str:
    """Bytes that are no UTF-8 reach Python as lone surrogates: refuse them with a sentence."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{source} is not valid UTF-8 at character {error.start}") from None
    return text


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
