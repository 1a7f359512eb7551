"""Errors have the form of OpenAI's protocol: a status, and an object that says more."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

from msgspec import Struct, to_builtins
from starlette.responses import Response

from llm_lite.core.errors import (
    BusyError,
    GoneError,
    LlmLiteError,
    RequestError,
    TooLongError,
    UnavailableError,
)
from llm_lite.server.schema import about

AGAIN = 5.0  # seconds, after which a client may ask again where no answer was made
NO_MODEL = "no model is loaded yet: ask again when one is"
_TYPES = {  # by status, as OpenAI names them
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ErrorDetails(Struct, kw_only=True):
    message: Annotated[str, about("A sentence.")]
    type: str
    param: Annotated[str | None, about("The field at fault.")]
    code: str | None


class Error(Struct):
    error: ErrorDetails


class ApiError(Exception):
    """A client gets this instead of an answer. `param` is the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        closes: bool = False,
    ) -> None:
        """closes: the rest of the request is not read, whatever the status."""
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after = retry_after
        self.closes = closes or status in (408, 413, 431)

    @property
    def kind(self) -> str:
        known = "invalid_request_error" if self.status < 500 else "server_error"
        return _TYPES.get(self.status, known)

    def body(self) -> Error:
        return Error(
            ErrorDetails(message=self.message, type=self.kind, param=self.param, code=self.code)
        )

    def response(self) -> Response:
        headers = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.closes:
            headers["connection"] = "close"
        return json_response(self.body(), self.status, headers)


def of_core(error: LlmLiteError) -> ApiError:
    """Return an error of the engine as a client gets it."""
    if isinstance(error, BusyError):
        return ApiError(429, str(error), code="server_busy", retry_after=error.seconds)
    if isinstance(error, UnavailableError):
        return no_model(str(error), error.seconds)
    if isinstance(error, GoneError):
        return ApiError(404, str(error), code="response_not_found")
    if isinstance(error, TooLongError):  # by this code editors come to send less
        return ApiError(400, str(error), code="context_length_exceeded")
    if isinstance(error, RequestError):
        return ApiError(400, str(error))
    return ApiError(503, str(error))


def no_model(sentence: str = NO_MODEL, seconds: float = AGAIN) -> ApiError:
    return ApiError(503, sentence, code="no_model", retry_after=seconds)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json_text(value, (",", ":")).encode(), status, headers, "application/json")


def json_text(value: Any, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Return the JSON of a value that may have structs in it; ValueError where a number is NaN."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=separators, default=to_builtins
    )
