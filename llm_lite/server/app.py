"""The server's application: addresses, and the guard before them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_lite.server.call import carry_out
from llm_lite.server.failures import ApiError
from llm_lite.server.page import Page
from llm_lite.server.routes import ENDPOINTS
from llm_lite.server.security import Guard
from llm_lite.server.shared import Shared
from llm_lite.server.tables.endpoint import Endpoint

_OF_V1 = frozenset(row.path for row in ENDPOINTS if row.path.startswith("/v1/"))


def make_app(shared: Shared, page: Page | None = None) -> Starlette:
    """An application of ASGI, with a page for browsers where one is given."""
    routes = [
        Route(row.path, _handler(row, shared), methods=[row.method], include_in_schema=False)
        for row in ENDPOINTS
    ]
    open_paths = [row.path for row in ENDPOINTS if row.is_open]
    if page is not None:
        routes += page.routes()
        open_paths += page.open_paths
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, shared, open_paths)],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return app


def _handler(row: Endpoint, shared: Shared) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return await carry_out(row, shared, request)

    return handle


async def _refused(request: Request, error: Exception) -> Response:
    """Addresses and methods that there are not."""
    assert isinstance(error, HTTPException)
    words: dict[int, Any] = {404: "there is no such address", 405: "this address is not asked so"}
    message = words.get(error.status_code, error.detail)
    if error.status_code == 404 and f"/v1{request.url.path}" in _OF_V1:
        message += f": did you mean /v1{request.url.path}?"  # a base URL without its end
    return ApiError(error.status_code, f"{request.method}: {message}").response()
