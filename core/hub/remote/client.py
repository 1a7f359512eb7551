"""The HTTP client of huggingface_hub with limits. Imported after that library only, by `access`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx2
from huggingface_hub.utils._http import hf_raise_for_status, hf_request_event_hook

from llm_lite.core.errors import CancelledError
from llm_lite.core.hub.remote import heads, proxies
from llm_lite.core.hub.remote.failures import HubError, HubUnreachableError, unreachable
from llm_lite.core.plain_text import quote

MOST_BYTES = 16 << 20  # of a hub's answer about models
MOST_SECONDS = 60.0
STREAMED = "llm_lite_streamed"  # an extension of a request whose answer its reader bounds
_TIMEOUT = 10.0
_MOST_PAGES = 20  # of a list; a hub's own have up to a thousand rows
_FOR_A_MOMENT = (408, 429, 500, 502, 503, 504)


class _PagedQuestion(threading.local):
    """The current question of a thread: a list may go on page after page, as its hub says."""

    pages = 0
    stop: Callable[[], bool] | None = None


_question = _PagedQuestion()


@contextlib.contextmanager
def one_question(stop: Callable[[], bool]) -> Iterator[None]:
    """Count the pages of a question: HubError for a list without an end, CancelledError between
    two."""
    _question.pages, _question.stop = 0, stop
    try:
        yield
    finally:
        _question.stop = None


def _count_page(url: httpx2.URL) -> None:
    if _question.stop is None:
        return
    if _question.stop():
        raise CancelledError("stopped")
    _question.pages += 1
    if _question.pages > _MOST_PAGES:
        raise HubError(
            f"{_origin(url)} sends a list without an end, expected at most {_MOST_PAGES} pages"
        )


def make_client(timeout: Callable[[], float]) -> httpx2.Client:
    """Make the client of requests, which raise RequestError where the environment names a proxy
    that is not usable."""

    def limit(request: httpx2.Request) -> None:
        if not request.extensions.get(STREAMED):
            request.extensions = dict(request.extensions) | {
                "timeout": httpx2.Timeout(timeout()).as_dict()
            }
        # What is counted is what is kept: a small answer could unpack to gigabytes.
        request.headers["Accept-Encoding"] = "identity"
        slow = partial(_slow_head, _origin(request.url))
        request.extensions = dict(request.extensions) | {"trace": partial(heads.trace, slow)}

    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [hf_request_event_hook, limit],
        "response": [_bound],
    }
    return _Client(event_hooks=hooks, follow_redirects=True, timeout=_TIMEOUT, **proxies.routes())


class _Client(httpx2.Client):
    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Failures are raised at once: the library would try again for half a minute, in silence,
        and longer where a hub asks for it."""
        _count_page(request.url)
        try:
            answer = super().send(request, **options)
        except (httpx2.TooManyRedirects, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise HubError(
                f"{_origin(request.url)} sends us on to where nothing is fetched from: "
                f"{quote(str(error))}"
            ) from None
        except httpx2.TransportError as error:
            raise HubUnreachableError(unreachable(_origin(request.url), error)) from None
        if answer.status_code in _FOR_A_MOMENT and not request.extensions.get(STREAMED):
            hf_raise_for_status(answer)
        return answer


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def _bound(response: httpx2.Response) -> None:
    if response.request.extensions.get(STREAMED) and response.is_success:
        return
    host = response.request.url.host
    coding = response.headers.get("Content-Encoding", "identity").lower()
    if coding not in ("identity", ""):
        raise HubError(
            f"{host} sends its answer packed as {quote(coding)}, which was not asked for"
        )
    length = response.headers.get("Content-Length", "")
    if length.isascii() and length.isdigit() and int(length[:18]) > MOST_BYTES:
        raise _too_much(host, int(length[:18]))
    if isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _Bounded(response.stream, host)


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, host: str) -> None:
        self._stream, self._host = stream, host

    def __iter__(self) -> Iterator[bytes]:
        count, end = 0, time.monotonic() + MOST_SECONDS
        for piece in self._stream:
            count += len(piece)
            if count > MOST_BYTES:
                raise _too_much(self._host, None)
            if time.monotonic() > end:
                raise HubError(f"{self._host} takes more than {MOST_SECONDS:.0f} s for an answer")
            yield piece

    def close(self) -> None:
        self._stream.close()


def _slow_head(host: str) -> HubError:
    return HubError(
        f"{host} takes more than {heads.MOST_SECONDS:.0f} s to send the head of its answer"
    )


def _too_much(host: str, count: int | None) -> HubError:
    size = "without end" if count is None else f"of {count / 1e6:,.0f} MB"
    return HubError(
        f"{host} sends an answer {size}, expected at most {MOST_BYTES >> 20} MiB about models"
    )
