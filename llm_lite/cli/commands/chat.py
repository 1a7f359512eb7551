"""`llm-lite chat`: the answer streams to standard output, everything else to standard error."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from llm_lite.cli.conversation.conversation import TerminalConversation, checked, completes
from llm_lite.cli.engine_words import engine_options, given_sampling
from llm_lite.cli.template_values import values_of
from llm_lite.cli.terminal import interrupts
from llm_lite.cli.terminal.answering import generate, load
from llm_lite.cli.terminal.inputs import read_interventions
from llm_lite.cli.terminal.output import show_json
from llm_lite.core.errors import RequestError
from llm_lite.core.files.text_input import read_standard_input
from llm_lite.core.generation.grammars.grammar import check_grammar
from llm_lite.core.generation.sampling import check
from llm_lite.core.handles import WaitingEngine
from llm_lite.core.messages import (
    ChatMessage,
    Generate,
    LoadModel,
    ModelInfo,
    ModelLoaded,
    SamplingOptions,
)
from llm_lite.core.records import asdict

_LONGEST_INPUT = 64 << 20  # bytes; how much of it a model can take, the engine knows


def run(arguments: argparse.Namespace) -> int:
    chosen = given_sampling(arguments)
    sampling = SamplingOptions(**chosen)
    check(sampling)
    check_grammar(sampling)  # what is broken is told before a model is loaded
    if arguments.connect is None and (arguments.remote_model or arguments.api_key):
        raise RequestError("--model and --api-key are of a server: --connect URL is missing")
    engine, loaded = _local(arguments) if arguments.connect is None else _elsewhere(arguments)
    try:
        if arguments.prompt is None and sys.stdin.isatty() and not arguments.json:
            return _converse(engine, loaded, arguments, chosen)
        return _ask_once(engine, loaded.model, arguments, chosen)
    finally:
        engine.close()


def _local(arguments: argparse.Namespace) -> tuple[WaitingEngine, ModelLoaded]:
    from llm_lite.core.engine.engine import Engine

    engine = Engine(None)
    try:
        return engine, load(engine, LoadModel(arguments.model, engine_options(arguments)))
    except BaseException:
        engine.close()
        raise


def _elsewhere(arguments: argparse.Namespace) -> tuple[WaitingEngine, ModelLoaded]:
    """Connect to the server at the address. RequestError if nobody answers there, or it has no such
    model."""
    from llm_lite.core.remote.address import read_address, read_key
    from llm_lite.core.remote.client import Client, Exchange
    from llm_lite.core.remote.connecting import chosen, connect
    from llm_lite.core.remote.engine import RemoteEngine

    if arguments.model is not None:
        raise RequestError("MODEL is loaded here, --connect asks a server: give one of the two")
    key = read_key(arguments.api_key or os.environ.get("LLM_LITE_API_KEY", ""))
    client = Client(read_address(arguments.connect), key)
    server = connect(client, Exchange())
    engine = RemoteEngine(client, server, chosen(server, arguments.remote_model))
    return engine, engine.loaded()


def _ask_once(
    engine: WaitingEngine, model: ModelInfo, arguments: argparse.Namespace, chosen: dict[str, Any]
) -> int:
    if arguments.prompt is None:
        text, source = read_standard_input(_LONGEST_INPUT), "standard input"
    else:
        text, source = arguments.prompt, "--prompt"
    if not text.strip() and not arguments.raw:
        raise RequestError(f"{source} is empty: expected a question")
    system = checked(arguments.system or "", "--system")
    messages = (
        *((ChatMessage("system", system),) if system else ()),
        ChatMessage(
            "text" if completes(model, arguments.form, raw=arguments.raw) else "user",
            checked(text, source),
        ),
    )
    command = Generate(
        messages,
        model.sampling(**chosen),
        raw=arguments.raw,
        overflow=arguments.overflow or "stop",
        thinking=not arguments.no_thinking,
        values=values_of(arguments, model),
        interventions=read_interventions(arguments.interventions),
    )
    answer = generate(engine, command, shown=not arguments.json)
    if arguments.json and answer.finished is not None:
        stats = asdict(answer.finished.stats)
        show_json(
            {
                "text": answer.text,
                "thought": answer.thought,
                "tokens": answer.tokens,
                "prompt_tokens": stats["prompt_tokens"],
                "stop_reason": answer.finished.stop_reason,
                "stats": stats,
            }
        )
    return interrupts.CODE if answer.interrupted else 0


def _converse(
    engine: WaitingEngine,
    loaded: ModelLoaded,
    arguments: argparse.Namespace,
    chosen: dict[str, Any],
) -> int:
    talk = TerminalConversation(
        engine,
        loaded.model,
        loaded.executor,
        engine_options(arguments),
        chosen,
        form=arguments.form,
        overflow=arguments.overflow or "forget-middle",
        raw=arguments.raw,
        thinking=not arguments.no_thinking,
        values=values_of(arguments, loaded.model),
        interventions=read_interventions(arguments.interventions),
        system=checked(arguments.system or "", "--system"),
    )
    from llm_lite.cli.conversation.loop import converse  # an answer to one question needs no editor

    converse(talk)
    return 0
