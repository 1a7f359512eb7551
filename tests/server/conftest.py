"""A server on a scripted service, and OpenAI's own client for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import openai
import pytest

from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.server.scripted_service import ScriptedService


class Served:
    """A server that runs, and what it serves."""

    def __init__(self, service: ScriptedService | None, config: ServerConfig) -> None:
        self.service, self.config = service, config
        self.server = Server(lambda: self.service, config)
        self.server.start()
        self.url = self.server.address

    def client(self, **more: object) -> openai.OpenAI:
        key = self.config.api_key or "none"
        given = {"base_url": f"{self.url}/v1", "api_key": key, "max_retries": 0, "timeout": 20}
        return openai.OpenAI(**{**given, **more})

    def close(self) -> None:
        self.server.stop()
        if self.service is not None:
            self.service.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """`serve(config={...}, **scripted)` starts one; all end with the test."""
    with ExitStack() as stack:

        def start(config: dict[str, object] | None = None, **scripted: object) -> Served:
            given = ServerConfig(port=0, **(config or {}))
            served = Served(ScriptedService(**scripted), given)
            stack.callback(served.close)
            return served

        yield start


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """One for tests that do not change it."""
    one = Served(ScriptedService(), ServerConfig(port=0))
    yield one
    one.close()
