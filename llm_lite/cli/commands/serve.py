"""`llm-lite serve`: other programs ask a model here, until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack

from llm_lite.cli.engine_words import engine_options
from llm_lite.cli.serving_words import KEY_VARIABLE, server_config, serving_options
from llm_lite.cli.terminal import interrupts
from llm_lite.cli.terminal.answering import execute, load, report
from llm_lite.cli.terminal.output import finish, note, print_lines, show, tell, warn
from llm_lite.core.engine.engine import Engine
from llm_lite.core.errors import RequestError
from llm_lite.core.loading import loader
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.encoder_starting import model_and_name, start_runner
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import (
    EngineOptions,
    Event,
    ExecutorChanged,
    LoadModel,
    Logged,
    ServingChanged,
    StartServing,
)
from llm_lite.core.records import replace
from llm_lite.core.serving.direct_services import EncoderService, TargetService
from llm_lite.server.config import ServerConfig, network_addresses
from llm_lite.server.serve import Server

_POLL_SECONDS = 0.2  # how long Ctrl-C may go unnoticed


def run(arguments: argparse.Namespace) -> int:
    config, options = server_config(arguments), serving_options(arguments)
    model, name = model_and_name(arguments.model)
    if model is not None and not model.continues:
        return _serve_directly(arguments, name, config, options)
    engine = Engine(None)
    server = Server(engine.service, config, print_lines, note, lambda: name)
    try:
        server.start()  # an address that cannot be had is told before a model is loaded
        device = load(
            engine, LoadModel(arguments.model, _engine_options(arguments))
        ).executor.device
        execute(engine, options)
        _introduce(server, config, engine)
        with interrupts.noted() as interrupted:
            while not interrupted.is_set():
                for one in engine.wait(_POLL_SECONDS):
                    _take(one.event, device)
                    if isinstance(one.event, ExecutorChanged):
                        device = one.event.executor.device
        note("")
        note("the server has ended")
        return 0
    finally:
        server.stop()
        engine.close()


def _engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """Return the engine's options: `serving_options` says whether answers are drafted, and the
    engine loads the model that drafts."""
    options = engine_options(arguments)
    return options if options.draft_model else replace(options, speculate="off")


def _serve_directly(
    arguments: argparse.Namespace, name: str, config: ServerConfig, options: StartServing
) -> int:
    """Serve an encoder's vectors of texts, or an encoder-decoder's targets, without an engine."""
    service: EncoderService | TargetService | None = None
    with ExitStack() as stack:
        server = Server(lambda: service, config, print_lines, note, lambda: name)
        server.start()
        stack.callback(server.stop)
        file = loader.open_model(arguments.model, lambda *_: None, warn)
        stack.callback(file.close)
        runner = start_runner(file, _engine_options(arguments), None, lambda *_: None)
        stack.callback(runner.close)
        tell(runner.note)
        if isinstance(runner, Runner):
            runner.report_drafts(warn)
        if isinstance(runner, EncoderRunner):
            service = EncoderService(runner)
        else:
            service = TargetService(runner, options.most_waiting, print_lines)
            stack.callback(service.close)
        stack.callback(server.stop)  # before what it asks is closed
        _introduce_directly(server, config, service)
        with interrupts.noted() as interrupted:
            while not interrupted.is_set():
                time.sleep(_POLL_SECONDS)
        note("")
        note("the server ends")
    return 0


def _take(event: Event, device: str) -> None:
    """Tell what a person should know; `device` is where the model ran."""
    if isinstance(event, ExecutorChanged) and event.executor.device == device:
        note(f"the weights are {event.executor.mode} now, activations {event.executor.activations}")
    else:
        report(event)
    if isinstance(event, Logged) and event.level == "error":
        print_lines(event.text)
    if isinstance(event, ServingChanged) and not event.is_on:
        raise RequestError(event.problem or "serving has ended")


def _introduce(server: Server, config: ServerConfig, engine: Engine) -> None:
    service = engine.service()
    if service is None:
        raise RequestError("serving has ended")
    status = service.status()
    show(f"{status.model} is served at {server.address}")
    if others := [f"http://{host}:{server.port}" for host in _others(config)]:
        show(f"Other machines reach it at {' or '.join(others)}")
    show(f"A browser finds a page to chat there; programs take {server.address}/v1 as base URL")
    answers = _counted(status.parallel, "answer")
    waiting = _counted(status.most_waiting, "request")
    show(
        f"{answers} at once of up to {status.context:,} tokens, {waiting} may wait; Ctrl-C ends it"
    )
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    _show_example(f"{server.address}/v1/chat/completions", config, body)


def _introduce_directly(
    server: Server, config: ServerConfig, service: EncoderService | TargetService
) -> None:
    show(f"{service.model.name} is served at {server.address}")
    context = f"{service.status().context:,}"
    if isinstance(service, EncoderService):
        show(
            f"an encoder: vectors of {service.model.width} numbers, of the first {context} tokens "
            "of a text; Ctrl-C ends it"
        )
        _show_example(f"{server.address}/v1/embeddings", config, {"input": ["Hello", "Good day"]})
        return
    show(
        f"an encoder-decoder: targets of sources of up to {context} tokens, one at a time, "
        f"{_counted(service.status().most_waiting, 'request')} may wait; Ctrl-C ends it"
    )
    body = {"prompt": "Where is the station?", "max_tokens": -1}
    _show_example(f"{server.address}/v1/completions", config, body)


def _show_example(address: str, config: ServerConfig, body: Mapping[str, object]) -> None:
    key = f' -H "Authorization: Bearer ${KEY_VARIABLE}"' if config.api_key else ""
    show(f"curl {address} -H 'Content-Type: application/json'{key} -d '{json.dumps(body)}'")
    finish()
    if not config.api_key and not config.is_loopback:
        warn(f"everybody who can reach {config.host} may ask: no key is demanded")


def _others(config: ServerConfig) -> tuple[str, ...]:
    """Return the addresses for other machines, if the server listens on all addresses."""
    return network_addresses() if config.host in ("0.0.0.0", "::") else ()


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
