"""A proxy that has a server in a folder of its own, as those do that stand before several."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

FOLDER = "/models/llm"
_HOP = ("connection", "transfer-encoding", "keep-alive", "content-length")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind: str  # "127.0.0.1:8080"

    def log_message(self, *words: Any) -> None:
        pass

    def _pass_on(self) -> None:
        path = self.path.removeprefix(FOLDER)
        if path == self.path or not path.startswith("/"):
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        line = http.client.HTTPConnection(self.behind)
        line.request(self.command, path, body, dict(self.headers))
        answer = line.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            while piece := answer.read1(1 << 16):
                self.wfile.write(piece)
        self.close_connection = True
        line.close()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _pass_on  # noqa: N815 - names of the library


@contextlib.contextmanager
def proxied(address: str) -> Iterator[str]:
    """Its address, with the folder."""
    handler = type("Handler", (_Handler,), {"behind": urlsplit(address).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{FOLDER}"
    finally:
        server.shutdown()
        server.server_close()
