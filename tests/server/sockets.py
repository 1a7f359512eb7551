"""Bare connections, for what no client library does."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable

from tests.children import PATIENCE


def connect(served, seconds: float = PATIENCE, *, small_window: bool = False) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if small_window:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(seconds)
    made.connect(("127.0.0.1", served.server.port))
    return made


def request(path: str, body: object = None, method: str = "POST", *headers: str) -> bytes:
    sent = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(sent)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + sent


def chat(**more: object) -> bytes:
    messages = [{"role": "user", "content": "hello"}]
    return request("/v1/chat/completions", {"messages": messages, **more})


def read_all(made: socket.socket) -> bytes:
    """To the connection's end."""
    found = bytearray()
    try:
        while piece := made.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return bytes(found)


def wait_until(found: Callable[[], object], seconds: float = PATIENCE) -> None:
    event = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if found():
            return
        event.wait(0.01)
    raise AssertionError("it did not happen")
