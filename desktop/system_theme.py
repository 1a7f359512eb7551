"""The theme of the system's own windows, which a thread asks for every few seconds.

On Linux the question is a process of its own, which may be missing or hang: nothing waits for the
answer, and without one the theme stays as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Literal

ThemeName = Literal["dark", "light"]
Appearance = Literal["system", "dark", "light"]  # the theme that a person chose

PERIOD = 4.0  # seconds between two questions
LONGEST = 3.0  # seconds for an answer
MOST_FAILURES = 3  # then the system has no answer, and is asked no more


class SystemTheme:
    """Watches the system's theme; `changed` is called from the thread for each new answer."""

    def __init__(
        self,
        changed: Callable[[], None],
        read_theme: Callable[[], ThemeName | None] | None = None,
        period: float = PERIOD,
    ) -> None:
        self._changed, self._period = changed, period
        self._read_theme = read_theme or ask_system
        self._known: ThemeName | None = None
        self._news: ThemeName | None = None
        self._ended = threading.Event()
        self.wanted = threading.Event()  # a person follows the system
        self._thread = threading.Thread(target=self._work, name="theme", daemon=True)
        self._thread.start()

    def watch(self, wanted: bool) -> None:
        """Set whether the thread asks the system at all."""
        if wanted != self.wanted.is_set():
            self.wanted.set() if wanted else self.wanted.clear()

    def take(self) -> ThemeName | None:
        """Return the theme if it changed since the last call."""
        news, self._news = self._news, None
        return news

    def close(self) -> None:
        """End the thread without waiting: a question that hangs is left behind."""
        self._ended.set()
        self.wanted.set()

    def _work(self) -> None:
        failures = 0
        while self.wanted.wait() and not self._ended.is_set() and failures < MOST_FAILURES:
            try:
                found = self._read_theme()
            except Exception:  # of the system's own library; no answer is one too
                found = None
            failures = failures + 1 if found is None else 0
            if found is not None and found != self._known and not self._ended.is_set():
                self._known = self._news = found
                self._changed()
            self._ended.wait(self._period)


def ask_system() -> ThemeName | None:
    """Return the theme that the system has now; None where it has no such setting."""
    if sys.platform.startswith("linux") and not _has_setting():
        return None  # the library would take it for light
    import darkdetect

    theme = darkdetect.theme()
    return None if theme is None else "dark" if theme == "Dark" else "light"


def _has_setting() -> bool:
    """Return True if GNOME's color scheme can be read within the time limit."""
    tool = shutil.which("gsettings")
    if tool is None:
        return False
    command = [tool, "get", "org.gnome.desktop.interface", "color-scheme"]
    try:
        result = subprocess.run(command, capture_output=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return result.returncode == 0 and bool(result.stdout.strip())
