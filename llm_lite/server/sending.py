"""Large answers are made in pieces, and go as fast as their client reads.

What is not read yet is held until then, so all together are limited: where they are too much, one
is ended of the client with the most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from llm_lite.server.event_bridge import ClientLeft
from llm_lite.server.shared import PassingBody, Shared

_PIECE = 64 << 10  # bytes, between which a slow reader is waited for


class LargeResponse(Response):
    """An object as JSON. A thread of the caller's makes it: what is in its lists is written one by
    one, so that the event loop has its turns, as it has none within a call of an encoder, and no
    copy is made of the whole. A number that is NaN is null."""

    media_type = "application/json"

    def __init__(self, value: Mapping[str, Any], status: int = 200) -> None:
        super().__init__(None, status)
        self._pieces = list(_joined(_json_of(value)))
        self.headers["content-length"] = str(sum(map(len, self._pieces)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": b"", _PIECES: self._pieces})


_PIECES = "llm-lite pieces"  # of a message: those of its body, which `sent_in_pieces` takes


def _json_of(value: Mapping[str, Any]) -> Iterator[bytes]:
    lead = b"{"
    for name, one in value.items():
        yield lead + msgspec.json.encode(name) + b":"
        if isinstance(one, list):
            yield b"["
            for number, item in enumerate(one):
                yield b"," * bool(number) + msgspec.json.encode(item)
            yield b"]"
        else:
            yield msgspec.json.encode(one)
        lead = b","
    yield b"}" if value else b"{}"


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces that are not small, but the last."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def sent_in_pieces(shared: Shared, scope: Scope, send: Send) -> Send:
    """Return a function that sends a message, and waits until its client has read most of it."""
    address = scope["client"][0] if scope.get("client") else "?"

    async def sent(message: Message) -> None:
        pieces = message.pop(_PIECES, None) or [message.get("body", b"")]
        size = sum(map(len, pieces))
        if size <= _PIECE:
            if message["type"] == "http.response.body":
                message = {**message, "body": b"".join(pieces)}
            await send(message)
            return
        timeout = asyncio.timeout(None)
        body = PassingBody(address, timeout)
        body.size = size
        shared.sent_bytes += size
        try:
            async with timeout:
                with shared.sent.place(body):
                    shared.sent.make_room(shared.sent_bytes - shared.config.sent_bytes)
                    await _send_all(shared, pieces, body, send)
        except TimeoutError:
            if body.refusal is None:
                raise
            shared.unread += 1
            raise ClientLeft("it reads too slowly for so many others") from None
        finally:
            shared.sent_bytes -= body.size
        await send({**message, "body": b""})

    return sent


async def _send_all(shared: Shared, pieces: list[bytes], body: PassingBody, send: Send) -> None:
    """Send each piece and let go of it."""
    pieces.reverse()
    while pieces:
        whole = memoryview(pieces.pop())
        for at in range(0, len(whole), _PIECE):
            part = bytes(whole[at : at + _PIECE])
            await send({"type": "http.response.body", "body": part, "more_body": True})
        shared.sent_bytes -= len(whole)
        body.size -= len(whole)
