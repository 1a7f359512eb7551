"""What the command palette asked of the history, what was found, and what was chosen before."""

from __future__ import annotations

from llm_lite.core.records import dataclass
from llm_lite.desktop.state.history_state import FoundRow

MOST_RECENT = 12  # choices that are remembered
LONGEST_CHOICE = 300  # characters


@dataclass(frozen=True, slots=True)
class PaletteState:
    """`recent` are keys of choices, the last one first."""

    query: str = ""
    found: tuple[FoundRow, ...] = ()
    found_for: str = ""
    recent: tuple[str, ...] = ()

    def chose(self, key: str) -> tuple[str, ...]:
        return (key, *(other for other in self.recent if other != key))[:MOST_RECENT]
