"""The connection to IBus, in a thread of its own: calls go out in order, and what comes back is a
queue of values (`messages.py`). Nothing here waits for the daemon but that thread."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from llm_lite.desktop.app.input_method.messages import (
    Answered,
    Connected,
    IBusEvent,
    Lost,
    read_signal,
)

LONGEST_MESSAGE = 1 << 18  # bytes
MOST_WAITING = 1000  # calls that the daemon did not read yet, and messages nobody took
CONNECT_SECONDS = 2.0
SERVICE = "org.freedesktop.IBus"
CONTEXT = "org.freedesktop.IBus.InputContext"
COMPOSITION, FOCUS = 1, 8  # IBusCapabilite: we draw compositions, and say when a field has focus
SIGNATURE = re.compile(rb"(?=([\x02-\xff])([a-z(){}]{0,253}?\(\)[a-z(){}]{0,253})\0)", re.DOTALL)

Call = tuple[str, str, tuple[Any, ...], int]  # member, signature, body, number or 0


class Daemon:
    """One connection; it begins at once. `wake` is called on its thread when there is news."""

    def __init__(self, find: Callable[[], str | None], wake: Callable[[], None]) -> None:
        self._find, self._wake_loop = find, wake
        self._calls: deque[Call] = deque()
        self._news: deque[IBusEvent] = deque()
        self._closing = False
        self._awake, self._waker = socket.socketpair()
        self._awake.setblocking(False)
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="input method", daemon=True)
        self._thread.start()

    def call(
        self, member: str, signature: str = "", body: tuple[Any, ...] = (), number: int = 0
    ) -> None:
        """Call a method of the input context, whose answer carries `number` (0: no answer is
        wanted)."""
        if len(self._calls) < MOST_WAITING:
            self._calls.append((member, signature, body, number))
        self._wake()

    def take(self) -> list[IBusEvent]:
        """Return what was received since the last call."""
        news = []
        while self._news:
            news.append(self._news.popleft())
        return news

    def close(self) -> None:
        self._closing = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: it has ended
            self._waker.send(b"\0")

    def _put(self, news: IBusEvent) -> None:
        self._news.append(news)
        self._wake_loop()

    def _run(self) -> None:
        reason = ""
        try:
            where = self._find()
            if where is not None:
                _Connection(where, self).run()
        except Exception as error:  # whatever the daemon sent; the window goes on without it
            reason = (str(error) or type(error).__name__)[:200]
        self._awake.close()
        self._waker.close()
        if not self._closing:
            self._put(Lost(reason))


class _Connection:
    """The connection, used by the thread alone. Raises what goes wrong; ends when the daemon is
    closed."""

    def __init__(self, where: str, daemon: Daemon) -> None:
        # Here, not above: no part of the first frame
        from jeepney import DBusAddress, Parser
        from jeepney.bus import get_bus
        from jeepney.io.blocking import prep_socket

        self._daemon = daemon
        self._parser = Parser()
        self._buffer = b""
        self._serial = 0
        self._numbers: dict[int, int] = {}  # serial of a call -> its number
        self._context: Any = None
        self._address = DBusAddress
        self._socket = prep_socket(get_bus(where), timeout=CONNECT_SECONDS)

    def run(self) -> None:
        try:
            self._socket.settimeout(CONNECT_SECONDS)
            self._begin()
            self._daemon._put(Connected())
            self._serve()
        finally:
            self._socket.close()

    def _begin(self) -> None:
        bus = self._address("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        self._call(bus, "Hello")
        service = self._address("/org/freedesktop/IBus", SERVICE, SERVICE)
        (path,) = self._call(service, "CreateInputContext", "s", ("llm-lite",))
        self._context = self._address(path, SERVICE, CONTEXT)
        self._send(self._context, "SetCapabilities", "u", (COMPOSITION | FOCUS,))
        # What is left of a composition is committed by us, into the field that it was made in.
        properties = self._context.with_interface("org.freedesktop.DBus.Properties")
        value = (CONTEXT, "ClientCommitPreedit", ("(b)", (True,)))
        self._send(properties, "Set", "ssv", value)

    def _call(
        self, target: Any, member: str, signature: str = "", body: tuple[Any, ...] = ()
    ) -> Any:
        from jeepney import HeaderFields, MessageType

        serial = self._send(target, member, signature, body)
        for _ in range(MOST_WAITING):
            for message in self._receive():
                if message.header.fields.get(HeaderFields.reply_serial) == serial:
                    if message.header.message_type is MessageType.error:
                        raise ConnectionError(f"{member} was refused")
                    return message.body
        raise ConnectionError(f"{member} was not answered")

    def _send(
        self, target: Any, member: str, signature: str, body: tuple[Any, ...], number: int = 0
    ) -> int:
        from jeepney import MessageFlag, new_method_call

        self._serial += 1
        message = new_method_call(target, member, signature or None, body)
        if number:
            self._numbers[self._serial] = number
        elif self._context is not None:
            message.header.flags |= MessageFlag.no_reply_expected
        self._socket.sendall(message.serialise(self._serial))
        return self._serial

    def _serve(self) -> None:
        import select

        daemon, awake = self._daemon, self._daemon._awake
        while not daemon._closing:
            while daemon._calls:
                member, signature, body, number = daemon._calls.popleft()
                self._send(self._context, member, signature, body, number)
            readable, _, _ = select.select([self._socket, awake], [], [])
            if awake in readable:
                awake.recv(4096)
            if self._socket in readable:
                for message in self._receive():
                    self._handle(message)

    def _handle(self, message: Any) -> None:
        from jeepney import HeaderFields, MessageType

        fields = message.header.fields
        number = self._numbers.pop(fields.get(HeaderFields.reply_serial), 0)
        news: IBusEvent | None = None
        if message.header.message_type in (MessageType.method_return, MessageType.error):
            taken = message.header.message_type is MessageType.method_return
            if number:
                news = Answered(number, taken and message.body[:1] == (True,))
        elif fields.get(HeaderFields.path) == self._context.object_path:
            news = read_signal(str(fields.get(HeaderFields.member)), message.body)
        if news is not None and len(self._daemon._news) < MOST_WAITING:
            self._daemon._put(news)

    def _receive(self) -> list[Any]:
        """Wait for some data and return the messages that are whole."""
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("it has ended")
        self._buffer += data
        messages = []
        while (size := _size(self._buffer)) is not None and size <= len(self._buffer):
            raw, self._buffer = self._buffer[:size], self._buffer[size:]
            if _holds_empty_struct(raw):
                raise ValueError("a message with an empty struct")
            messages += self._parser.feed(raw)
        return messages


def _size(buffer: bytes) -> int | None:
    """Return the bytes of the message that begins here; None if that is not known yet."""
    if len(buffer) < 16:
        return None
    order = {b"l": "<", b"B": ">"}.get(buffer[:1])
    if order is None:
        raise ValueError("no D-Bus message")
    (body,) = struct.unpack(order + "I", buffer[4:8])
    (fields,) = struct.unpack(order + "I", buffer[12:16])
    size = int((16 + fields + 7) // 8 * 8 + body)
    if size > LONGEST_MESSAGE:
        raise ValueError(f"a message of {size} bytes; at most {LONGEST_MESSAGE} are read")
    return size


def _holds_empty_struct(raw: bytes) -> bool:
    """Return True if a signature in it has `()`, which D-Bus forbids and a parser could read for
    ever."""
    if b"()" not in raw:
        return False
    return any(match[1][0] == len(match[2]) for match in SIGNATURE.finditer(raw))
