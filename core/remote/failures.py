"""The failures of a server or of the way to it, a sentence each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import lines, one_line, shortened

_LONGEST = 300  # characters of a server's sentence
_LONGEST_WAIT = 86_400.0  # seconds


class RemoteError(RequestError):
    """Raised if a server cannot give what was requested."""


class RemoteStatusError(RemoteError):
    """An answer with a status of HTTP other than success; `server_sentence` is the server's own
    sentence, `wait` the seconds that it asks to wait."""

    def __init__(
        self, status: int, sentence: str, server_sentence: str, wait: float | None
    ) -> None:
        super().__init__(sentence)
        self.status, self.server_sentence, self.wait = status, server_sentence, wait


def refusal(
    host: str, path: str, status: int, headers: Mapping[str, str], body: bytes, has_key: bool
) -> RemoteStatusError:
    server_sentence = message_of(body)
    behind = f": {server_sentence}" if server_sentence else ""
    wait = retry_after(headers.get("Retry-After", ""))
    if 300 <= status < 400:
        to = shortened(one_line(headers.get("Location", "")), 200)
        sentence = f"{host} sends us on to {to}, which is not followed: connect to that address"
    elif status in (401, 403):
        refused = "refuses the key" if has_key else "wants a key"
        sentence = f"{host} {refused} ({status}){behind}"
    elif status == 404:
        sentence = f"{host} has no {path} (404){behind}"
        if not server_sentence:
            sentence += "; expected a server with OpenAI's protocol"
    elif status == 429:
        again = f"; try again in {wait:.0f} s" if wait is not None else "; try again later"
        sentence = f"{host} has too much to do (429){behind}{again}"
    elif status >= 500:
        sentence = f"{host} failed ({status}){behind}"
    else:
        sentence = f"{host} refuses the request ({status}){behind}"
    return RemoteStatusError(status, sentence, server_sentence, wait)


def message_of(body: bytes) -> str:
    """Return the sentence in an error's JSON, which servers put in several places; else short plain
    text."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "" if "<" in text[:200] else _short(text)
    return error_message(value)


def error_message(value: Any) -> str:
    for _ in range(4):  # {"error": {"message": ...}}, {"detail": [{"msg": ...}]}, {"message": ...}
        if isinstance(value, str):
            return _short(value)
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict):
            names = ("error", "message", "detail", "msg", "error_message")
            value = next((value[name] for name in names if value.get(name)), None)
    return _short(value) if isinstance(value, str) else ""


def _short(text: str) -> str:
    return shortened(" ".join(lines(text[:4096]).split()), _LONGEST).rstrip(".")


def retry_after(text: str) -> float | None:
    """Return the seconds of a number of them or until a date."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), _LONGEST_WAIT)
    try:
        seconds = parsedate_to_datetime(text[:64]).timestamp() - time.time()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), _LONGEST_WAIT)
