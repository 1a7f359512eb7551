"""A connection that takes its time holds up no other.

uvicorn waits for ever for a request's head, and for a client to read what was written. Here both
have an end; and where connections are as many as may be, a new one takes the place of the one that
has been idle for longest, so that any number of idle ones stops nobody.

A client may close its half of a connection once it has asked, and still read. One that has closed
all of it looks the same, until something is written to it twice: so something is.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from llm_lite.server.failures import ApiError, json_text
from llm_lite.server.shared import Shared, affordable

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"  # which means nothing more
_PROBES = (0.0, 0.2, 2.0)  # seconds behind the end of what a client sends
_HINTS = {431: "the head of the request is too large"}


class Connection(H11Protocol):
    """`protocol_of` derives a class for each server, whose objects know each other."""

    shared: Shared
    most: int
    opened: dict[Connection, None]  # in the order in which they came, or became idle
    _head: asyncio.TimerHandle | None = None  # rings where the head does not come
    _unread: asyncio.TimerHandle | None = None  # rings where nothing is read
    _is_half_closed = False  # nothing more comes from the client

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.opened[self] = None
        if len(self.opened) > self.most and not self._close_one():
            transport.abort()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.opened.pop(self, None)
        self._unset(head=True, unread=True)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio.Protocol has it
        """Return whether the client may still read."""
        if self.is_idle or self.cycle.more_body:
            return False
        if not self._is_half_closed:
            self._is_half_closed = True
            for seconds in _PROBES:
                self.loop.call_later(seconds, self._probe)
        return True

    def _probe(self) -> None:
        """Write something that changes nothing: of a client that has left, the system refuses the
        second, and the connection is lost."""
        if self.transport.is_closing() or self.is_idle:
            return
        if self.cycle.response_started:
            wake = self.client and self.shared.wakers.get(self.client)
            if wake:
                wake()  # a stream says that it is still at work
        elif self.scope["http_version"] == "1.1":
            self.transport.write(_CONTINUE)

    def on_response_complete(self) -> None:
        if self in self.opened:  # it is idle from now on
            del self.opened[self]
            self.opened[self] = None
        super().on_response_complete()
        if self._is_half_closed and self.is_idle and not self.transport.is_closing():
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unset(unread=True)
        seconds = self.shared.config.unread_seconds
        self._unread = self.loop.call_later(seconds, self._give_up)

    def resume_writing(self) -> None:
        self._unset(unread=True)
        super().resume_writing()

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        """Write an error in the form of all errors, without h11, whose state may not allow an
        answer any more."""
        if not self.is_idle and self.cycle.response_started:  # it stands in another's answer
            self.transport.abort()
            return
        is_large = len(self.conn.trailing_data[0]) > self.shared.config.header_bytes
        status = 431 if is_large else 400
        error = ApiError(status, _HINTS.get(status, "this is not a request of HTTP"))
        body = json_text(error.body()).encode()
        head = (
            f"HTTP/1.1 {status} Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _watch_head(self) -> None:
        """Limit the time from the first byte, or the first moment, to the end of a request's
        head."""
        waits = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if not waits:
            self._unset(head=True)
        elif self._head is None:
            seconds = self.shared.config.header_seconds
            self._head = self.loop.call_later(seconds, self._close_late)

    def _close_late(self) -> None:
        self._head = None
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()

    def _give_up(self) -> None:
        self._unread = None
        self.shared.unread += 1
        self.transport.abort()

    def _unset(self, *, head: bool = False, unread: bool = False) -> None:
        if head and self._head is not None:
            self._head.cancel()
            self._head = None
        if unread and self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _close_one(self) -> bool:
        """Close the connection that has been idle for longest; return whether there was one
        beside this."""
        oldest = next((one for one in self.opened if one is not self and one.is_idle), None)
        if oldest is None:
            return False
        self.opened.pop(oldest, None)
        oldest.transport.abort()
        return True


def protocol_of(shared: Shared) -> type[Connection]:
    """Return the class whose objects are the connections of a server."""
    most = affordable(shared.config.connections)
    return type("ServedConnection", (Connection,), {"shared": shared, "most": most, "opened": {}})
