"""HTTP with limits, through the library that huggingface_hub brings; imported when it is needed.

One connection a request, which another thread can end at any time: also while the server is silent.
Redirects are not followed, so that a key goes nowhere else. Nothing is logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from llm_lite.core.errors import CancelledError
from llm_lite.core.hub.remote import heads
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.plain_text import one_line, quote, shortened
from llm_lite.core.remote.address import Address
from llm_lite.core.remote.failures import RemoteError, refusal
from llm_lite.core.remote.sse import EventReader
from llm_lite.core.remote.unpacking import unpacked

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
TELL_SECONDS = 15.0  # for what a server tells of itself
MOST_BYTES = 16 << 20  # of it
FIRST_SECONDS = 900.0  # without a byte: a long prompt is read first
_ERROR_BYTES = 64 << 10  # of a refusal's text
_QUIET = ("httpx2", "httpcore2")


class Exchange:
    """A request under way. `cancel`, from any thread, ends it at once: the waiting thread gets
    CancelledError."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        self.hang_up()

    def hang_up(self) -> None:
        """End the connection, from any thread: who waits for more gets RemoteError."""
        with self._lock:
            for line in self._sockets:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """Note the sockets that the library opens."""
        stream: Any = info.get("return_value")
        line = stream.get_extra_info("socket") if hasattr(stream, "get_extra_info") else None
        if not isinstance(line, socket.socket):
            return
        with self._lock:
            self._sockets.append(line)
        if self.cancelled:
            self.cancel()


class Client:
    """The client of one server. RemoteError says what it refuses, CancelledError that
    `Exchange.cancel` was called."""

    def __init__(self, address: Address, key: ApiKey) -> None:
        self.address, self._key = address, key

    def get_json(self, path: str, exchange: Exchange, seconds: float = TELL_SECONDS) -> Any:
        return self._parsed(path, self.fetch("GET", path, None, exchange, seconds))

    def post_json(
        self, path: str, body: Any, exchange: Exchange, seconds: float = TELL_SECONDS
    ) -> Any:
        return self._parsed(path, self.fetch("POST", path, body, exchange, seconds))

    def fetch(
        self,
        method: str,
        path: str,
        body: Any,
        exchange: Exchange,
        seconds: float = TELL_SECONDS,
        most: int = MOST_BYTES,
    ) -> bytes:
        """Return the whole answer, of at most `most` bytes in `seconds`."""
        end = time.monotonic() + seconds
        with self._open(method, path, body, exchange, seconds) as answer:
            found = bytearray()
            for piece in self._body(answer):
                found += piece
                if len(found) > most:
                    raise RemoteError(
                        f"{self.address.host} answers {path} with more than {most >> 20} MiB"
                    )
                if time.monotonic() > end:
                    raise RemoteError(
                        f"{self.address.host} takes more than {seconds:.0f} s to answer {path}"
                    )
            return bytes(found)

    def stream(
        self, path: str, body: Any, exchange: Exchange, reader: EventReader
    ) -> Generator[str, None, None]:
        """Yield the data of the events with which a server answers; a whole JSON is one event."""
        with self._open("POST", path, body, exchange, FIRST_SECONDS) as answer:
            pieces = self._body(answer)
            first = next(pieces, b"")
            kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
            pieces = chain((first,), pieces)
            if kind.endswith("json") and "nd" not in kind and first.lstrip()[:1] in b"{[":
                yield b"".join(_at_most(pieces, self.address.host)).decode("utf-8", "replace")
                return
            yield from reader.read(pieces)

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, body: Any, exchange: Exchange, seconds: float
    ) -> Iterator[httpx2.Response]:
        import httpx2

        from llm_lite.core.hub.remote import proxies

        _silence()
        self._raise_if_cancelled(exchange)
        host = self.address.host
        client = httpx2.Client(
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=not self.address.is_here,
            **({} if self.address.is_here else proxies.routes()),
        )
        content = None if body is None else self._written(body)

        def trace(name: str, info: dict[str, Any]) -> None:
            exchange.trace(name, info)
            heads.trace(self._slow_head, name, info)

        try:
            with (
                client,
                client.stream(
                    method,
                    self.address.base + path,
                    content=content,
                    headers=self._headers(body is not None),
                    extensions={"trace": trace},
                ) as answer,
            ):
                if not answer.is_success:
                    raise self._refusal(path, answer)
                yield answer
        except httpx2.TimeoutException as error:
            self._raise_if_cancelled(exchange)
            raise RemoteError(_slow(host, error, seconds)) from None
        except (httpx2.TransportError, httpx2.StreamError) as error:
            self._raise_if_cancelled(exchange)
            raise RemoteError(_unreachable(host, error)) from None
        except httpx2.InvalidURL as error:
            raise RemoteError(f"{host} is no address: {quote(str(error))}") from None

    def _written(self, body: Any) -> bytes:
        try:
            return json.dumps(body, ensure_ascii=True, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:  # NaN, or an integer of 5,000 digits
            problem = f"what is asked of {self.address.host} is no JSON: {quote(str(error))}"
            raise RemoteError(problem) from None

    def _headers(self, has_body: bool) -> dict[str, str]:
        found = {"Accept-Encoding": "identity", "User-Agent": "llm-lite"}
        if has_body:
            found["Content-Type"] = "application/json"
        if self._key:
            found["Authorization"] = f"Bearer {self._key.text}"
        return found

    def _refusal(self, path: str, answer: httpx2.Response) -> RemoteError:
        import httpx2

        body = bytearray()
        with contextlib.suppress(httpx2.HTTPError, RemoteError):
            for piece in self._body(answer):
                body += piece[: _ERROR_BYTES - len(body)]
                if len(body) >= _ERROR_BYTES:
                    break
        return refusal(
            self.address.host,
            path,
            answer.status_code,
            answer.headers,
            bytes(body),
            bool(self._key),
        )

    def _slow_head(self) -> RemoteError:
        return RemoteError(
            f"{self.address.host} takes more than {heads.MOST_SECONDS:.0f} s to send the head of "
            "its answer"
        )

    def _body(self, answer: httpx2.Response) -> Iterator[bytes]:
        coding = answer.headers.get("Content-Encoding", "")
        return unpacked(answer.iter_raw(), coding, self.address.host)

    def _raise_if_cancelled(self, exchange: Exchange) -> None:
        if exchange.cancelled:
            raise CancelledError("stopped") from None

    def _parsed(self, path: str, raw: bytes) -> Any:
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise RemoteError(
                f"{self.address.host} answers {path} with what is not JSON: expected a server with "
                "OpenAI's protocol"
            ) from None


def _at_most(pieces: Iterator[bytes], host: str) -> Iterator[bytes]:
    count = 0
    for piece in pieces:
        count += len(piece)
        if count > MOST_BYTES:
            raise RemoteError(f"{host} sends an answer without an end")
        yield piece


def _slow(host: str, error: Exception, seconds: float) -> str:
    import httpx2

    if isinstance(error, httpx2.ConnectTimeout):
        return f"{host} does not answer within {CONNECT_SECONDS:.0f} s: look at address and network"
    return f"{host} has sent nothing for {seconds:.0f} s"


def _unreachable(host: str, error: Exception) -> str:
    import httpx2

    reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error).strip()) or type(error).__name__
    if isinstance(error, httpx2.ConnectError):
        return (
            f"{host} cannot be reached ({shortened(one_line(reason), 300)}): is the server "
            "running, and is the address right?"
        )
    return f"the connection to {host} ended too early"


def _silence() -> None:
    """Silence the library's log, which has a line for every request, with its address."""
    for name in _QUIET:
        logger = logging.getLogger(name)
        if logger.propagate:
            logger.handlers[:] = [logging.NullHandler()]
            logger.propagate = False
            logger.setLevel(logging.CRITICAL)
