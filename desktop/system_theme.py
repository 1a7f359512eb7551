"""Whether the system's own windows are dark: asked on a thread, again and again while it runs.

On Linux the question is a process of its own, which may be missing or hang: nobody waits for the
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
    """`tell` is called from the thread, first when the answer is there, then when it is another."""

    def __init__(
        self,
        tell: Callable[[], None],
        ask: Callable[[], ThemeName | None] | None = None,
        period: float = PERIOD,
    ) -> None:
        self._tell, self._ask, self._period = tell, ask or ask_system, period
        self._known: ThemeName | None = None
        self._news: ThemeName | None = None
        self._ended = threading.Event()
        self.wanted = threading.Event()  # a person follows the system
        self._thread = threading.Thread(target=self._work, name="theme", daemon=True)
        self._thread.start()

    def follow(self, wanted: bool) -> None:
        """Whether the system is to be asked at all."""
        if wanted != self.wanted.is_set():
            self.wanted.set() if wanted else self.wanted.clear()

    def take(self) -> ThemeName | None:
        """The theme, where it is news."""
        news, self._news = self._news, None
        return news

    def close(self) -> None:
        """It ends by itself: a question that hangs is left behind."""
        self._ended.set()
        self.wanted.set()

    def _work(self) -> None:
        failures = 0
        while self.wanted.wait() and not self._ended.is_set() and failures < MOST_FAILURES:
            try:
                found = self._ask()
            except Exception:  # of the system's own library; no answer is one too
                found = None
            failures = failures + 1 if found is None else 0
            if found is not None and found != self._known and not self._ended.is_set():
                self._known = self._news = found
                self._tell()
            self._ended.wait(self._period)


def ask_system() -> ThemeName | None:
    """What the system says now; None where it has no such setting."""
    if sys.platform.startswith("linux") and not _has_setting():
        return None  # the library would take it for light
    import darkdetect

    told = darkdetect.theme()
    return None if told is None else "dark" if told == "Dark" else "light"


def _has_setting() -> bool:
    """Whether the desktop knows of themes at all, within a time limit."""
    tool = shutil.which("gsettings")
    if tool is None:
        return False
    command = [tool, "get", "org.gnome.desktop.interface", "color-scheme"]
    try:
        told = subprocess.run(command, capture_output=True, timeout=LONGEST, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return told.returncode == 0 and bool(told.stdout.strip())
