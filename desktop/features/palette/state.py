"""The command palette keeps its search of the history, what was found, and earlier choices."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.desktop.features.history.state import FoundRow

MOST_RECENT = 12  # choices that are remembered
LONGEST_CHOICE = 300  # characters


class PaletteState(Struct, frozen=True):
    """`recent` are keys of choices, the last one first."""

    query: str = ""
    found: tuple[FoundRow, ...] = ()
    found_for: str = ""
    recent: tuple[str, ...] = ()

    def chose(self, key: str) -> tuple[str, ...]:
        return (key, *(other for other in self.recent if other != key))[:MOST_RECENT]
