"""Keys that waited for the input method, passed to Dear ImGui as its GLFW backend would.

The backend asks GLFW for the modifiers of now; a key that waited has those of its own moment.
"""

from __future__ import annotations

from typing import Any

from imgui_bundle import imgui

# isort: split
import glfw

from llm_lite.desktop.render.window import MODIFIERS, end_frame_of_input

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
