"""The address of a server, as a person types it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from msgspec import Struct

from llm_lite.core.errors import RequestError
from llm_lite.core.messages.remote import ApiKey
from llm_lite.core.plain_text import quote

LONGEST = 500  # characters
LONGEST_KEY = 4096
EXAMPLE = "http://127.0.0.1:8000"


class Address(Struct, frozen=True):
    base: str  # "http://gpu-box:8000": what stands before /v1

    @property
    def host(self) -> str:
        """Return the address with its port, and with what stands before /v1, for sentences."""
        return self.base.partition("://")[2]

    @property
    def is_here(self) -> bool:
        """Return True for an address on this machine, for which proxies are not asked."""
        name = urlsplit(self.base).hostname or ""
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name == "localhost"

    def model_path(self, model: str) -> str:
        """Return a path that tells the server's model from all others, as a file's path does."""
        return f"{self.base}/v1/models/{model}"


def read_address(text: str) -> Address:
    """Read an address, with or without http:// and /v1. RequestError says what is wrong."""
    text = text.strip()
    if not text or len(text) > LONGEST or not text.isprintable() or " " in text:
        raise RequestError(
            f"{quote(text)} is no address: expected one of a server, such as {EXAMPLE}"
        )
    whole = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError as error:
        raise RequestError(f"{quote(text)} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError(
            f"{quote(text)} is no address of a server: expected http:// or https:// and a name"
        )
    if "@" in parts.netloc:
        raise RequestError(
            f"the address of {parts.hostname} has a password in it: give the key in its own field"
        )
    if parts.query or parts.fragment:
        raise RequestError(f"{quote(text)}: expected an address without ? and #")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = name if port is None else f"{name}:{port}"
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return Address(f"{parts.scheme}://{place}{path}")


def read_key(text: str) -> ApiKey:
    """Read a key. RequestError for what no key can be."""
    text = text.strip()
    if len(text) > LONGEST_KEY or not (text.isascii() and text.isprintable()) or " " in text:
        raise RequestError("the key has characters that no key has: copy it again")
    return ApiKey(text)
