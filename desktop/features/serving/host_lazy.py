"""What the program has of the server while it is off: nothing is imported until it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.model import ServingHostAction, SwitchServing

if TYPE_CHECKING:
    from llm_lite.desktop.features.serving.host import ServingHost

CLOSE_SECONDS = 0.3  # for the server to end its answers; only where it is on


class LazyServingHost(Host):
    """The server, made when it is first switched on. `service_of` gives the engine's service,
    `coming` the name of the model that is being loaded."""

    actions = get_args(ServingHostAction)

    def __init__(self, service_of: Callable[[], Any], coming: Callable[[], str]) -> None:
        self._service_of, self._coming = service_of, coming
        self._host: ServingHost | None = None

    def do(self, action: ServingHostAction, state: AppState) -> list[Action]:
        if self._host is None:
            if action != SwitchServing(True):
                return []
            from llm_lite.desktop.features.serving.host import ServingHost, key_file

            self._host = ServingHost(
                self._service_of, self._coming, lambda: self.wake(), key_file()
            )
        return self._host.do(action, state)

    def poll(self, state: AppState) -> list[Action]:
        return self._host.poll(state) if self._host is not None else []

    def close(self, state: AppState, timeout: float = CLOSE_SECONDS) -> None:
        if self._host is not None:
            self._host.close(timeout)
