"""The connection to a server: the model that answers the chat, the server that is asked, and the
recent addresses with their form in the settings."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.messages.remote import NO_KEY, ApiKey, HeldCache, RemoteModel, RemoteServer
from llm_lite.core.plain_text import lines
from llm_lite.core.records import replace, repr_without

MOST_RECENT = 8  # addresses
LONGEST_ADDRESS = 500  # characters
LONGEST_NAME = 300
LONGEST_KEY = 4096


class Connection(Struct, frozen=True):
    """The server and its model that answer the chat."""

    server: RemoteServer
    model: RemoteModel

    @property
    def where(self) -> str:
        """Return the server and its host, as "vLLM · gpu-box:8000"."""
        return f"{self.server.title} · {self.server.host}"


class RecentAddress(Struct, frozen=True):
    """An address that was used; its key only where a person has it kept."""

    address: str
    model: str = ""
    key: ApiKey = NO_KEY


class RemoteState(Struct, frozen=True):
    connection: Connection | None = None
    requested_address: str = ""  # the address that is asked who is there; "": none
    found: RemoteServer | None = None  # who is there: one of its models is to be chosen
    problem: str = ""  # a sentence, of the address that was asked last
    recent: tuple[RecentAddress, ...] = ()  # the last one first
    cache: HeldCache | None = None  # of the last answer, where the server tells it

    def of_next_conversation(self) -> RemoteState:
        return replace(self, cache=None)

    def of_next_model(self) -> RemoteState:
        return replace(self, cache=None)

    def used(self, address: str, model: str, key: ApiKey) -> RemoteState:
        """Put an address that works first among the recent ones."""
        others = tuple(one for one in self.recent if one.address != address)
        recent = (RecentAddress(address, model, key), *others)[:MOST_RECENT]
        return replace(self, recent=recent)

    def known(self, address: str) -> RecentAddress | None:
        return next((one for one in self.recent if one.address == address), None)


class KeptAddress(Struct, frozen=True):
    """A recent address as the settings have it, with its key only where a person wanted that."""

    address: Annotated[str, Meta(max_length=LONGEST_ADDRESS, pattern="^https?://")]
    model: str = ""
    key: str = ""
    __repr__ = repr_without("key")


def kept_addresses(found: Any, problems: list[str]) -> tuple[KeptAddress, ...]:
    """Return the addresses in the settings, which are untrusted; what is none is a problem and left
    out. A key is never part of a problem."""
    if not isinstance(found, list):
        problems.append("settings: addresses is not a list; it is left empty.")
        return ()
    good = [one for row in found[:MOST_RECENT] if (one := _kept(row)) is not None]
    if len(good) < len(found[:MOST_RECENT]):
        problems.append("settings: addresses: some entries are no addresses, and are left out.")
    return tuple(good)


def _kept(row: Any) -> KeptAddress | None:
    try:
        kept = convert(row, KeptAddress)
    except CheckError:
        return None
    key = kept.key
    whole = key if len(key) <= LONGEST_KEY and key.isascii() and key.isprintable() else ""
    return KeptAddress(lines(kept.address), lines(kept.model[:LONGEST_NAME]), whole)
