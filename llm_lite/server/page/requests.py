"""The addresses of the page declare themselves and read their requests by these types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Self, TypeVar

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_lite.core.checked import CheckError
from llm_lite.server import schema
from llm_lite.server.call import answered, read_body
from llm_lite.server.shared import Shared

T = TypeVar("T")
LongText = Annotated[str, Meta(max_length=2_000_000)]  # of a message


class PageRoute(Struct, frozen=True):
    """A route has an address of the page, and the function that answers there."""

    path: str
    method: str
    handle: Callable[[Request], Awaitable[Response]]

    def route(self, shared: Shared) -> Route:
        async def answer(request: Request) -> Response:
            return await answered(shared, lambda: self.handle(request))

        return Route(self.path, answer, methods=[self.method])


class Id(int, schema.Custom):
    """JSON has the number as a text, as a browser has no numbers of 63 bits."""

    @classmethod
    def read(cls, value: Any) -> Self:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
            found = int(value)
            if found < 1 << 63:
                return cls(found)
        raise CheckError("", "expected a number as text")


async def body_of(shared: Shared, request: Request, kind: type[T]) -> T:
    """Return the body of a request as a struct."""
    found: T = await read_body(shared, request, partial(schema.read, kind))
    return found


def id_in_path(request: Request, name: str) -> int:
    try:
        return int(Id.read(request.path_params[name]))
    except CheckError as error:
        raise CheckError(name, error.sentence) from None


def count(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Return a number of the query."""
    found = request.query_params.get(name)
    if found is None:
        return default
    if not (found.isascii() and found.isdigit() and len(found) < 12 and low <= int(found) <= high):
        raise CheckError(name, f"expected a whole number from {low} to {high}")
    return int(found)
