"""Keeps the settings file in step with what a person changes, and speaks up once when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from llm_lite.core.records import replace
from llm_lite.desktop.app.docking.layout import LAYOUT_VERSION
from llm_lite.desktop.app.settings import load, remember, save
from llm_lite.desktop.features.program.settings import WindowPlace
from llm_lite.desktop.features.program.state import AppState

DELAY = 2.0  # seconds between a change and its writing


class SettingsStore:
    """`settings` is what the next start will find."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings, self.problems = load(path)
        self._written = self.settings
        self._changed_at: float | None = None
        self._failed = False

    def update(
        self,
        state: AppState,
        window: WindowPlace,
        now: float,
        complain: Callable[[str], None],
        *,
        layout: str | None = None,
        at_once: bool = False,
    ) -> None:
        """Note what is to be remembered; write it a moment after the last change."""
        wanted = replace(remember(state, self.settings), window=window)
        if layout is not None:
            wanted = replace(wanted, layout=layout, layout_version=LAYOUT_VERSION)
        if wanted != self.settings:
            self.settings, self._changed_at = wanted, now
        due = self._changed_at is not None and (at_once or now - self._changed_at >= DELAY)
        if due and self.settings != self._written:
            self._write(complain)
        if due:
            self._changed_at = None

    def _write(self, complain: Callable[[str], None]) -> None:
        problem = save(self.settings, self.path)
        if not problem:
            self._written, self._failed = self.settings, False
        elif not self._failed:
            self._failed = True
            complain(problem)
