"""The keys of a command, for those who speak of it."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.desktop.features.commands.keys import chord, shown
from llm_lite.desktop.features.commands.table import BY_NAME


def keys_of(name: str) -> str:
    """As a person reads them; "" where the command has none."""
    keys = BY_NAME[name].keys
    return shown(keys[0]) if keys else ""


def with_keys(words: str, name: str) -> str:
    """A hint, and the keys that do the same: "New chat (Ctrl+N)"."""
    keys = keys_of(name)
    return f"{words} ({keys})" if keys else words


def is_pressed(name: str) -> bool:
    """Whether the keys of a command that works in one place went down just now."""
    return any(imgui.is_key_chord_pressed(chord(key)) for key in BY_NAME[name].keys)
