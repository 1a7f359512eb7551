"""A server with the page, for a browser: on a scripted service, or on what `engine` gives."""

from __future__ import annotations

import argparse
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from llm_lite.core.serving.service import Service
from llm_lite.server.app import make_app
from llm_lite.server.config import ServerConfig
from llm_lite.server.page import Page
from tests.server.scripted_service import ScriptedService


@contextlib.contextmanager
def site(service: Service | None, history: Path, api_key: str = "", port: int = 0) -> Iterator[str]:
    """Its address."""
    bound = socket.create_server(("127.0.0.1", port))
    app = make_app(lambda: service, ServerConfig(api_key=api_key))
    page = Page(lambda: service, history)
    have = {getattr(route, "path", "") for route in app.routes}
    app.router.routes += [route for route in page.routes() if route.path not in have]
    config = uvicorn.Config(app, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        page.close()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("history", type=Path)
    words.add_argument("--port", type=int, default=8099)
    chosen = words.parse_args()
    with site(ScriptedService(delay=0.03), chosen.history, port=chosen.port) as address:
        print(address, flush=True)
        time.sleep(1e6)
