"""Keys in the names of X and IBus, and in those of Dear ImGui.

The input method gets keysyms and the state of modifiers. On X11 the server's own keyboard map says
which symbol a key has; elsewhere the character that came with the key, or a table of the keys that
make none. Keys that waited for the input method are passed to Dear ImGui as its GLFW backend would:
the backend asks GLFW for the modifiers of now, a key that waited has those of its own moment.
"""

from __future__ import annotations

import ctypes
from typing import Any

from imgui_bundle import imgui  # before glfw: it says which library both must share

# isort: split
import glfw

from llm_lite.desktop.render.window import MODIFIERS, end_frame_of_input

SHIFT, LOCK, CONTROL, ALT, NUM, SUPER = 1, 2, 4, 8, 16, 64  # X's masks: Shift to Mod4
LEVEL3 = 128  # Mod5: AltGr
RELEASE = 1 << 30  # IBUS_RELEASE_MASK
USE_CORE_KEYBOARD = 0x100  # XkbUseCoreKbd
X_OFFSET = 8  # X counts keycodes from here, evdev and IBus from 0
UNICODE = 0x01000000  # keysyms of characters beyond Latin-1
MASKS = (
    (glfw.MOD_SHIFT, SHIFT),
    (glfw.MOD_CAPS_LOCK, LOCK),
    (glfw.MOD_CONTROL, CONTROL),
    (glfw.MOD_ALT, ALT),
    (glfw.MOD_NUM_LOCK, NUM),
    (glfw.MOD_SUPER, SUPER),
)
FUNCTION_KEYS = {
    glfw.KEY_BACKSPACE: 0xFF08, glfw.KEY_TAB: 0xFF09, glfw.KEY_ENTER: 0xFF0D,
    glfw.KEY_PAUSE: 0xFF13, glfw.KEY_SCROLL_LOCK: 0xFF14, glfw.KEY_ESCAPE: 0xFF1B,
    glfw.KEY_HOME: 0xFF50, glfw.KEY_LEFT: 0xFF51, glfw.KEY_UP: 0xFF52, glfw.KEY_RIGHT: 0xFF53,
    glfw.KEY_DOWN: 0xFF54, glfw.KEY_PAGE_UP: 0xFF55, glfw.KEY_PAGE_DOWN: 0xFF56,
    glfw.KEY_END: 0xFF57, glfw.KEY_PRINT_SCREEN: 0xFF61, glfw.KEY_INSERT: 0xFF63,
    glfw.KEY_MENU: 0xFF67, glfw.KEY_NUM_LOCK: 0xFF7F, glfw.KEY_KP_ENTER: 0xFF8D,
    **{glfw.KEY_F1 + n: 0xFFBE + n for n in range(24)},
    glfw.KEY_LEFT_SHIFT: 0xFFE1, glfw.KEY_RIGHT_SHIFT: 0xFFE2, glfw.KEY_LEFT_CONTROL: 0xFFE3,
    glfw.KEY_RIGHT_CONTROL: 0xFFE4, glfw.KEY_CAPS_LOCK: 0xFFE5, glfw.KEY_LEFT_ALT: 0xFFE9,
    glfw.KEY_RIGHT_ALT: 0xFFEA, glfw.KEY_LEFT_SUPER: 0xFFEB, glfw.KEY_RIGHT_SUPER: 0xFFEC,
    glfw.KEY_DELETE: 0xFFFF,
}  # fmt: skip
KEYS_OF = {symbol: key for key, symbol in FUNCTION_KEYS.items()}


class _XkbState(ctypes.Structure):
    """XkbStateRec of X11/extensions/XKBstr.h."""

    _fields_ = (
        ("group", ctypes.c_ubyte), ("locked_group", ctypes.c_ubyte),
        ("base_group", ctypes.c_ushort), ("latched_group", ctypes.c_ushort),
        ("mods", ctypes.c_ubyte), ("others", ctypes.c_ubyte * 9), ("buttons", ctypes.c_ushort),
    )  # fmt: skip


class Keyboard:
    """Finds the keysyms of keys. Without an X display (Wayland): from characters and names only."""

    def __init__(self) -> None:
        self._x: Any = None
        self._display: Any = None
        try:
            package: Any = glfw
            display = package._glfw.glfwGetX11Display
            display.restype = ctypes.c_void_p
            self._display = display()
            self._x = ctypes.CDLL("libX11.so.6") if self._display else None
        except (AttributeError, OSError):
            self._x = None

    def read(self, key: int, scancode: int, action: int, mods: int) -> tuple[int, int, int]:
        """Return keysym, evdev keycode and state, as ProcessKeyEvent takes them."""
        state = sum(mask for mod, mask in MASKS if mods & mod)
        if self._x is None:
            symbol, keycode = _symbol(key, scancode, mods), scancode
        else:
            symbol, state = self._symbol_of_x(scancode, state)
            keycode = scancode - X_OFFSET
        return symbol, max(0, keycode), state | (RELEASE if action == glfw.RELEASE else 0)

    def _symbol_of_x(self, scancode: int, state: int) -> tuple[int, int]:
        """Find the keysym by the server's map, with the layout and AltGr of now, which GLFW does
        not report."""
        now = _XkbState()
        display = ctypes.c_void_p(self._display)
        self._x.XkbGetState(display, USE_CORE_KEYBOARD, ctypes.byref(now))
        state |= now.mods & LEVEL3
        used, symbol = ctypes.c_uint(), ctypes.c_ulong()
        self._x.XkbLookupKeySym(
            display, ctypes.c_ubyte(scancode & 255), ctypes.c_uint(state | (now.group & 3) << 13),
            ctypes.byref(used), ctypes.byref(symbol),
        )  # fmt: skip
        return int(symbol.value), state


def _symbol(key: int, scancode: int, mods: int) -> int:
    if key in FUNCTION_KEYS:
        return FUNCTION_KEYS[key]
    if key == glfw.KEY_SPACE:
        return 0x20
    name = glfw.get_key_name(key, scancode) or ""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    if mods & glfw.MOD_SHIFT and len(text.upper()) == 1:
        text = text.upper()
    return symbol_of(text) if len(text) == 1 else 0


def symbol_of(character: str) -> int:
    """Return a character's keysym; Latin-1 characters are their own keysyms."""
    code = ord(character)
    return code if code < 0x100 else UNICODE | code


def character_of(symbol: int) -> str:
    """Return what a keysym writes; '' where it writes nothing or is not known."""
    code = symbol & ~UNICODE if symbol & 0xFF000000 == UNICODE else symbol
    known = 0x20 <= code < 0x7F or 0xA0 <= code < 0x100 or symbol & 0xFF000000 == UNICODE
    return chr(code) if known and code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else ""


MODS = (
    (glfw.MOD_CONTROL, imgui.Key.mod_ctrl, (glfw.KEY_LEFT_CONTROL, glfw.KEY_RIGHT_CONTROL)),
    (glfw.MOD_SHIFT, imgui.Key.mod_shift, (glfw.KEY_LEFT_SHIFT, glfw.KEY_RIGHT_SHIFT)),
    (glfw.MOD_ALT, imgui.Key.mod_alt, (glfw.KEY_LEFT_ALT, glfw.KEY_RIGHT_ALT)),
    (glfw.MOD_SUPER, imgui.Key.mod_super, (glfw.KEY_LEFT_SUPER, glfw.KEY_RIGHT_SUPER)),
)


# Where the names of the two libraries differ
OTHER_NAMES = {
    "left": "left_arrow", "right": "right_arrow", "up": "up_arrow", "down": "down_arrow",
    "left_control": "left_ctrl", "right_control": "right_ctrl", "world_1": "oem102",
    "world_2": "oem102", "kp_enter": "keypad_enter", "kp_add": "keypad_add",
    "kp_subtract": "keypad_subtract", "kp_multiply": "keypad_multiply",
    "kp_divide": "keypad_divide", "kp_decimal": "keypad_decimal", "kp_equal": "keypad_equal",
    **{f"kp_{n}": f"keypad{n}" for n in range(10)},
    **{str(n): f"_{n}" for n in range(10)},
}  # fmt: skip


# Keys whose place depends on the layout, by what they write; as the backend does
WRITTEN = dict(zip("`-=[]\\,;'./", (
    glfw.KEY_GRAVE_ACCENT, glfw.KEY_MINUS, glfw.KEY_EQUAL, glfw.KEY_LEFT_BRACKET,
    glfw.KEY_RIGHT_BRACKET, glfw.KEY_BACKSLASH, glfw.KEY_COMMA, glfw.KEY_SEMICOLON,
    glfw.KEY_APOSTROPHE, glfw.KEY_PERIOD, glfw.KEY_SLASH,
), strict=True))  # fmt: skip


def _table() -> dict[int, Any]:
    members, found = dict(imgui.Key.__members__), {}
    for name, code in vars(glfw).items():
        if name.startswith("KEY_") and isinstance(code, int) and code >= 0:
            plain = name.removeprefix("KEY_").lower()
            if (target := members.get(OTHER_NAMES.get(plain, plain))) is not None:
                found[code] = target
    return found


TABLE = _table()


def feed(key: int, scancode: int, action: int, mods: int) -> None:
    """Pass one key that went down or up to Dear ImGui."""
    if action == glfw.REPEAT:
        return  # Dear ImGui repeats by itself
    if key in MODIFIERS and action == glfw.RELEASE:
        end_frame_of_input()
    io = imgui.get_io()
    for mod, name, keys in MODS:
        io.add_key_event(name, action == glfw.PRESS if key in keys else bool(mods & mod))
    if (found := TABLE.get(_written(key, scancode))) is not None:
        io.add_key_event(found, action == glfw.PRESS)


def _written(key: int, scancode: int) -> int:
    """Return the key of an American keyboard that writes what this one does, so that shortcuts
    follow the layout."""
    if glfw.KEY_KP_0 <= key <= glfw.KEY_KP_EQUAL or key < 0:
        return key
    name = glfw.get_key_name(key, scancode)
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""
    if len(text) != 1 or not text.isascii():
        return key
    if text.isalnum():
        return ord(text.upper())
    return WRITTEN.get(text, key)
