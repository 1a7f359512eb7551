"""`Guard` checks key, host and origin of every request.

- A page of another server may make a browser send requests here. Its Origin is not ours, so it is
  refused, unless it was named (`--cors-origin`); and `call.read_body` takes only the type
  application/json, which a browser sends for a page of another server only after it has asked.
  Ours is a name that was given (`--host-name`), too: a proxy may send the name behind it as Host.
- A name of another server may be made to lead here (DNS rebinding). The Host of such a request is
  that name, so names are known: those of loopback, of this machine, and those that were given.
  Addresses in digits are no names.
- A key is compared in constant time, and stands in no log and no answer.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
import traceback
from collections.abc import Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_lite.core.plain_text import quote
from llm_lite.server.call import address_of
from llm_lite.server.config import LOOPBACK
from llm_lite.server.event_bridge import ClientLeft
from llm_lite.server.failures import ApiError
from llm_lite.server.schema import IGNORED
from llm_lite.server.sending import sent_in_pieces
from llm_lite.server.shared import Shared

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
_UNLESS_SAID = (  # a page says its own
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
_EXPOSED = f"retry-after, {IGNORED}".encode()  # to pages of other servers that may ask
_OWN_RESOURCES = (b"cross-origin-resource-policy", b"same-origin")
_USUAL = b"authorization, content-type, x-api-key"
_NAMES = re.compile(rb"[A-Za-z0-9, -]{1,1000}")
_SLASHES = re.compile("/{2,}")
Headers = dict[bytes, bytes]


class Guard:
    """A filter of requests. `open_paths` are for all, without a key; one that ends with a slash
    stands for all below it."""

    def __init__(self, app: ASGIApp, shared: Shared, open_paths: Iterable[str]) -> None:
        self._app, self._shared = app, shared
        self._open = tuple(open_paths)
        config = shared.config
        self._most = config.header_bytes
        self._key = config.api_key.encode()
        self._origins = frozenset(origin.rstrip("/").lower() for origin in config.cors_origins)
        self._names = _known_names((config.host, *config.host_names))
        self._outside = self._names - _known_names((config.host,))  # of a proxy before this server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: Headers = dict(scope["headers"])
        send = sent_in_pieces(self._shared, scope, send)
        scope = {**scope, "path": _plain(scope["path"])}
        send = self._dressed(send, headers)
        address = address_of(Request(scope))
        try:
            self._check(scope, headers, address)
        except ApiError as error:
            await error.response()(scope, receive, send)
            return
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await _allow(send, headers)
            return
        self._shared.active.begin(address)
        try:
            await self._app(scope, receive, send)
        except ClientLeft:  # its connection is closed
            return
        except Exception:  # in a stream that has begun: its connection is closed
            self._shared.log(f"internal error, please report it: {traceback.format_exc()}")
            raise
        finally:
            self._shared.active.end(address)

    def _check(self, scope: Scope, headers: Headers, address: str) -> None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self._most:
            raise ApiError(431, "the head of the request is too large")
        self._check_host(headers.get(b"host", b"").decode("latin-1"))
        self._check_origin(headers)
        if scope["method"] == "OPTIONS" or self._is_open(scope["path"]):
            return
        if self._key and not hmac.compare_digest(_key_of(headers), self._key):
            problem = (
                "the key is not the one of this server"
                if _key_of(headers)
                else ("a key is asked for, in the header Authorization: Bearer KEY")
            )
            raise ApiError(401, problem, code="invalid_api_key")
        self._shared.active.check(address)

    def _is_open(self, path: str) -> bool:
        return any(
            path == one or (len(one) > 1 and one.endswith("/") and path.startswith(one))
            for one in self._open
        )

    def _check_host(self, host: str) -> None:
        name = _without_port(host).lower().rstrip(".")
        if name not in self._names and not _is_address(name):
            problem = f"{quote(host)} is no name of this server; --host-name allows it"
            raise ApiError(403, problem, code="unknown_host")

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get(b"origin")
        if origin is None:
            is_foreign = headers.get(b"sec-fetch-site") == b"cross-site"
            if is_foreign and not _is_followed_link(headers) and not self._origins:
                raise ApiError(403, "a page of another server asks", code="unknown_origin")
            return
        if self._is_own(origin, headers) or self._is_allowed(origin):
            return
        shown = quote(origin.decode("latin-1"))
        problem = f"pages of {shown} may not ask; --cors-origin allows them"
        raise ApiError(403, problem, code="unknown_origin")

    def _is_own(self, origin: bytes, headers: Headers) -> bool:
        name = origin.partition(b"://")[2]
        if name == headers.get(b"host", b"-"):
            return True
        outside = name.decode("latin-1").lower()  # without a port: a proxy has the usual one
        return outside in self._outside and not _is_address(outside)

    def _is_allowed(self, origin: bytes) -> bool:
        return "*" in self._origins or origin.decode("latin-1").lower() in self._origins

    def _dressed(self, send: Send, headers: Headers) -> Send:
        """Return the answer with the headers that every answer has."""
        origin = headers.get(b"origin")
        allowed = origin if origin is not None and self._is_allowed(origin) else None

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                named = {name.lower() for name, _ in given}
                given += _ALWAYS
                given += (pair for pair in _UNLESS_SAID if pair[0] not in named)
                if allowed is None:
                    given.append(_OWN_RESOURCES)
                else:
                    given += ((b"access-control-allow-origin", allowed), (b"vary", b"origin"))
                    given.append((b"access-control-expose-headers", _EXPOSED))
                message = {**message, "headers": given}
            await send(message)

        return dressed


async def _allow(send: Send, asked: Headers) -> None:
    """Answer what a browser asks before it sends a request of a page of another server."""
    names = asked.get(b"access-control-request-headers", b"")
    headers = [
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", names if _NAMES.fullmatch(names) else _USUAL),
        (b"access-control-max-age", b"600"),
    ]
    if asked.get(b"access-control-request-private-network") == b"true":
        headers.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _is_followed_link(headers: Headers) -> bool:
    """Return whether a person follows a link to a page of this server: the other server gets
    nothing of it."""
    mode, target = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
    return mode == b"navigate" and target == b"document"


def _plain(path: str) -> str:
    """Return a path without the slashes that a base URL with one at its end makes."""
    return _SLASHES.sub("/", path).rstrip("/") or "/"


def _key_of(headers: Headers) -> bytes:
    given = headers.get(b"authorization", b"")
    if given[:7].lower() == b"bearer ":
        return given[7:].strip()
    return headers.get(b"x-api-key", b"")


def _known_names(given: Iterable[str]) -> frozenset[str]:
    machine = socket.gethostname().lower()
    names = {*LOOPBACK, machine, f"{machine}.local", *(name.lower() for name in given)}
    return frozenset(name.strip("[]") for name in names)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
