"""`Server` runs in a thread: for the command line, the window and tests."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from llm_lite.core.errors import RequestError
from llm_lite.server.config import ServerConfig

if TYPE_CHECKING:
    import uvicorn

    from llm_lite.server.page import Page
    from llm_lite.server.shared import Log, ServiceOf, Shared, TitleOf

_START_SECONDS = 10.0
_BACKLOG = 1024


class Server:
    """`start` binds the address and returns when it is answered there; `stop` ends what runs."""

    def __init__(
        self,
        service_of: ServiceOf,
        config: ServerConfig,
        log: Log = lambda text: None,
        note: Log = lambda text: None,
        coming: TitleOf = lambda: "",
    ) -> None:
        """Take functions that any thread may call. `service_of` returns the service of the model
        in use, None while there is none; then `coming` returns the title of the one that is
        being loaded. Both are called for every request. `log` gets defects, `note` what else a
        person may want to know."""
        self._service_of, self._coming = service_of, coming
        self._config, self._log, self._note = config, log, note
        self._shared: Shared | None = None
        self._page: Page | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """Return the address as a browser takes it."""
        host = self._config.host
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            host, f"[{host}]" if ":" in host else host
        )
        return f"http://{shown}:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Bind the address and serve; raise RequestError, a sentence, where the address cannot
        be had."""
        import uvicorn  # not before somebody serves

        from llm_lite.server.connections import protocol_of
        from llm_lite.server.page import Page
        from llm_lite.server.routes import make_app
        from llm_lite.server.shared import Shared

        bound = _bound(self._config)
        self._port = bound.getsockname()[1]
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._shared = shared = Shared(
            self._service_of, self._config, self._log, self._note, self._coming
        )
        self._page = Page(shared)
        config = uvicorn.Config(
            make_app(shared, self._page),
            log_config=None,
            access_log=False,
            # Else a program on this machine chooses the address by which it takes its turns.
            proxy_headers=bool(self._config.host_names),
            lifespan="off",
            ws="none",
            http=protocol_of(shared),
            h11_max_incomplete_event_size=self._config.header_bytes,
            timeout_keep_alive=int(self._config.idle_seconds),
            timeout_graceful_shutdown=int(self._config.stop_seconds),
            server_header=False,
        )
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._uvicorn.run, args=([bound],), name="server", daemon=True
        )
        self._thread.start()
        waited = 0.0
        while not self._uvicorn.started and self._thread.is_alive() and waited < _START_SECONDS:
            self._thread.join(0.01)
            waited += 0.01
        if not self._uvicorn.started:
            self.stop()
            raise RequestError("the server did not start")

    def stop(self, timeout: float = 10.0) -> bool:
        """Stop the server; return whether it ended in time (seconds)."""
        if self._shared is not None:
            self._shared.end()
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout)
        if self._page is not None:
            self._page.close()
        if self._shared is not None:
            self._shared.close()
        return not self.is_running


def _bound(config: ServerConfig) -> socket.socket:
    """Return a socket that listens; raise RequestError where there is none."""
    try:
        found = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise RequestError(f"{config.host!r} is no address of this machine") from None
    # A name as localhost may have both; what most clients try first is the older one.
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    # With the protocol's number, by which asyncio knows that it is TCP and lets pieces of answers
    # go at once; else each would wait 40 ms for the client's acknowledgement of the one before.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # elsewhere it would share the port with another program
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise RequestError(_refusal(config, error)) from None
    return bound


def _refusal(config: ServerConfig, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"another program listens on port {config.port} of {config.host}: choose another"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{config.host!r} is no address of this machine"
    where = f"port {config.port} of {config.host}"
    return f"{where} cannot be listened on: {error.strerror or error}"
