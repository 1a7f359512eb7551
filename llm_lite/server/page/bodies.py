"""What a request says, field by field: each with a type, a limit and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from llm_lite.core.errors import RequestError
from llm_lite.server.call import read_body
from llm_lite.server.shared import Shared

LONGEST = 2_000_000  # characters of a message


async def fields(shared: Shared, request: Request) -> Mapping[str, Any]:
    """The object that the body is."""
    found = await read_body(shared, request)
    if not isinstance(found, dict):
        raise RequestError("the body: expected an object")
    return found


def text(
    body: Mapping[str, Any], name: str, default: str | None = None, most: int = LONGEST
) -> str:
    found = body.get(name, default)
    if not isinstance(found, str):
        raise RequestError(f"{name}: expected a text")
    if len(found) > most:
        raise RequestError(f"{name}: {len(found):,} characters, at most {most:,}")
    return found


def flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    found = body.get(name, default)
    if not isinstance(found, bool):
        raise RequestError(f"{name}: expected true or false")
    return found


def number(value: object, name: str) -> int:
    """An id, which JSON has as text: numbers of 63 bits are none in a browser."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        found = int(value)
        if found < 1 << 63:
            return found
    raise RequestError(f"{name}: expected a number as text")


def optional_number(body: Mapping[str, Any], name: str) -> int | None:
    found = body.get(name)
    return None if found is None else number(found, name)


def reals(body: Mapping[str, Any], name: str, most: int) -> tuple[float, ...]:
    found = body.get(name, [])
    if not isinstance(found, list) or len(found) > most:
        raise RequestError(f"{name}: expected a list of at most {most:,} numbers")
    if not all(isinstance(one, int | float) and abs(one) <= 1e6 for one in found):
        raise RequestError(f"{name}: expected numbers")
    return tuple(float(one) for one in found)


def count(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A number of the query."""
    found = request.query_params.get(name)
    if found is None:
        return default
    if not (found.isascii() and found.isdigit() and len(found) < 12 and low <= int(found) <= high):
        raise RequestError(f"{name}: expected a number from {low} to {high}")
    return int(found)
