"""A program that owns the clipboard of X11, as others do: `python -m ... KIND`.

silent: it never answers. pieces: in pieces (INCR). stops: in pieces, of which only one comes.
latin: it has no UTF-8. none: it has no text. manager: a manager of clipboards that never answers.
"""

import ctypes
import sys
import time
from ctypes import c_char_p, c_int, c_long, c_ubyte, c_uint, c_ulong, c_void_p

SELECTION_REQUEST, SELECTION_NOTIFY, PROPERTY_NOTIFY, DELETED = 30, 31, 28, 1
PIECES = ("가\tb" * 5_000, "\n", "c" * 30_000)


class Request(ctypes.Structure):
    """XSelectionRequestEvent; XSelectionEvent without its owner."""

    _fields_ = (
        *(("type", c_int), ("serial", c_ulong), ("send_event", c_int), ("display", c_void_p)),
        *(("owner", c_ulong), ("requestor", c_ulong), ("selection", c_ulong), ("target", c_ulong)),
        *(("property", c_ulong), ("time", c_ulong)),
    )


class Answer(ctypes.Structure):
    _fields_ = tuple(field for field in Request._fields_ if field[0] != "owner")


class Changed(ctypes.Structure):
    """XPropertyEvent"""

    _fields_ = (
        *(("type", c_int), ("serial", c_ulong), ("send_event", c_int), ("display", c_void_p)),
        *(("window", c_ulong), ("atom", c_ulong), ("time", c_ulong), ("state", c_int)),
    )


class Event(ctypes.Union):
    _fields_ = (
        *(("type", c_int), ("request", Request), ("changed", Changed), ("answer", Answer)),
        ("room", c_long * 24),
    )


def library():
    x = ctypes.CDLL("libX11.so.6")
    for name, result, arguments in (
        ("XOpenDisplay", c_void_p, (c_char_p,)),
        ("XInternAtom", c_ulong, (c_void_p, c_char_p, c_int)),
        ("XDefaultRootWindow", c_ulong, (c_void_p,)),
        ("XCreateSimpleWindow", c_ulong,
         (c_void_p, c_ulong, *[c_int] * 2, *[c_uint] * 3, *[c_ulong] * 2)),
        ("XSetSelectionOwner", c_int, (c_void_p, *[c_ulong] * 3)),
        ("XSync", c_int, (c_void_p, c_int)),
        ("XNextEvent", c_int, (c_void_p, c_void_p)),
        ("XSelectInput", c_int, (c_void_p, c_ulong, c_long)),
        ("XSendEvent", c_int, (c_void_p, c_ulong, c_int, c_long, c_void_p)),
        ("XChangeProperty", c_int, (c_void_p, *[c_ulong] * 3, c_int, c_int, c_void_p, c_int)),
    ):  # fmt: skip
        function = getattr(x, name)
        function.restype, function.argtypes = result, arguments
    return x


def main(kind):
    x = library()
    display = x.XOpenDisplay(None)
    window = x.XCreateSimpleWindow(display, x.XDefaultRootWindow(display), 0, 0, 1, 1, 0, 0, 0)

    def atom(name):
        return x.XInternAtom(display, name, 0)

    def put(request, kind, data, size=8):
        """Of 32 bits: one number, which Xlib takes as a long."""
        raw = c_long(1) if size == 32 else (c_ubyte * (len(data) + 1))(*data)
        count = 1 if size == 32 else len(data)
        place = request.requestor, request.property
        x.XChangeProperty(display, *place, kind, size, 0, ctypes.byref(raw), count)

    def answer(request, kept):
        event = Event()
        for name in ("requestor", "selection", "target", "time"):
            setattr(event.answer, name, getattr(request, name))
        event.answer.type, event.answer.property = SELECTION_NOTIFY, request.property if kept else 0
        x.XSendEvent(display, request.requestor, 0, 0, ctypes.byref(event))

    name = b"CLIPBOARD_MANAGER" if kind == "manager" else b"CLIPBOARD"
    x.XSetSelectionOwner(display, atom(name), window, 0)
    x.XSync(display, 0)
    print("owns", flush=True)
    event, utf8, left = Event(), atom(b"UTF8_STRING"), []
    while True:
        if kind in ("silent", "manager"):
            time.sleep(3600)
        x.XNextEvent(display, ctypes.byref(event))
        if event.type == SELECTION_REQUEST:
            request = Request.from_buffer_copy(event.request)
            if kind in ("pieces", "stops") and request.target == utf8:
                x.XSelectInput(display, request.requestor, 1 << 22)
                left = [piece.encode() for piece in PIECES] + [b""]
                put(request, atom(b"INCR"), b"", 32)
            elif kind == "latin" and request.target == atom(b"STRING"):
                put(request, request.target, "caf\xe9\tb".encode("latin-1"))
            else:
                request.property = 0
            answer(request, request.property)
        elif event.type == PROPERTY_NOTIFY and event.changed.state == DELETED and left:
            if kind == "stops" and len(left) < len(PIECES):
                continue
            put(request, utf8, left.pop(0))
        x.XSync(display, 0)


if __name__ == "__main__":
    main(sys.argv[1])
