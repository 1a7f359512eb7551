"""The X11 clipboard, read over a connection of its own.

The program that owns it sends its text, by messages through the server (ICCCM 2.4 and 2.7):
`convert_selection`, then a `SelectionNotify`, then a property, of a long text again and again
(INCR). That program may hang. GLFW waits for it without an end; here each wait has a limit.
"""

from __future__ import annotations

import ctypes
import select
import time
from ctypes import POINTER, c_char_p, c_int, c_uint8, c_uint16, c_uint32, c_void_p
from typing import Any

PATIENCE = 1.0  # seconds without an answer
MOST = 64 << 20  # bytes of a text
PROPERTY_CHANGE, NEW_VALUE = 1 << 22, 0
PROPERTY_NOTIFY, SELECTION_NOTIFY = 28, 31
ANY, COPY_FROM_PARENT, CURRENT_TIME, INPUT_ONLY, EVENT_MASK = 0, 0, 0, 2, 2048


class NoAnswerError(Exception):
    """Raised where the clipboard's owner does not answer."""


class _Setup(ctypes.Structure):
    """The beginning of xcb_setup_t."""

    _fields_ = (
        *((name, c_uint8) for name in ("status", "pad")),
        *((name, c_uint16) for name in ("major", "minor", "length")),
        *((name, c_uint32) for name in ("release", "id_base", "id_mask")),
    )


class _Screens(ctypes.Structure):
    """xcb_screen_iterator_t"""

    _fields_ = (("data", POINTER(c_uint32)), ("rem", c_int), ("index", c_int))


class _Cookie(ctypes.Structure):
    _fields_ = (("sequence", ctypes.c_uint),)


class _Atom(ctypes.Structure):
    """xcb_intern_atom_reply_t, and of xcb_get_selection_owner_reply_t the same places."""

    _fields_ = (
        *(("type", c_uint8), ("pad", c_uint8), ("sequence", c_uint16)),
        *(("length", c_uint32), ("value", c_uint32)),
    )


class _Property(ctypes.Structure):
    """xcb_get_property_reply_t"""

    _fields_ = (
        *(("type", c_uint8), ("format", c_uint8), ("sequence", c_uint16), ("length", c_uint32)),
        *(("kind", c_uint32), ("after", c_uint32), ("count", c_uint32)),
    )


class _Event(ctypes.Structure):
    """xcb_selection_notify_event_t and xcb_property_notify_event_t, whose own fields are words."""

    _fields_ = (
        ("type", c_uint8),
        ("pad", c_uint8),
        ("sequence", c_uint16),
        ("words", c_uint32 * 7),
    )


def _library() -> Any:
    """Return libxcb with its functions' types. OSError where it is not installed."""
    xcb: Any = ctypes.CDLL("libxcb.so.1")
    for name, result, arguments in (
        ("xcb_connect", c_void_p, (c_char_p, c_void_p)),
        ("xcb_disconnect", None, (c_void_p,)),
        ("xcb_connection_has_error", c_int, (c_void_p,)),
        ("xcb_get_setup", POINTER(_Setup), (c_void_p,)),
        ("xcb_setup_roots_iterator", _Screens, (c_void_p,)),
        ("xcb_generate_id", c_uint32, (c_void_p,)),
        ("xcb_create_window", _Cookie, (c_void_p, c_uint8, c_uint32, c_uint32, *[c_uint16] * 5,
                                        c_uint16, c_uint32, c_uint32, c_void_p)),
        ("xcb_intern_atom", _Cookie, (c_void_p, c_uint8, c_uint16, c_char_p)),
        ("xcb_intern_atom_reply", POINTER(_Atom), (c_void_p, _Cookie, c_void_p)),
        ("xcb_get_selection_owner", _Cookie, (c_void_p, c_uint32)),
        ("xcb_get_selection_owner_reply", POINTER(_Atom), (c_void_p, _Cookie, c_void_p)),
        ("xcb_convert_selection", _Cookie, (c_void_p, *[c_uint32] * 5)),
        ("xcb_get_property", _Cookie, (c_void_p, c_uint8, *[c_uint32] * 5)),
        ("xcb_get_property_reply", POINTER(_Property), (c_void_p, _Cookie, c_void_p)),
        ("xcb_get_property_value", c_void_p, (POINTER(_Property),)),
        ("xcb_get_property_value_length", c_int, (POINTER(_Property),)),
        ("xcb_poll_for_event", POINTER(_Event), (c_void_p,)),
        ("xcb_get_file_descriptor", c_int, (c_void_p,)),
        ("xcb_flush", c_int, (c_void_p,)),
    ):  # fmt: skip
        function = getattr(xcb, name)
        function.restype, function.argtypes = result, arguments
    xcb.free = ctypes.CDLL(None).free
    xcb.free.argtypes = (c_void_p,)
    return xcb


class X11Clipboard:
    """Reads the clipboard. OSError without the library or the display. `close` it in the end."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._xcb = xcb = _library()
        self._display = xcb.xcb_connect(None, None)
        if xcb.xcb_connection_has_error(self._display):
            xcb.xcb_disconnect(self._display)
            raise OSError("no connection to the display")
        setup = xcb.xcb_get_setup(self._display)
        self._mask = setup.contents.id_mask
        root = xcb.xcb_setup_roots_iterator(setup).data[0]
        self._window = xcb.xcb_generate_id(self._display)
        mask = (c_uint32 * 1)(PROPERTY_CHANGE)
        xcb.xcb_create_window(
            self._display, 0, self._window, root, 0, 0, 1, 1, 0, INPUT_ONLY, COPY_FROM_PARENT,
            EVENT_MASK, mask,
        )  # fmt: skip
        names = ("CLIPBOARD", "UTF8_STRING", "STRING", "INCR", "LLM_LITE_CLIPBOARD")
        self._clipboard, self._utf8, self._latin, self._incr, self._property = map(
            self._atom, names
        )

    def close(self) -> None:
        if self._display is not None:
            self._xcb.xcb_disconnect(self._display)
            self._display = None

    def is_of(self, window: int) -> bool:
        """Return whether the program that made a window owns the clipboard."""
        owner = self._owner()
        return owner != 0 and (owner ^ window) & ~self._mask == 0

    def text(self) -> str:
        """Return the clipboard's text; "" if it has none. NoAnswerError where its owner hangs."""
        if not self._owner():
            return ""
        for target, encoding in ((self._utf8, "utf-8"), (self._latin, "latin-1")):
            data = self._converted(target)
            if data is not None:
                return data.decode(encoding, "replace")
        return ""

    def _converted(self, target: int) -> bytes | None:
        """Return the clipboard as a type; None where its owner has it in none such."""
        while self._event(0.0):
            pass  # of a conversion that was given up
        self._xcb.xcb_convert_selection(
            self._display, self._window, self._clipboard, target, self._property, CURRENT_TIME
        )
        while True:
            event = self._awaited(SELECTION_NOTIFY)
            if event.words[3] == target:  # time, requestor, selection, target, property
                break
        if not event.words[4]:
            return None
        kind, data = self._taken()
        if kind != self._incr:
            return data
        parts: list[bytes] = []
        while sum(map(len, parts)) <= MOST:
            while self._awaited(PROPERTY_NOTIFY).words[3] & 0xFF != NEW_VALUE:
                pass
            kind, data = self._taken()
            if not data:
                break
            parts.append(data)
        return b"".join(parts)

    def _owner(self) -> int:
        asked = self._xcb.xcb_get_selection_owner(self._display, self._clipboard)
        return self._value(self._xcb.xcb_get_selection_owner_reply(self._display, asked, None))

    def _atom(self, name: str) -> int:
        asked = self._xcb.xcb_intern_atom(self._display, 0, len(name), name.encode())
        return self._value(self._xcb.xcb_intern_atom_reply(self._display, asked, None))

    def _value(self, reply: Any) -> int:
        if not reply:
            return 0
        value = int(reply.contents.value)
        self._xcb.free(reply)
        return value

    def _taken(self) -> tuple[int, bytes]:
        """Return the property's type and content, which is deleted: its owner may go on."""
        xcb = self._xcb
        asked = xcb.xcb_get_property(
            self._display, 1, self._window, self._property, ANY, 0, MOST // 4
        )
        reply = xcb.xcb_get_property_reply(self._display, asked, None)
        if not reply:
            return 0, b""
        size = xcb.xcb_get_property_value_length(reply)
        data = ctypes.string_at(xcb.xcb_get_property_value(reply), size)
        kind = int(reply.contents.kind)
        xcb.free(reply)
        return kind, data

    def _awaited(self, kind: int) -> _Event:
        end = time.monotonic() + self._patience
        while (left := end - time.monotonic()) > 0:
            event = self._event(left)
            if event is not None and event.type & 0x7F == kind:
                return event
        raise NoAnswerError

    def _event(self, wait: float) -> _Event | None:
        """Return the next event, within so many seconds."""
        xcb = self._xcb
        xcb.xcb_flush(self._display)
        found = xcb.xcb_poll_for_event(self._display)
        if not found and wait > 0 and not xcb.xcb_connection_has_error(self._display):
            select.select([xcb.xcb_get_file_descriptor(self._display)], [], [], wait)
            found = xcb.xcb_poll_for_event(self._display)
        if not found:
            if xcb.xcb_connection_has_error(self._display):
                raise NoAnswerError
            return None
        event = _Event.from_buffer_copy(found.contents)
        xcb.free(found)
        return event
