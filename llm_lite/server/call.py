"""A `Call` is one request, with its body and parameters as its `Endpoint` declares them."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import threading
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec import Struct, field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from llm_lite.core.checked import CheckError
from llm_lite.core.errors import LlmLiteError
from llm_lite.core.plain_text import one_line
from llm_lite.core.serving.service import Service
from llm_lite.core.text.sandbox.process import cancelled_by
from llm_lite.core.tools.json_values import JsonProblem, read_json
from llm_lite.server.event_bridge import ClientLeft
from llm_lite.server.failures import ApiError, of_core
from llm_lite.server.schema import IGNORED, Body, Query, read_query
from llm_lite.server.schema import read_body as read_struct
from llm_lite.server.shared import PassingBody, Shared

Result = TypeVar("Result")
JSON = "application/json"
LARGE = 64 << 10  # bytes of a body from which its request is prepared among few others
_READ_AT_ONCE = 128 << 10  # bytes of a body, in the event loop
_DROPPED = 4  # times as much as may be
_LONGEST_NAME = 48  # characters of what a client calls itself
_MOST_NAMED, _LONGEST_NAMED = 8, 64  # members of a body that are ignored; characters of each
_NO_NAME = re.compile(r"[^!-+\--~]")  # what is no printable ASCII, or parts names in a header


class Given(Struct, frozen=True):
    """This is what is answered when all is well: a type by media type, None where it has no
    schema."""

    about: str
    forms: tuple[tuple[str, Any], ...]


class Endpoint(Struct, frozen=True):
    """A row for an address of the server: what it takes, what it gives, and the function that
    answers."""

    method: Literal["GET", "POST"]
    path: str
    about: str
    handle: Callable[[Call], Awaitable[Response]]
    given: Given
    body: type[Body] | None = None
    query: type[Query] | None = None
    in_path: type[Query] | None = None
    finds: str = ""  # what may not be found
    needs_model: bool = True
    is_open: bool = False  # to all, without a key
    alias: str = ""  # an older path, at which the same is answered


class Call(Struct, frozen=True):
    """`body`, `query` and `in_path` are of the types that the endpoint declares, or None."""

    request: Request
    shared: Shared
    body: Any
    query: Any
    in_path: Any
    ignored: tuple[str, ...] = ()  # fields of the body that are ignored
    unread: list[str] = field(default_factory=list)  # those that prove to be without effect

    @property
    def service(self) -> Service:
        return self.shared.service()

    @property
    def client(self) -> str:
        return client_of(self.request, getattr(self.body, "user", None))

    async def in_thread(
        self,
        work: Callable[[Callable[[], bool]], Result],
        *,
        at_length: bool = False,
        is_large: bool = False,
    ) -> Result:
        """Return what `work` returns, which may take longer than a loop can wait: see
        `Shared.in_thread`; that of a large body is large. `work` is given a function that says
        whether the client has left; then this raises ClientLeft."""
        left = threading.Event()

        def guarded() -> Result:
            with cancelled_by(left.is_set, ends_process=False):
                return work(left.is_set)

        made = asyncio.ensure_future(
            self.shared.in_thread(
                self.client,
                guarded,
                at_length=at_length,
                is_large=is_large or getattr(self.request.state, "body_bytes", 0) > LARGE,
            )
        )
        leaving = asyncio.create_task(self.left())
        try:
            await asyncio.wait((made, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not made.done():
                raise ClientLeft("the client has left")
            return made.result()
        finally:
            left.set()
            leaving.cancel()
            made.cancel()

    async def prepared(self, work: Callable[[], Result]) -> Result:
        """Return what `work` makes of the body. That of a large one is made in a thread, so that no
        stream waits for it."""
        if getattr(self.request.state, "body_bytes", 0) <= _READ_AT_ONCE:
            return work()
        return await self.in_thread(lambda _: work())

    async def left(self) -> None:
        """Wait until the client has left. The body has been read: nothing else comes."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def client_of(request: Request, user: object = None) -> str:
    """Return the name under which a client takes turns: its address, and its user or program."""
    address = address_of(request)
    named = user or request.headers.get("user-agent", "")
    return one_line(f"{address} {str(named)[:_LONGEST_NAME]}".strip())


def address_of(request: Request) -> str:
    """Return the address by which a client takes turns: of IPv6 the network, where one machine may
    have any number of addresses."""
    found = request.client.host if request.client else "?"
    try:
        address = ipaddress.ip_address(found.partition("%")[0])
    except ValueError:  # what a proxy calls it
        return _NO_NAME.sub("?", found)[:_LONGEST_NAME] or "?"
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


async def answer_request(endpoint: Endpoint, shared: Shared, request: Request) -> Response:
    """Return the answer to a request, or the sentence on what is wrong with it."""

    call: Call | None = None

    async def handle() -> Response:
        nonlocal call
        call = await _read(endpoint, shared, request)
        return await endpoint.handle(call)

    response = await answered(shared, handle)
    ignored = _in_a_header([*call.ignored, *call.unread]) if call is not None else ()
    if ignored:
        response.headers[IGNORED] = ", ".join(ignored)
        shared.note_ignored(endpoint.path, ignored)
    shared.counts[endpoint.path, response.status_code] += 1
    return response


async def answered(shared: Shared, handle: Callable[[], Awaitable[Response]]) -> Response:
    """Return what `handle` returns; turn what it raises into the answer that a client gets."""
    try:
        try:
            return await handle()
        except CheckError as problem:
            raise ApiError(400, str(problem), param=problem.at or None) from None
        except LlmLiteError as error:
            raise of_core(error) from None
    except ApiError as error:
        return error.response()
    except (ClientDisconnect, ClientLeft):
        return Response(status_code=499)  # nobody reads it
    except Exception:
        shared.log(f"internal error, please report it: {traceback.format_exc()}")
        return ApiError(500, "an internal error of the server; its log has the details").response()


async def _read(endpoint: Endpoint, shared: Shared, request: Request) -> Call:
    query = endpoint.query and read_query(endpoint.query, request.query_params)
    in_path = endpoint.in_path and read_query(endpoint.in_path, request.path_params)
    body: Body | None = None
    ignored: list[str] = []
    if endpoint.body is not None:
        body, ignored = await read_body(shared, request, partial(_read_whole, endpoint.body))
    if endpoint.needs_model:
        shared.service()
    return Call(request, shared, body, query, in_path, _in_a_header(ignored))


def _read_whole(kind: type[Body], value: Any) -> tuple[Body, list[str]]:
    """Return the body, and the names of what is not kept to, which a large schema takes long."""
    body, ignored = read_struct(kind, value)
    return body, [*ignored, *body.unkept()]


def _in_a_header(names: list[str]) -> tuple[str, ...]:
    different = list(dict.fromkeys(names))[:_MOST_NAMED]
    return tuple(_NO_NAME.sub("?", name)[:_LONGEST_NAMED] or "?" for name in different)


async def read_body(
    shared: Shared, request: Request, read: Callable[[Any], Any] = lambda value: value
) -> Any:
    """Return the JSON of a body, converted by `read`. A large one is read in a thread, so that no
    stream waits for it.

    Only a page of this server may send one: a form of another page cannot say that it is JSON.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise ApiError(415, f"expected a body of type {JSON}, found {media[:64]!r}")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise ApiError(415, f"expected a body as it is, found the coding {coding[:64]!r}")
    most = shared.config.body_bytes
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > _DROPPED * most:
        raise _too_large(most)
    raw = bytearray()
    try:
        await _receive_all(shared, request, raw)
        request.state.body_bytes = len(raw)
        if len(raw) <= _READ_AT_ONCE:
            return read(_parsed(raw, most))
        work = partial(_read_parsed, raw, most, read)
        return await shared.in_thread(client_of(request), work, is_large=True)
    finally:
        shared.body_bytes -= len(raw)


def _read_parsed(raw: bytearray, most: int, read: Callable[[Any], Any]) -> Any:
    return read(_parsed(raw, most))


def _parsed(raw: bytearray, most: int) -> Any:
    """Return the value; raise ApiError where the body is not JSON."""
    try:
        return read_json(raw.decode(), most)
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8 at byte {error.start}") from None
    except JsonProblem as problem:
        raise ApiError(400, f"the body is not valid JSON: {problem}") from None


async def _receive_all(shared: Shared, request: Request, raw: bytearray) -> None:
    """Receive a body into `raw`; raise ApiError where it is late or too large. While a body
    comes, its request does not count as active: any number can be half sent."""
    seconds = shared.config.body_seconds
    address = address_of(request)
    timeout = asyncio.timeout(seconds)
    coming = PassingBody(address, timeout)
    shared.active.end(address)
    try:
        async with timeout:
            with shared.bodies.place(coming):
                await _receive(shared, request, raw, coming)
    except TimeoutError:
        late = ApiError(408, f"the body did not come within {seconds:g} seconds")
        raise coming.refusal or late from None
    finally:
        shared.active.begin(address)
    if coming.refusal is not None:  # with its last piece
        raise coming.refusal
    shared.active.check(address, counted=True)


async def _receive(shared: Shared, request: Request, raw: bytearray, coming: PassingBody) -> None:
    """Receive a body into `raw`. Of one that is too large more is taken, but not all, so that
    its client comes to read why; then ApiError is raised."""
    most, taken, more = shared.config.body_bytes, 0, True
    while more and taken <= _DROPPED * most:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, more = message.get("body", b""), message.get("more_body", False)
        taken += len(piece)
        if taken <= most:
            raw += piece
            shared.body_bytes += len(piece)
            coming.size = len(raw)
            if len(raw) > _READ_AT_ONCE:
                shared.bodies.make_room(shared.body_bytes - shared.config.bodies_bytes)
    if taken > most:
        raise _too_large(most)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body has more than {most:,} bytes")
