"""`ServerConfig` has what a server is told when it starts, and its limits."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

from msgspec import Struct

from llm_lite.core.records import repr_without

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServerConfig(Struct, frozen=True):
    """The configuration of a server: where it listens, who may ask, and how much. Times are in
    seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8080  # 0: one that is free
    api_key: str = ""  # "": none is asked for
    cors_origins: tuple[str, ...] = ()  # pages of other servers that may ask; "*": all
    host_names: tuple[str, ...] = ()  # names by which it is called, beside its own
    body_bytes: int = 16 << 20  # of a request
    bodies_bytes: int = 128 << 20  # of all large ones that come, or are read, at once
    sent_bytes: int = 256 << 20  # of all large answers that are being read
    body_seconds: float = 30.0  # in which all of it has to come
    header_bytes: int = 32 << 10
    header_seconds: float = 10.0  # in which a request's head has to come
    idle_seconds: float = 60.0  # that a connection stays open between requests
    unread_seconds: float = 30.0  # that a client may leave what is written unread
    unread_events: int = 8192  # that may wait for such a client
    requests: int = 256  # that are worked on at once, waiting ones too
    connections: int = 512  # of more, the one that is idle for longest is closed
    quiet_seconds: float = 10.0  # after which a stream that says nothing gets a comment
    stop_seconds: float = 3.0  # for answers to end when the server stops
    history: Path | None = None  # of the page's conversations; None: the window's
    __repr__ = repr_without("api_key")

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def page_history() -> Path:
    """Return the file of the page's own conversations, for a server that may not show those of
    the window to all who may ask."""
    from llm_lite.core.files.places import user_folder

    return user_folder("data") / "page-history.db"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may begin with 127. and lead anywhere
        return host in LOOPBACK


def network_addresses() -> tuple[str, ...]:
    """Return the IPv4 addresses of this machine at which other machines may reach it."""
    import psutil

    found = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not is_loopback(address.address)
    ]
    return tuple(dict.fromkeys(found))
