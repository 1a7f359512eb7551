"""A row for each address of the server: what it takes, what it gives, and who carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct
from starlette.responses import Response

from llm_lite.server.tables.kinds import Kind
from llm_lite.server.tables.records import Field, Record

JSON = "application/json"
EVENTS = "text/event-stream"


class Given(Struct, frozen=True):
    """What is answered when all is well, by media type; None: of a form of its own."""

    about: str
    forms: tuple[tuple[str, Kind | None], ...]


class Endpoint(Struct, frozen=True):
    method: Literal["GET", "POST"]
    path: str
    about: str
    handle: Callable[[Any], Awaitable[Response]]  # of a `Call`
    given: Given
    body: Record | None = None
    query: tuple[Field, ...] = ()  # of texts: numbers are read from them
    in_path: tuple[Field, ...] = ()
    finds: str = ""  # what may not be found
    needs_model: bool = True
    is_open: bool = False  # to all, without a key
