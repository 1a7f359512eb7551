"""An address of the page, and who answers there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_lite.server.call import answered
from llm_lite.server.shared import Shared


class Row(Struct, frozen=True):
    path: str
    method: str
    handle: Callable[[Request], Awaitable[Response]]

    def route(self, shared: Shared) -> Route:
        async def answer(request: Request) -> Response:
            return await answered(shared, lambda: self.handle(request))

        return Route(self.path, answer, methods=[self.method])
