"""What the window knows of engines elsewhere: the one that answers the chat, the one that is asked
who it is, and addresses that were used."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from llm_lite.core.messages.remote import NO_KEY, ApiKey, HeldCache, RemoteModel, RemoteServer
from llm_lite.core.records import replace, repr_without

MOST_RECENT = 8  # addresses
LONGEST_ADDRESS = 500  # characters


class Connection(Struct, frozen=True):
    """The server and its model that answer the chat."""

    server: RemoteServer
    model: RemoteModel

    @property
    def where(self) -> str:
        """ "vLLM at gpu-box:8000"."""
        return f"{self.server.title} · {self.server.host}"


class RecentAddress(Struct, frozen=True):
    """An address that was used; its key only where a person has it kept."""

    address: str
    model: str = ""
    key: ApiKey = NO_KEY


class KeptAddress(Struct, frozen=True):
    """An address as the settings keep it; the key stands there only where a person wants that."""

    address: Annotated[str, Meta(max_length=LONGEST_ADDRESS, pattern="^https?://")]
    model: str = ""
    key: str = ""
    __repr__ = repr_without("key")


class RemoteState(Struct, frozen=True):
    connection: Connection | None = None
    asked: str = ""  # the address that is asked who is there; "": none
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
