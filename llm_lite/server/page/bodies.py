"""What a request says, field by field: each with a type, a limit and a sentence."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from llm_lite.core.errors import BusyError, GoneError, LlmLiteError, RequestError

MOST_BYTES = 8 << 20  # of a body
LONGEST = 2_000_000  # characters of a message
_JSON_DIGITS = 20

Handler = Callable[[Request], Awaitable[Response]]


def answering(handler: Handler) -> Handler:
    """Whatever is expected to go wrong becomes a sentence with a status, as OpenAI's errors have
    it."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except HTTPException as error:
            return problem(error.status_code, str(error.detail))
        except GoneError as error:
            return problem(410, str(error))
        except BusyError as error:
            return problem(429, str(error))
        except RequestError as error:
            return problem(400, str(error))
        except LlmLiteError as error:
            return problem(500, str(error))
        except ClientDisconnect:
            return Response(status_code=400)

    return answer


def problem(status: int, sentence: str) -> JSONResponse:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"message": sentence, "type": kind, "param": None, "code": None}}
    return JSONResponse(body, status)


async def fields(request: Request) -> Mapping[str, Any]:
    """The object that the body is. Only a page of this server may send one: a form of another
    page cannot say that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"Content-Type: expected application/json, found {kind[:40]!r}")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the body is longer than {MOST_BYTES:,} bytes")
    try:
        found = json.loads(body or b"{}", parse_int=_whole)
    except (ValueError, RecursionError):
        raise RequestError("the body is no JSON") from None
    if not isinstance(found, dict):
        raise RequestError("the body: expected an object")
    return found


def _whole(digits: str) -> int:
    if len(digits) > _JSON_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def text(
    body: Mapping[str, Any], name: str, default: str | None = None, most: int = LONGEST
) -> str:
    found = body.get(name, default)
    if not isinstance(found, str):
        raise RequestError(f"{name}: expected a text")
    if len(found) > most:
        raise RequestError(f"{name}: {len(found):,} characters, at most {most:,}")
    return found.encode("utf-8", "replace").decode()  # lone surrogates have no place in the file


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
