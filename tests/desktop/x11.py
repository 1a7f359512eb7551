"""The few Xlib calls with which tests play window manager, mouse and eye."""

import ctypes
import ctypes.util
import struct
from contextlib import contextmanager

ALL_PLANES, Z_PIXMAP = 0xFFFFFFFF, 2
ICONIC, NORMAL = 3, 1  # ICCCM 4.1.3.1, WM_STATE
KEY_PRESS, KEY_RELEASE, CLIENT_MESSAGE = 2, 3, 33


def _library():
    lib = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
    lib.XOpenDisplay.restype = ctypes.c_void_p
    lib.XInternAtom.restype = ctypes.c_ulong
    lib.XDefaultRootWindow.restype = ctypes.c_ulong
    lib.XGetImage.restype = ctypes.c_void_p
    lib.XGetPixel.restype = ctypes.c_ulong
    return lib


def can_open(name):
    lib = _library()
    display = lib.XOpenDisplay(name.encode())
    if display:
        lib.XCloseDisplay(ctypes.c_void_p(display))
    return bool(display)


@contextmanager
def _connection(name):
    lib = _library()
    display = ctypes.c_void_p(lib.XOpenDisplay(name.encode()))
    yield lib, display
    lib.XSync(display, 0)
    lib.XCloseDisplay(display)


def set_wm_state(name, window, state):
    """What a window manager does when it iconifies a window or brings it back."""
    with _connection(name) as (lib, display):
        atom = ctypes.c_ulong(lib.XInternAtom(display, b"WM_STATE", 0))
        data = (ctypes.c_long * 2)(state, 0)
        lib.XChangeProperty(display, ctypes.c_ulong(window), atom, atom, 32, 0, data, 2)


def ask_to_close(name, window):
    """What a window manager does when its close button is pressed."""
    with _connection(name) as (lib, display):
        protocols = lib.XInternAtom(display, b"WM_PROTOCOLS", 0)
        delete = lib.XInternAtom(display, b"WM_DELETE_WINDOW", 0)
        # XClientMessageEvent: type, serial, send_event, display, window, message type, format
        event = struct.pack(
            "@iLiPLLi5l", CLIENT_MESSAGE, 0, 1, display.value, window, protocols, 32,
            delete, 0, 0, 0, 0,
        )  # fmt: skip
        buffer = ctypes.create_string_buffer(event, 192)
        lib.XSendEvent(display, ctypes.c_ulong(window), 0, ctypes.c_long(0), buffer)


def press_keys(name, window, *strokes, start=1):
    """Key events (name of the keysym, whether it goes down), all at once.

    X wants their times to grow: they count from `start`.
    """
    with _connection(name) as (lib, display):
        lib.XStringToKeysym.restype = ctypes.c_ulong
        root = lib.XDefaultRootWindow(display)
        for time, (key, down) in enumerate(strokes, start):
            symbol = ctypes.c_ulong(lib.XStringToKeysym(key.encode()))
            code = lib.XKeysymToKeycode(display, symbol) & 255
            # XKeyEvent: type, serial, send_event, display, window, root, subwindow, time,
            # x, y, x_root, y_root, state, keycode, same_screen
            event = struct.pack(
                "@iLiPLLLLiiiiIIi", KEY_PRESS if down else KEY_RELEASE, 0, 1, display.value,
                window, root, 0, time, 1, 1, 1, 1, 0, code, 1,
            )  # fmt: skip
            buffer = ctypes.create_string_buffer(event, 192)
            lib.XSendEvent(display, ctypes.c_ulong(window), 0, ctypes.c_long(0), buffer)


def set_resources(name, text):
    """The X resources, as xrdb sets them; '' removes them."""
    with _connection(name) as (lib, display):
        root = ctypes.c_ulong(lib.XDefaultRootWindow(display))
        resources, string = (ctypes.c_ulong(atom) for atom in (23, 31))  # Xatom.h
        data = text.encode()
        lib.XChangeProperty(display, root, resources, string, 8, 0, data, len(data))


def move_mouse(name, window, x, y):
    with _connection(name) as (lib, display):
        lib.XWarpPointer(display, 0, ctypes.c_ulong(window), 0, 0, 0, 0, x, y)


def pixel(name, x, y):
    """Red, green, blue of one pixel of the screen."""
    with _connection(name) as (lib, display):
        root = ctypes.c_ulong(lib.XDefaultRootWindow(display))
        planes = ctypes.c_ulong(ALL_PLANES)
        image = ctypes.c_void_p(lib.XGetImage(display, root, x, y, 1, 1, planes, Z_PIXMAP))
        value = lib.XGetPixel(image, 0, 0)
        lib.XDestroyImage(image)
    return value >> 16 & 255, value >> 8 & 255, value & 255


def mapped_window(name, least=400):
    """The window of the screen that is mapped and at least so wide, or 0."""
    with _connection(name) as (lib, display):
        root, parent, count = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.c_uint()
        children = ctypes.POINTER(ctypes.c_ulong)()
        top = ctypes.c_ulong(lib.XDefaultRootWindow(display))
        lib.XQueryTree(
            display, top, ctypes.byref(root), ctypes.byref(parent), ctypes.byref(children),
            ctypes.byref(count),
        )  # fmt: skip
        for number in range(count.value):
            attributes = ctypes.create_string_buffer(192)
            lib.XGetWindowAttributes(display, ctypes.c_ulong(children[number]), attributes)
            width = struct.unpack_from("@i", attributes, 8)[0]
            map_state = struct.unpack_from("@i", attributes, 92)[0]  # Xlib.h, XWindowAttributes
            if map_state == 2 and width >= least:
                return int(children[number])
    return 0


class Pointer:
    """Moves over a window and sees what that changes, on one connection."""

    def __init__(self, name, window):
        self._kept = _connection(name)
        self._lib, self._display = self._kept.__enter__()
        self._window = ctypes.c_ulong(window)

    def move(self, x, y):
        self._lib.XWarpPointer(self._display, 0, self._window, 0, 0, 0, 0, x, y)
        self._lib.XFlush(self._display)

    def color(self, x, y):
        """Of one pixel of the screen, as the server keeps it."""
        root = ctypes.c_ulong(self._lib.XDefaultRootWindow(self._display))
        planes = ctypes.c_ulong(ALL_PLANES)
        image = self._lib.XGetImage(self._display, root, x, y, 1, 1, planes, Z_PIXMAP)
        image = ctypes.c_void_p(image)
        value = self._lib.XGetPixel(image, 0, 0)
        self._lib.XDestroyImage(image)
        return value

    def close(self):
        self._kept.__exit__(None, None, None)
