"""The proxies that the environment names. One that is not usable ends only requests that would go
through it: desktops set ALL_PROXY to one of SOCKS beside a HTTPS_PROXY, and the HTTP library then
refuses to make a client at all."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.request import getproxies

import httpx2

from llm_lite.core.errors import RequestError
from llm_lite.core.plain_text import quote


def routes() -> dict[str, Any]:
    """Return arguments of the library's client: where requests go, by HTTP_PROXY, HTTPS_PROXY,
    ALL_PROXY and NO_PROXY. A request raises RequestError if its proxy is not usable."""
    named = getproxies()
    direct = [host.strip() for host in named.get("no", "").split(",")]
    mounts: dict[str, httpx2.BaseTransport | None] = {}
    for scheme in () if "*" in direct else ("http", "https"):
        if address := named.get(scheme) or named.get("all"):
            mounts[f"{scheme}://"] = _through(address)
    if mounts:
        mounts |= {_pattern(host): None for host in direct if host}
    return {"transport": httpx2.HTTPTransport(), "mounts": mounts}


class _Unusable(httpx2.BaseTransport):
    def __init__(self, problem: str) -> None:
        self._problem = problem

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        raise RequestError(
            f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not usable: {quote(self._problem)}"
        )


def _through(address: str) -> httpx2.BaseTransport:
    try:
        return httpx2.HTTPTransport(proxy=address if "://" in address else f"http://{address}")
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        return _Unusable(str(error))


def _pattern(host: str) -> str:
    """Return the library's pattern for a name of NO_PROXY: a domain holds for what is below it."""
    if "://" in host:
        return host
    try:
        plain = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return f"all://{host}" if host.lower() == "localhost" else f"all://*{host}"
    return f"all://[{plain}]" if plain.version == 6 else f"all://{plain}"
