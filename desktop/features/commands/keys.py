"""Chords of keys: written once, as "Ctrl+Shift+F", for Dear ImGui and for the person."""

from __future__ import annotations

import sys
from functools import lru_cache

from imgui_bundle import imgui

_KEY = imgui.Key
# As integers: joined as enum members, some versions of Python fail to name the sum.
_MODIFIERS = {
    "Ctrl": int(_KEY.mod_ctrl),
    "Shift": int(_KEY.mod_shift),
    "Alt": int(_KEY.mod_alt),
}
_NAMED = {
    "Esc": _KEY.escape, "Enter": _KEY.enter, "Delete": _KEY.delete, "Tab": _KEY.tab,
    "Space": _KEY.space, "PageUp": _KEY.page_up, "PageDown": _KEY.page_down,
    "Home": _KEY.home, "End": _KEY.end,
    "Left": _KEY.left_arrow, "Right": _KEY.right_arrow, "Up": _KEY.up_arrow,
    "Down": _KEY.down_arrow,
    ",": _KEY.comma, ".": _KEY.period, "/": _KEY.slash, "-": _KEY.minus, "=": _KEY.equal,
    "+": _KEY.equal,
    "Keypad+": _KEY.keypad_add, "Keypad-": _KEY.keypad_subtract,
}  # fmt: skip
_MAC = {"Ctrl": "Cmd"}  # Dear ImGui takes the one for the other there


@lru_cache(maxsize=512)
def chord(written: str) -> int:
    """Return the chord as Dear ImGui has it. Raises KeyError where there is no such key."""
    *modifiers, key = parts(written)
    code = _NAMED[key] if key in _NAMED else getattr(_KEY, _plain(key))
    total = int(code)
    for modifier in modifiers:
        total |= _MODIFIERS[modifier]
    return total


def parts(written: str) -> tuple[str, ...]:
    """The keys that are held together, modifiers first; `+` may be the last of them."""
    found: list[str] = []
    rest = written
    while True:
        first, joined, behind = rest.partition("+")
        if not joined or first not in _MODIFIERS:
            return (*found, rest)
        found.append(first)
        rest = behind


def shown(written: str) -> str:
    """Return the chord as a person reads it on this system."""
    if sys.platform != "darwin":
        return written
    return "+".join(_MAC.get(part, part) for part in parts(written))


def _plain(key: str) -> str:
    return f"_{key}" if key.isdigit() else key.lower()
