"""The words of `llm-lite serve`, and what they come to."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING

from llm_lite.cli.engine_words import speculation
from llm_lite.core.errors import RequestError
from llm_lite.core.messages import StartServing
from llm_lite.core.plain_text import quote

if TYPE_CHECKING:
    from llm_lite.server.config import ServerConfig

KEY_VARIABLE = "LLM_LITE_API_KEY"
_LONGEST_KEY = 512  # characters
_ORIGIN = re.compile(r"\*|https?://[^/\s@]{1,255}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")


def add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL")
    serving = parser.add_argument_group("serving")
    serving.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on"
    )
    serving.add_argument("--port", type=int, default=8080, metavar="N", help="0: a free one")
    serving.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"key that clients must send; safer in the environment variable {KEY_VARIABLE}",
    )
    serving.add_argument(
        "--no-key",
        action="store_true",
        help="require no key, even where other machines can reach the address",
    )
    serving.add_argument(
        "--parallel", type=int, default=4, metavar="N", help="answers at the same time"
    )
    serving.add_argument(
        "--context",
        type=int,
        dest="ctx",
        metavar="TOKENS",
        help="the same as --ctx: context of each answer",
    )
    serving.add_argument(
        "--queue", type=int, default=64, metavar="N", help="requests that may wait"
    )
    serving.add_argument(
        "--share-history",
        action="store_true",
        help="show your conversations on the page, even where other machines can reach the address",
    )
    serving.add_argument(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="allow requests by web pages of this origin, such as https://example.org; *: of all; "
        "may be repeated",
    )
    serving.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name under which clients reach this server; may be repeated",
    )


def server_config(arguments: argparse.Namespace) -> ServerConfig:
    """Return the server's configuration. RequestError for values that cannot be, and if others
    could reach it without a key."""
    from llm_lite.server.config import ServerConfig, is_loopback, page_history

    key = _key(arguments)
    if not 0 <= arguments.port <= 65535:
        raise RequestError(f"--port: expected 0 to 65535, found {arguments.port}")
    for origin in arguments.cors_origin:
        if not _ORIGIN.fullmatch(origin):
            expected = "expected one as https://example.org, without a path"
            raise RequestError(f"--cors-origin: {expected}, found {quote(origin)}")
    for name in arguments.host_name:
        if not _NAME.fullmatch(name):
            raise RequestError(f"--host-name: expected a name as nas.local, found {quote(name)}")
    if not key and not arguments.no_key and not is_loopback(arguments.host):
        raise RequestError(
            f"others can reach {arguments.host}: give a key with --api-key or {KEY_VARIABLE}, "
            "or say --no-key to let everybody ask"
        )
    is_shared = arguments.share_history or is_loopback(arguments.host)
    return ServerConfig(
        host=arguments.host,
        port=arguments.port,
        api_key=key,
        cors_origins=tuple(arguments.cors_origin),
        host_names=tuple(arguments.host_name),
        history=None if is_shared else page_history(),
    )


def serving_options(arguments: argparse.Namespace) -> StartServing:
    """Return the options of serving. RequestError for values out of range."""
    for name, low, high in (("parallel", 1, 64), ("queue", 0, 4096)):
        value = getattr(arguments, name)
        if not low <= value <= high:
            raise RequestError(f"--{name}: expected {low} to {high}, found {value}")
    speculate, draft_model = speculation(arguments.speculate)
    return StartServing(
        parallel=arguments.parallel,
        most_waiting=arguments.queue,
        speculate=speculate,
        by_draft_model=bool(draft_model),
    )


def _key(arguments: argparse.Namespace) -> str:
    """Return the key, "" for none. Errors never quote it."""
    given = arguments.api_key
    if arguments.no_key:
        if given:
            raise RequestError("--no-key and --api-key: expected one of them")
        return ""
    key, source = (given, "--api-key") if given is not None else _of_environment()
    if given is not None and not key:
        raise RequestError("--api-key is empty")
    if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        expected = f"expected up to {_LONGEST_KEY} characters of ASCII without spaces"
        raise RequestError(f"{source}: {expected}")
    return str(key)


def _of_environment() -> tuple[str, str]:
    return os.environ.get(KEY_VARIABLE, ""), KEY_VARIABLE
