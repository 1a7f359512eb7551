"""What the first frame does not need, made beside it: the conversations that are kept, the engine,
and the lists of what there is.

To import the engine takes a quarter of a second of Python, to ask for devices a while of the
drivers; on the thread that draws, the window would be seen and not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_lite.core.gpu.device import Device
from llm_lite.desktop.app.program import Lists, lists

if TYPE_CHECKING:
    from llm_lite.desktop.app.keeping.keeper import HistoryKeeper


class Starter:
    """`heard` is the engine's `wake`, and is called once more when `take` has something. Where
    `history` is None, conversations are not kept."""

    def __init__(
        self, device: Device, heard: Callable[[], None], variants: Path, history: Path | None = None
    ) -> None:
        self._history = history
        self._keeper: HistoryKeeper | None = None
        self._arguments = (device, heard, variants)
        self._made: tuple[Any, Lists] | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="starter", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._begin_keeper()
            from llm_lite.core.engine.engine import Engine

            self._made = (Engine(*self._arguments), lists())
        except BaseException as error:  # told where `take` is called
            self._error = error
        self._arguments[1]()

    def _begin_keeper(self) -> None:
        if self._history is None:
            return
        from llm_lite.desktop.app.keeping.keeper import HistoryKeeper

        self._keeper = HistoryKeeper(self._history, self._arguments[1])
        self._arguments[1]()

    def take_keeper(self) -> HistoryKeeper | None:
        """Once, when it is there; before the engine."""
        keeper, self._keeper = self._keeper, None
        return keeper

    def take(self) -> tuple[Any, Lists] | None:
        """Engine and lists, once, when they are there. Raises what kept them from being made."""
        if self._error is not None:
            raise self._error
        made, self._made = self._made, None
        return made

    @property
    def engine(self) -> Any:
        """The engine that nobody took, or None."""
        return self._made[0] if self._made is not None else None

    def wait(self, seconds: float) -> bool:
        """Whether the work is over."""
        self._thread.join(seconds)
        return not self._thread.is_alive()
