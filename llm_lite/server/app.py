"""The server's application: addresses, and the guard before them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_lite.core.plain_text import one_line
from llm_lite.server.call import Endpoint, carry_out
from llm_lite.server.failures import ApiError
from llm_lite.server.page import Page
from llm_lite.server.routes import ENDPOINTS
from llm_lite.server.security import Guard
from llm_lite.server.shared import Shared

_LONGEST_PATH = 120  # characters that an error repeats
_OF_V1 = frozenset(row.path for row in ENDPOINTS if row.path.startswith("/v1/"))


def make_app(shared: Shared, page: Page | None = None) -> Starlette:
    """An application of ASGI, with a page for browsers where one is given."""
    routes = [
        Route(path, _handler(row, shared), methods=[row.method], include_in_schema=False)
        for row in ENDPOINTS
        for path in (row.path, row.alias)
        if path
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
    path, message = request.url.path, error.detail
    shown = one_line(path[:_LONGEST_PATH])
    if error.status_code == 404:
        message = f"this server has no address {shown}"
        if f"/v1{path}" in _OF_V1:  # a base URL without its end
            message += f": did you mean /v1{path}?"
    allowed = (error.headers or {}).get("Allow", "")
    if error.status_code == 405:
        message = f"{shown} does not take {one_line(request.method[:16])}, but {allowed}"
    response = ApiError(error.status_code, message).response()
    if allowed:
        response.headers["allow"] = allowed
    return response
