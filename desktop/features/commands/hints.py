"""Hints and views name the keys of commands."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.features.commands.keys import chord, shown
from llm_lite.desktop.features.commands.table import BY_NAME


def keys_of(name: str) -> str:
    """Return the keys of a command as a person reads them; "" where it has none."""
    keys = BY_NAME[name].keys
    return shown(keys[0]) if keys else ""


def with_keys(words: str, name: str) -> str:
    """Return a hint with the keys that do the same: "New chat (Ctrl+N)"."""
    keys = keys_of(name)
    return f"{words} ({keys})" if keys else words


def is_pressed(name: str) -> bool:
    """Tell whether the keys of a command that works in one place went down just now."""
    return any(imgui.is_key_chord_pressed(chord(key)) for key in BY_NAME[name].keys)
