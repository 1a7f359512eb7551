"""The server that the window switches on: what a person chose, and what it says of its clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from llm_lite.core.messages import ServedRequest, ServingStatus, StartServing
from llm_lite.core.records import replace, repr_without

Reach = Literal["machine", "network"]
Phase = Literal["off", "starting", "on", "stopping"]
PORTS = (1, 65535)
MOST_PARALLEL = 16
LONGEST_NAMES = 500  # characters
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
PACE_WINDOW = 3.0  # seconds of a request's tokens behind its speed
PACE_SPAN = 0.4  # seconds that they must span before it means something


class ServingChoice(Struct, frozen=True):
    """The choices that are kept. `at_start`: switch it on whenever the window opens. In the
    network, the page has the window's conversations only where a person `shares_history`. `names`
    are those by which clients call the server beside its own, as a person writes them.
    """

    reach: Reach = "machine"
    port: Annotated[int, Meta(ge=PORTS[0], le=PORTS[1])] = 8080
    parallel: Annotated[int, Meta(ge=1, le=MOST_PARALLEL)] = 4
    asks_key: bool = False
    shares_history: bool = False
    at_start: bool = False
    names: Annotated[str, Meta(max_length=LONGEST_NAMES)] = ""

    @property
    def host_names(self) -> tuple[str, ...]:
        """Return the names, in the form in which browsers send them."""
        return tuple(name for word in _words_of(self.names) if (name := host_name(word)))

    @property
    def wrong_name(self) -> str:
        """Return the first word among the names that is none; "" if all are."""
        return next((word for word in _words_of(self.names) if not host_name(word)), "")

    @property
    def needs_key(self) -> bool:
        """Tell whether clients need a key: those on other machines need one in any case."""
        return self.asks_key or self.reach == "network"

    @property
    def shows_history(self) -> bool:
        """Tell whether the page has the conversations of the window."""
        return self.reach == "machine" or self.shares_history


def host_name(word: str) -> str:
    """Return the name in a word, which may be a whole address; "" if there is none."""
    try:
        name = urlsplit(word if "://" in word else f"//{word}").hostname or ""
        if not name.isascii():
            name = name.encode("idna").decode()
    except ValueError:
        return ""
    return name.rstrip(".") if _NAME.fullmatch(name) else ""


def _words_of(names: str) -> list[str]:
    return names.replace(",", " ").split()


class Pace(Struct, frozen=True):
    """The tokens that a request had, at times within PACE_WINDOW."""

    number: int
    samples: tuple[tuple[float, int], ...] = ()  # seconds of the window's clock, tokens

    @property
    def rate(self) -> float:
        """Return tokens a second; 0 until the samples span long enough."""
        (began, first), (ended, last) = self.samples[0], self.samples[-1]
        span = ended - began
        return (last - first) / span if span >= PACE_SPAN else 0.0


class ServingState(Struct, frozen=True):
    choice: ServingChoice = field(default_factory=ServingChoice)
    phase: Phase = "off"
    asked: StartServing | None = None  # until the engine says that it does not serve
    answers: bool = False  # it does so now
    address: str = ""  # of this machine, as a browser takes it
    others: tuple[str, ...] = ()  # by which other machines reach it
    key_end: str = ""  # the last characters of the key; "": none is asked for
    fresh_key: str = ""  # a new one, until it was seen
    problem: str = ""  # why it is off, or does not answer
    status: ServingStatus = field(default_factory=ServingStatus)
    paces: tuple[Pace, ...] = ()
    cancelling: frozenset[int] = frozenset()  # numbers of requests
    __repr__ = repr_without("fresh_key")

    @property
    def running(self) -> tuple[ServedRequest, ...]:
        return tuple(request for request in self.status.requests if not request.waiting)

    @property
    def waiting(self) -> tuple[ServedRequest, ...]:
        return tuple(request for request in self.status.requests if request.waiting)

    @property
    def rate(self) -> float:
        """Return the tokens a second of all requests together."""
        return sum(pace.rate for pace in self.paces)

    def rate_of(self, number: int) -> float:
        return next((pace.rate for pace in self.paces if pace.number == number), 0.0)

    def with_status(self, status: ServingStatus, now: float) -> ServingState:
        """Return the state with what the service reports at `now`."""
        numbers = {request.number for request in status.requests}
        known = {pace.number: pace for pace in self.paces}
        running = (request for request in status.requests if not request.waiting)
        paces = tuple(_paced(known.get(r.number), r, now) for r in running)
        return replace(self, status=status, paces=paces, cancelling=self.cancelling & numbers)


def _paced(known: Pace | None, request: ServedRequest, now: float) -> Pace:
    """Add a sample. Seconds while the prompt is read do not count: they begin with the first
    token."""
    before = known.samples if known is not None else ()
    recent = [(at, count) for at, count in before if now - at <= PACE_WINDOW and count]
    return Pace(request.number, (*recent, (now, request.new_tokens)))


def in_order(requests: Iterable[ServedRequest]) -> list[ServedRequest]:
    """List requests that are answered before those that wait; the oldest first."""
    return sorted(requests, key=lambda request: (request.waiting, request.number))
