"""The one access to the network: huggingface_hub, imported when it is needed, silent and bounded.

What the environment says holds: HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_HUB_OFFLINE,
HF_HUB_DOWNLOAD_TIMEOUT and the proxies. Telemetry is off. A list or a description that a server
sends may have so many bytes and take so many seconds; files are bounded by who reads them.
"""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from llm_lite.core.errors import CancelledError, LlmLiteError, RequestError
from llm_lite.core.hub.local.places import huggingface
from llm_lite.core.hub.remote.failures import (
    HubError,
    HubOfflineError,
    HubStatusError,
    HubUnreachableError,
    refusal,
    unreachable,
)
from llm_lite.core.plain_text import quote

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi

T = TypeVar("T")
PUBLIC_HUB = "https://huggingface.co"
_TIMEOUT = 10.0  # seconds without a byte
_RETRIES = 2
_FIRST_WAIT = 1.0  # seconds, then twice as long each time
LONGEST_WAIT = 120.0  # seconds that a hub may ask for
_QUIET = ("huggingface_hub", "filelock", "httpx2", "httpcore2")

Stop = Callable[[], bool]


def never() -> bool:
    return False


class Hub(Struct, frozen=True):
    """The hub in use, and the cache of its files."""

    endpoint: str
    cache: Path
    offline: bool
    timeout: float  # seconds without a byte

    @property
    def name(self) -> str:
        """Return the endpoint for sentences, without the password that may be in it."""
        return re.sub(r"//[^/@]*@", "//", self.endpoint)


def hub_of_environment() -> Hub:
    """Return the hub that the environment names. RequestError names the variable that is not
    usable."""
    endpoint = (os.environ.get("HF_ENDPOINT") or PUBLIC_HUB).rstrip("/")
    if not endpoint.startswith(("http://", "https://")) or len(endpoint) > 500:
        raise RequestError(
            f"HF_ENDPOINT is {quote(endpoint)}, expected the address of a hub, such as {PUBLIC_HUB}"
        )
    offline = any(
        os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )
    return Hub(endpoint, cache_folder(), offline, timeout_of_environment())


def cache_folder() -> Path:
    """Return the folder in which huggingface_hub keeps files, by its own rules."""
    found = huggingface.folders()
    if not found:
        raise RequestError("there is no home directory for models: set HF_HOME to a folder")
    return found[0].absolute()


def timeout_of_environment() -> float:
    text = os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT")
    if not text:
        return _TIMEOUT
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= 86400):
        raise RequestError(
            f"HF_HUB_DOWNLOAD_TIMEOUT is {quote(text)}, expected whole seconds from 1 to 86400"
        )
    return float(text)


@cache
def library() -> Any:
    """Import huggingface_hub, which reads its variables and sets up its log at that time."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_SYMLINKS_WARNING"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import huggingface_hub
            import huggingface_hub.file_download
            import huggingface_hub.utils
        except ImportError as error:
            name = quote(error.name or "")
            raise RequestError(
                f"the hub cannot be asked: Python's module {name} is missing; run "
                "`pip install huggingface_hub`"
            ) from None
        except ValueError as error:  # a variable of its own that it does not understand
            raise RequestError(
                "the hub cannot be asked: huggingface_hub does not understand one of its "
                f"variables, such as HF_HUB_ETAG_TIMEOUT: {error}"
            ) from None
    warnings.filterwarnings("ignore", module="huggingface_hub")
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = False
        logger.setLevel(logging.CRITICAL)
    from llm_lite.core.hub.remote.client import make_client

    huggingface_hub.set_client_factory(lambda: make_client(timeout_of_environment))
    return huggingface_hub


def api(hub: Hub) -> HfApi:
    found: HfApi = library().HfApi(endpoint=hub.endpoint, library_name="llm-lite")
    return found


def headers() -> dict[str, str]:
    """Return the headers, with the token if the environment or a login has one."""
    made: dict[str, str] = library().utils.build_hf_headers(library_name="llm-lite")
    token = made.get("authorization", "")
    if not (token.isascii() and token.isprintable()):
        raise RequestError("HF_TOKEN has characters that no token has: copy it again from the hub")
    return made


def call_hub(hub: Hub, work: Callable[[HfApi], T], *, repo: str = "", stop: Stop = never) -> T:
    """Return the result of `work` on the hub's API, tried again where it fails for a moment.
    HubError, CancelledError."""
    refuse_offline(hub, repo)
    headers()  # says what is wrong with the token
    from llm_lite.core.hub.remote.client import one_question

    wait = _FIRST_WAIT
    for attempt in range(_RETRIES + 1):
        try:
            with one_question(stop):
                return translated(hub, lambda: work(api(hub)), repo=repo)
        except (HubStatusError, HubUnreachableError) as error:
            seconds = pause_after(error, wait)
            if attempt == _RETRIES or seconds is None:
                raise
        sleep(seconds, stop)
        wait *= 2
    raise AssertionError("unreachable")


def refuse_offline(hub: Hub, what: str = "") -> None:
    if hub.offline:
        raise HubOfflineError(
            f"HF_HUB_OFFLINE is set, so {hub.name} is not asked" + (f" for {what}" if what else "")
        )


def pause_after(error: HubError, wait: float) -> float | None:
    """Return the seconds until another try; None if that is of no use."""
    if isinstance(error, HubUnreachableError):
        return wait
    if not isinstance(error, HubStatusError):
        return None
    if error.status == 429:
        asked = wait if error.wait is None else error.wait
        return asked if asked <= LONGEST_WAIT else None
    return wait if error.status in (408, 500, 502, 503, 504) else None


def sleep(seconds: float, stop: Stop) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if stop():
            raise CancelledError("stopped")
        time.sleep(min(0.1, left))


def translated(hub: Hub, work: Callable[[], T], *, repo: str = "", file: str = "") -> T:
    """Run `work` and raise every failure of the library as a sentence; our own errors pass
    through."""
    found = library()
    import httpx2

    try:
        return work()
    except LlmLiteError:
        raise
    except found.errors.HfHubHTTPError as error:
        raise status_error(hub, error.response, repo=repo, file=file) from None
    except found.errors.OfflineModeIsEnabled:
        raise HubOfflineError(f"HF_HUB_OFFLINE is set, so {hub.name} is not asked") from None
    except found.utils.HFValidationError:
        raise HubError(f"{quote(repo)} is no name of a repository, expected OWNER/NAME") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise HubUnreachableError(unreachable(hub.name, error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        # JSON of another shape than the hub's; the library checks none of it before
        raise HubError(
            f"{hub.name} does not answer as a hub does"
            f"{f' about {repo}' if repo else ''}: {type(error).__name__} {quote(str(error))}"
        ) from None


def status_error(hub: Hub, response: httpx2.Response, *, repo: str, file: str = "") -> HubError:
    headers = response.headers
    sentence = refusal(
        response.status_code,
        headers.get("X-Error-Code", ""),
        headers.get("X-Error-Message", ""),
        endpoint=hub.name,
        repo=repo,
        file=file,
        signed="authorization" in response.request.headers,
    )
    wait = _requested_wait(headers)
    if response.status_code == 429 and wait is not None and wait > LONGEST_WAIT:
        sentence += f"; it asks to wait {wait / 60:.0f} min"
    return HubStatusError(response.status_code, sentence, wait, headers.get("X-Error-Code", ""))


def _requested_wait(headers: httpx2.Headers) -> float | None:
    """Return Retry-After, or what is left of the window of `ratelimit`, in seconds."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    limit = library().utils.parse_ratelimit_headers(headers)
    return None if limit is None or limit.remaining else float(limit.reset_in_seconds)
