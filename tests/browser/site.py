"""A server with the page, for a browser: on a scripted service, or on the bundled model."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import Ended, EngineOptions, LoadModel, StartServing
from llm_lite.core.serving.service import Service
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.server.scripted_service import ScriptedService


@contextlib.contextmanager
def site(service: Service | None, history: Path, **config: object) -> Iterator[str]:
    """Its address."""
    given: dict[str, object] = {"port": 0, **config}
    server = Server(lambda: service, ServerConfig(history=history, **given), log=print)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


@contextlib.contextmanager
def bundled(options: EngineOptions) -> Iterator[Service]:
    """The service of an engine with the bundled model."""
    engine = Engine(None)
    engine.submit(LoadModel(None, options))
    engine.submit(StartServing(parallel=4, context=2048))
    try:
        while (service := engine.service()) is None:
            for report in engine.wait(1.0):
                if isinstance(report.event, Ended) and report.event.problem:
                    raise SystemExit(report.event.problem)
        yield service
    finally:
        engine.close(10)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("history", type=Path)
    words.add_argument("--port", type=int, default=8099)
    words.add_argument("--backend", help="serve the bundled model on it, not a script")
    words.add_argument("--mode", default="int4")
    words.add_argument("--key", default="")
    chosen = words.parse_args()
    with contextlib.ExitStack() as stack:
        service: Service = ScriptedService(delay=0.03)
        if chosen.backend:
            options = EngineOptions(backend=chosen.backend, mode=chosen.mode)
            service = stack.enter_context(bundled(options))
        config = {"port": chosen.port, "api_key": chosen.key}
        print(stack.enter_context(site(service, chosen.history, **config)), flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
