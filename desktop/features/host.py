"""The base of hosts, the parts of features that need a thread, a process or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from llm_lite.core.handles import Report
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState


class Host:
    """A feature's part of the program that is no function of the state. The program calls its
    methods, on the thread that draws, and none of them waits; what a host finds on threads of its
    own it returns, as actions, when it is polled."""

    actions: ClassVar[tuple[type[Action], ...]] = ()  # actions that it is given
    wake: Callable[[], None] = staticmethod(lambda: None)  # on any thread: `poll` has something

    def do(self, action: Any, state: AppState) -> Sequence[Action]:
        """Begin what `action`, one of `actions`, asks for; return what follows at once. Raises
        FileError."""
        return ()

    def take(self, report: Report, state: AppState) -> None:
        """Note an event of the engine, which `state` has folded."""

    def poll(self, state: AppState) -> Sequence[Action]:
        """Return what was found since the last time."""
        return ()

    def close(self, state: AppState) -> None:
        """End threads and processes, within a second."""
