"""Drops files on a window as a file manager does: the XDND protocol, version 5, by Xlib.

https://www.freedesktop.org/wiki/Specifications/XDND/
"""

import ctypes
import os
import struct
import time
import urllib.parse

from tests.desktop import x11

SELECTION_NOTIFY, SELECTION_REQUEST, CLIENT_MESSAGE = 31, 30, 33


def drop(name, window, path, patience, at=(400, 300)):
    """Drop `path` on `window` of the display `name`; whether the window took it, each of its two
    answers within `patience` seconds."""
    with x11._connection(name) as (lib, display):
        return _Drag(lib, display, window, path, patience).drop(at)


class _Drag:
    def __init__(self, lib, display, window, path, patience):
        self.lib, self.display, self.window = lib, display, window
        self.patience = patience
        quoted = urllib.parse.quote_from_bytes(os.fsencode(path))
        self.data = f"file://{quoted}\r\n".encode()
        lib.XCreateSimpleWindow.restype = ctypes.c_ulong
        root = ctypes.c_ulong(lib.XDefaultRootWindow(display))
        zero = ctypes.c_ulong(0)
        self.own = lib.XCreateSimpleWindow(display, root, 0, 0, 1, 1, 0, zero, zero)

    def atom(self, name):
        return self.lib.XInternAtom(self.display, name.encode(), 0)

    def send(self, target, kind, *data):
        """A client message from us."""
        event = struct.pack(
            "@iLiPLLi5l", CLIENT_MESSAGE, 0, 1, self.display.value, target, self.atom(kind), 32,
            *data, *[0] * (5 - len(data)),
        )  # fmt: skip
        self.post(target, event)

    def post(self, target, event):
        buffer = ctypes.create_string_buffer(event, 192)
        self.lib.XSendEvent(self.display, ctypes.c_ulong(target), 0, ctypes.c_long(0), buffer)
        self.lib.XFlush(self.display)

    def over(self, at):
        lists, copy = self.atom("text/uri-list"), self.atom("XdndActionCopy")
        self.send(self.window, "XdndEnter", self.own, 5 << 24, lists)
        self.send(self.window, "XdndPosition", self.own, 0, at[0] << 16 | at[1], 0, copy)

    def drop(self, at):
        selection, own = ctypes.c_ulong(self.atom("XdndSelection")), ctypes.c_ulong(self.own)
        self.lib.XSetSelectionOwner(self.display, selection, own, ctypes.c_ulong(0))
        self.over(at)
        if not self.answer("XdndStatus"):
            return False
        self.send(self.window, "XdndDrop", self.own, 0, 0)
        return self.answer("XdndFinished")

    def answer(self, kind):
        """Serve the window until it says so."""
        event, wanted = ctypes.create_string_buffer(192), self.atom(kind)
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if not self.lib.XPending(self.display):
                time.sleep(0.005)
                continue
            self.lib.XNextEvent(self.display, event)
            number = struct.unpack_from("@i", event)[0]
            if number == SELECTION_REQUEST:
                self.serve(event)
            elif number == CLIENT_MESSAGE and struct.unpack_from("@L", event, 40)[0] == wanted:
                return True
        return False

    def serve(self, event):
        """Write the list of files where the window wants it."""
        requestor, selection, target, place, when = struct.unpack_from("@LLLLL", event, 40)
        self.lib.XChangeProperty(
            self.display, ctypes.c_ulong(requestor), ctypes.c_ulong(place), ctypes.c_ulong(target),
            8, 0, self.data, len(self.data),
        )  # fmt: skip
        notify = struct.pack(
            "@iLiPLLLLL", SELECTION_NOTIFY, 0, 1, self.display.value, requestor, selection, target,
            place, when,
        )  # fmt: skip
        self.post(requestor, notify)
