"""Large answers go as fast as their client reads: what it has not read yet is written later.

The whole of each is held until then, so all together are limited: where they are too much, one is
ended of the client with the most.
"""

from __future__ import annotations

import asyncio

from starlette.types import Message, Scope, Send

from llm_lite.server.event_bridge import ClientLeft
from llm_lite.server.shared import PassingBody, Shared

_PIECE = 64 << 10  # bytes, between which a slow reader is waited for


def sent_in_pieces(shared: Shared, scope: Scope, send: Send) -> Send:
    """Return a function that sends a message, and waits until its client has read most of it."""
    address = scope["client"][0] if scope.get("client") else "?"

    async def sent(message: Message) -> None:
        data = message.get("body", b"") if message["type"] == "http.response.body" else b""
        if len(data) <= _PIECE:
            await send(message)
            return
        timeout = asyncio.timeout(None)
        body = PassingBody(address, timeout)
        body.size = len(data)
        shared.sent_bytes += len(data)
        try:
            async with timeout:
                with shared.sent.place(body):
                    shared.sent.make_room(shared.sent_bytes - shared.config.sent_bytes)
                    await _send_all(data, send)
        except TimeoutError:
            if body.refusal is None:
                raise
            shared.unread += 1
            raise ClientLeft("it reads too slowly for so many others") from None
        finally:
            shared.sent_bytes -= len(data)
        await send({**message, "body": b""})

    return sent


async def _send_all(data: bytes, send: Send) -> None:
    whole = memoryview(data)
    for at in range(0, len(data), _PIECE):
        piece = bytes(whole[at : at + _PIECE])
        await send({"type": "http.response.body", "body": piece, "more_body": True})
