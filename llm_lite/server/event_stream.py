"""Answers are sent as server-sent events:
https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llm_lite.server.event_bridge import ClientLeft

EVENTS = "text/event-stream"
COMMENT = b": still at work\n\n"  # clients ignore it; proxies see that the connection lives
DONE = b"data: [DONE]\n\n"


class EventStream(Response):
    """`pieces` yields bytes of whole events; `close` is called in the end, whatever happens."""

    media_type = EVENTS

    def __init__(self, pieces: AsyncIterator[bytes], close: Callable[[], None]) -> None:
        super().__init__(None, 200, {"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._pieces, self._close = pieces, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ClientLeft:
            return  # the connection is closed, if it is not yet
        finally:
            self._close()


# What ends a line for some readers of streams, as Python's `splitlines` and httpx's `iter_lines`,
# and may stand as it is in JSON, which escapes all below a space.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def event(text: str, name: str = "") -> bytes:
    """Return one event with a line of data, JSON."""
    head = f"event: {name}\n" if name else ""
    if not text.isascii():
        text = text.translate(_LINE_ENDS)
    return f"{head}data: {text}\n\n".encode()
