"""The weight mode, which whoever holds the server's key may switch; all who look at it see it."""

from __future__ import annotations

from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ACTIVATIONS, MODES, ModeSwitch
from llm_lite.core.serving.service import Service
from llm_lite.server.failures import ApiError
from llm_lite.server.page import bodies
from llm_lite.server.page.row import Row
from llm_lite.server.shared import Shared

Choice = TypeVar("Choice", bound=str)


class Modes:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def rows(self) -> list[Row]:
        return [Row("/page/mode", "POST", self._switch), Row("/page/mode", "DELETE", self._cancel)]

    async def _switch(self, request: Request) -> Response:
        """Begin it: 202, and `/page/status` says how it goes. 200 where the model runs so already,
        409 while another switch is under way."""
        body = await bodies.fields(self._shared, request)
        mode = _one_of(body.get("mode"), MODES, "mode")
        activations = _one_of(body.get("activations", "auto"), ACTIVATIONS, "activations")
        service = self._shared.service()
        if (service.options.mode, service.options.activations) == (mode, activations):
            return JSONResponse({"switch": switch_of(service)})
        try:
            service.modes.ask(mode, activations)
        except RequestError as error:
            raise ApiError(409, str(error)) from None
        return JSONResponse({"switch": switch_of(service)}, 202)

    async def _cancel(self, request: Request) -> Response:
        """End the one under way, if there is one."""
        self._shared.service().modes.cancel()
        return Response(status_code=204)


def _one_of(said: object, choices: tuple[Choice, ...], name: str) -> Choice:
    for choice in choices:
        if said == choice:
            return choice
    raise RequestError(f"{name}: expected one of {', '.join(choices)}")


def switch_of(service: Service) -> dict[str, Any] | None:
    """None where none was asked for."""
    switch: ModeSwitch | None = service.modes.last
    if switch is None:
        return None
    return {
        "number": switch.number,
        "mode": switch.mode,
        "activations": switch.activations,
        "phase": switch.phase,
        "stage": switch.stage,
        "fraction": switch.fraction,
        "problem": switch.problem,
    }
