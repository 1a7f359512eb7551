"""A daemon that speaks IBus's D-Bus on a socket of its own, with an engine that can be scripted.

No bus is needed: like ibus-daemon it is the bus. `answer(keyval, state)` says what a key does: the
signals that come before its answer, and whether it is taken; None: no answer.
"""

import contextlib
import socket
import threading

from jeepney import (
    HeaderFields,
    Message,
    MessageFlag,
    Parser,
    new_error,
    new_method_return,
    new_signal,
)
from jeepney.wrappers import DBusAddress

from tests.children import PATIENCE

PATH = "/org/freedesktop/IBus/InputContext_1"
CONTEXT = DBusAddress(PATH, interface="org.freedesktop.IBus.InputContext")


def ibus_text(text, *attributes):
    spans = [("(sa{sv}uuuu)", ("IBusAttribute", {}, *one)) for one in attributes]
    listed = ("(sa{sv}av)", ("IBusAttrList", {}, spans))
    return ("(sa{sv}sv)", ("IBusText", {}, text, listed))


def commit(text):
    return new_signal(CONTEXT, "CommitText", "v", (ibus_text(text),))


def compose(text, caret=0, kept=True, *attributes):
    body = (ibus_text(text, *attributes), caret, True, int(kept))
    return new_signal(CONTEXT, "UpdatePreeditTextWithMode", "vubu", body)


class FakeIbus:
    def __init__(self, folder, answer=lambda keyval, state: ([], False)):
        self.path = str(folder / "ibus")
        self.address = f"unix:path={self.path},guid=1"
        self.answer = answer
        self.heard = []  # (member, body), in order
        self._serial = 0
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(1)
        self._client = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._client, _ = self._server.accept()
            line = self._line()
            assert line.startswith(b"\0AUTH EXTERNAL"), line
            self._client.sendall(b"OK 1234deadbeef\r\n")
            assert self._line() == b"BEGIN\r\n"
            parser = Parser()
            while data := self._client.recv(4096):
                for message in parser.feed(data):
                    self._hear(message)
        except OSError:
            pass  # closed

    def _line(self):
        line = b""
        while not line.endswith(b"\r\n"):
            line += self._client.recv(1)
        return line

    def _hear(self, message):
        member = message.header.fields[HeaderFields.member]
        self.heard.append((member, message.body))
        reply = None
        if member == "CreateInputContext":
            reply = new_method_return(message, "o", (PATH,))
        elif member == "Hello":
            reply = new_method_return(message, "s", (":1.1",))
        elif member == "Set":
            reply = new_error(message, "org.freedesktop.DBus.Error.InvalidArgs")
        elif member == "ProcessKeyEvent":
            keyval, _keycode, state = message.body
            done = self.answer(keyval, state)
            if done is None:
                return
            for signal in done[0]:
                self.send(signal)
            reply = new_method_return(message, "b", (done[1],))
        if reply is not None and not message.header.flags & MessageFlag.no_reply_expected:
            self.send(reply)

    def send(self, message):
        self._serial += 1
        data = message.serialise(self._serial) if isinstance(message, Message) else message
        self._client.sendall(data)

    def members(self):
        return [member for member, _ in self.heard]

    def close(self):
        for one in (self._client, self._server):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        self._thread.join(PATIENCE)
